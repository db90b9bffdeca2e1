"""Events live: order, resuming, heartbeats, readers that are too slow, and a server that stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from dure.api.server import Server
from dure.api.stream import BATCH, GREETING, HEARTBEAT, Stream
from tests.unit.api.clients import TOKEN
from tests.unit.api.small_world import SmallWorld

HEADERS = {"authorization": f"Bearer {TOKEN}", "accept": "text/event-stream"}


@pytest.fixture
async def stream(world: SmallWorld) -> AsyncIterator[Stream]:
    running = Stream(world, frames=4, heartbeat_s=0.02)
    task = asyncio.create_task(running.run())
    yield running
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def newest(world: SmallWorld) -> int:
    return world.store.list_events(limit=1, newest=True)[-1].seq


async def next_event(frames: AsyncIterator[bytes]) -> bytes:
    while True:
        frame = await anext(frames)
        if frame not in (HEARTBEAT, GREETING):
            return frame


async def test_a_reader_gets_what_it_missed_and_then_what_happens(world: SmallWorld, stream: Stream) -> None:
    last = newest(world)
    world.tell("missed")
    frames = stream.frames(last)
    assert b"missed" in await next_event(frames)
    world.tell("live")
    frame = await next_event(frames)
    assert b"live" in frame
    assert frame.startswith(b"id: %d\n" % newest(world))


async def test_a_backlog_longer_than_one_read_comes_whole_and_in_order(world: SmallWorld, stream: Stream) -> None:
    last = newest(world)
    for number in range(BATCH + 5):
        world.tell(f"event {number}")
    frames = stream.frames(last)
    ids = [int((await next_event(frames)).split(b"\n")[0][4:]) for _ in range(BATCH + 5)]
    assert ids == list(range(last + 1, last + BATCH + 6))


async def test_a_quiet_stream_beats(stream: Stream) -> None:
    frames = stream.frames(None)
    assert [await anext(frames), await anext(frames)] == [GREETING, HEARTBEAT]


async def test_a_reader_that_does_not_keep_up_is_dropped_and_others_are_not(
    world: SmallWorld, stream: Stream
) -> None:
    slow, quick = stream.frames(newest(world)), stream.frames(newest(world))
    for frames in (slow, slow, quick, quick):
        await anext(frames)
    got = []
    for number in range(12):
        world.tell(f"event {number}")
        got.append(await next_event(quick))
    assert len(got) == 12
    left = [frame async for frame in slow if frame != HEARTBEAT]
    assert len(left) < 12
    assert stream.clients == 1


async def test_closing_ends_every_stream(stream: Stream) -> None:
    frames = stream.frames(None)
    await anext(frames)
    await anext(frames)
    stream.close()
    assert [frame async for frame in frames if frame != HEARTBEAT] == []
    assert [frame async for frame in stream.frames(None)] == [GREETING]


async def test_over_a_real_connection_a_reader_resumes_by_its_last_event(server: Server, world: SmallWorld) -> None:
    last = newest(world)
    world.tell("first")
    world.tell("second")
    async with httpx.AsyncClient(base_url=server.address.url, headers=HEADERS) as client:
        resume = {"last-event-id": str(last + 1)}
        async with client.stream("GET", "/v1/events", headers=resume) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = answer.aiter_lines()
            data = [await anext(lines) for _ in range(5)]
            assert data[2] == f"id: {last + 2}"
            assert "second" in data[4]


async def test_a_server_stops_while_readers_are_connected(server: Server) -> None:
    async with (
        httpx.AsyncClient(base_url=server.address.url, headers=HEADERS) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        lines = answer.aiter_lines()
        await anext(lines)
        await asyncio.to_thread(server.stop)
        assert [line async for line in lines if line and not line.startswith(":")] == []
