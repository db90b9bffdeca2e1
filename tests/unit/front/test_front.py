"""The serving front over real loopback HTTP: routing by work, order by deadline, failures, draining."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.front.choose import Backend, Lanes, Pace, Waiting, in_time, next_waiting, pick
from dure.front.gateway import render
from dure.front.proxy import Front, FrontSettings
from dure.front.request import Request, read_request
from tests.unit.front.scripted import scripted

Handler = Callable[[bytes], Awaitable[bytes]]


def backend(handler: Handler) -> AbstractAsyncContextManager[str]:
    """A tiny OpenAI-style backend on loopback."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        body = await handler(request.body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()

    return scripted(script)


@asynccontextmanager
async def front(urls: list[str], settings: FrontSettings) -> AsyncIterator[tuple[Front, httpx.AsyncClient]]:
    made = Front(urls, settings)
    port = await made.start("127.0.0.1", 0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        try:
            yield made, client
        finally:
            await made.stop()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("never came to hold")


async def test_a_request_passes_through_with_its_body() -> None:
    async def echo(body: bytes) -> bytes:
        return b"got " + body

    async with backend(echo) as url, front([url], FrontSettings()) as (made, client):
        answer = await client.post("/v1/completions", content=b"hello")
        assert (answer.status_code, answer.content) == (200, b"got hello")
        assert made.backends[0].active == 0


async def test_a_dead_backend_is_skipped() -> None:
    async def fine(body: bytes) -> bytes:
        return b"fine"

    async with backend(fine) as gone:
        pass
    async with backend(fine) as url, front([gone, url], FrontSettings()) as (_, client):
        answers = [(await client.post("/v1/completions", content=b"x" * n)).status_code for n in (1, 2, 3)]
        assert answers == [200, 200, 200]


async def test_nobody_left_is_said_clearly() -> None:
    async def fine(body: bytes) -> bytes:
        return b"fine"

    async with backend(fine) as gone:
        pass
    async with front([gone], FrontSettings(patience_s=0.0)) as (_, client):
        answer = await client.post("/v1/completions", content=b"x")
        assert answer.status_code == 503
        assert "no backend" in answer.text


async def test_draining_sends_new_requests_elsewhere() -> None:
    async def first(body: bytes) -> bytes:
        return b"first"

    async def second(body: bytes) -> bytes:
        return b"second"

    async with backend(first) as a, backend(second) as b, front([a, b], FrontSettings()) as (made, client):
        made.drain(a)
        assert {(await client.post("/v1/x", content=b"x")).content for _ in range(4)} == {b"second"}


async def test_a_heavy_request_keeps_light_ones_off_its_backend() -> None:
    release = asyncio.Event()
    counts = {"a": 0, "b": 0}

    def handler(name: str) -> Handler:
        async def handle(body: bytes) -> bytes:
            counts[name] += 1
            if len(body) > 1000:
                await release.wait()
            return name.encode()

        return handle

    async with (
        backend(handler("a")) as a,
        backend(handler("b")) as b,
        front([a, b], FrontSettings(mean_output=1.0)) as (made, client),
    ):
        heavy = asyncio.create_task(client.post("/v1/x", content=b"x" * 200_000))
        await until(lambda: any(backend.active for backend in made.backends))
        busy = next(backend.url for backend in made.backends if backend.active)
        for _ in range(5):
            await client.post("/v1/x", content=b"y")
        release.set()
        await heavy
        light = counts["b"] if busy == a else counts["a"]
        assert light == 5


async def test_a_full_front_queues_and_then_serves() -> None:
    release = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await release.wait()
        return body

    async with backend(slow) as url, front([url], FrontSettings(limit=1)) as (made, client):
        tasks = [asyncio.create_task(client.post("/v1/x", content=str(n).encode())) for n in range(4)]
        await until(lambda: len(made.waiting) == 3)
        release.set()
        assert sorted([(await task).content for task in tasks]) == [b"0", b"1", b"2", b"3"]


@asynccontextmanager
async def streaming(first_token: asyncio.Event, end: asyncio.Event) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A backend whose answers begin with its headers, have their first token later and end later still."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader, 1 << 20)
        assert request is not None
        assert not isinstance(request, str)
        came.append(request.body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await first_token.wait()
        writer.write(b"data: {}\n\n")
        await end.wait()
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        server.close()
        await server.wait_closed()


async def test_a_prompt_is_sent_when_those_before_it_have_had_their_first_token() -> None:
    first_token, end = asyncio.Event(), asyncio.Event()
    body = b'{"stream": true, "prompt": "%s"}' % (b"x" * 40_000)
    async with (
        streaming(first_token, end) as (url, came),
        front([url], FrontSettings(ahead_s=0.5)) as (made, client),
    ):
        tasks = [asyncio.create_task(client.post("/v1/completions", content=body)) for _ in range(3)]
        await until(lambda: len(made.waiting) == 2 and len(came) == 1)
        assert made.backends[0].prompts_s > 0.5
        first_token.set()
        await until(lambda: len(came) == 3 and not made.waiting)
        assert made.backends[0].active == 3
        end.set()
        assert [(await task).status_code for task in tasks] == [200, 200, 200]
        assert made.backends[0].prompts_s == pytest.approx(0.0)
        assert made.pace.value != 1.0


async def test_where_no_first_token_is_seen_only_the_limit_holds_requests_back() -> None:
    all_there = asyncio.Barrier(3)

    async def slow(body: bytes) -> bytes:
        await all_there.wait()
        return body

    async with backend(slow) as url, front([url], FrontSettings(ahead_s=0.0)) as (made, client):
        tasks = [asyncio.create_task(client.post("/v1/x", content=b"x" * 40_000)) for _ in range(3)]
        assert [(await task).status_code for task in tasks] == [200, 200, 200]
        assert made.backends[0].prompts_s == 0.0


async def test_malformed_and_oversized_requests_are_refused() -> None:
    async def fine(body: bytes) -> bytes:
        return b"fine"

    async with backend(fine) as url, front([url], FrontSettings(body_bytes=10)) as (_, client):
        assert (await client.post("/v1/x", content=b"x" * 11)).status_code == 400


async def test_only_what_is_below_a_named_path_passes() -> None:
    async def echo(body: bytes) -> bytes:
        return b"done: " + body

    async with (
        backend(echo) as url,
        front([url], FrontSettings(paths=("/v1/", "/tokenize"))) as (made, client),
    ):
        for path, status in {"/v1/completions": 200, "/tokenize": 200, "/sleep": 403, "/": 403}.items():
            assert (await client.post(path, content=b"x")).status_code == status
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port or 0)
        writer.write(b"POST /v1/../sleep HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        assert b" 403 " in await reader.readline()
        writer.close()
        assert (await client.get("/-/front")).status_code == 200
        assert made.counts.asked == 2


def test_late_requests_go_last_and_the_rest_in_order() -> None:
    waiting = [Waiting(1, 0.0, 1.0), Waiting(2, 9.0, 1.0), Waiting(3, 9.5, 1.0)]
    assert next_waiting(waiting, 10.0, 2.0, Lanes()) == waiting[1]
    assert next_waiting(waiting, 100.0, 2.0, Lanes()) == waiting[0]
    assert next_waiting([], 0.0, 2.0, Lanes()) is None


def test_a_long_prompt_stands_aside_where_it_would_make_others_late() -> None:
    waiting = [Waiting(1, 0.0, 1.9, 1.9), Waiting(2, 0.1, 0.5, 0.5), Waiting(3, 0.2, 0.5, 0.5)]
    assert next_waiting(waiting, 0.2, 2.0, Lanes()) == waiting[1]
    assert next_waiting(waiting[:1], 0.1, 2.0, Lanes()) == waiting[0]
    # With three at once, or prompts that take half of what was expected, all of them can be in time.
    assert in_time(waiting, 0.1, 2.0, Lanes(3)) == waiting
    assert in_time(waiting, 0.1, 2.0, Lanes(1, 0.5)) == waiting


@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.01, 2.5)), max_size=8),
    st.floats(0.0, 4.0),
)
def test_no_order_has_more_requests_in_time(asked: list[tuple[float, float]], now_s: float) -> None:
    arrived = sorted(at_s for at_s, _ in asked)
    waiting = [
        Waiting(number, at_s, work_s, work_s)
        for number, (at_s, (_, work_s)) in enumerate(zip(arrived, asked, strict=True))
    ]
    found = in_time(waiting, now_s, 2.0, Lanes())
    assert _all_in_time(found, now_s)
    most = max(
        size
        for size in range(len(waiting) + 1)
        if any(_all_in_time(some, now_s) for some in itertools.combinations(waiting, size))
    )
    assert len(found) == most


def _all_in_time(some: Sequence[Waiting], now_s: float) -> bool:
    """By arrival, which is by deadline: if that order does not do it, none does."""
    ends_s = itertools.accumulate((one.prompt_s for one in some), initial=now_s)
    next(ends_s)
    return all(end_s <= one.arrived_s + 2.0 + 1e-9 for one, end_s in zip(some, ends_s, strict=True))


def test_the_pace_follows_what_prompts_really_take() -> None:
    pace = Pace()
    assert pace.value == 1.0
    for _ in range(500):
        pace.learn(0.2, 0.6)
    assert pace.value == pytest.approx(3.0, rel=0.1)
    pace.learn(0.0, 1e9)
    assert pace.value == 20.0


def test_the_backend_with_least_work_is_picked_and_full_ones_never() -> None:
    busy, full, leaving = Backend("a", 2, 1, 5.0), Backend("b", 2, 2, 0.0), Backend("c", 2, 1, 3.0, draining=True)
    reading = Backend("d", 2, 1, 4.0, prompts_s=0.6)
    assert pick([busy, full, leaving, reading], ahead_s=0.5) is busy
    assert pick([busy, full, leaving, reading], ahead_s=1.0) is reading
    assert pick([full, leaving], ahead_s=1.0) is None


def test_the_same_policy_renders_as_gateway_resources() -> None:
    kinds = [manifest["kind"] for manifest in render("chat-7b", "search", {"app": "chat-7b"}, 8000)]
    assert kinds == ["InferencePool", "InferenceObjective", "HTTPRoute"]


def _old_and_new() -> tuple[asyncio.Event, Handler, Handler]:
    """One that answers only once it is let go, one that answers at once."""
    held = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await held.wait()
        return b"old"

    async def quick(body: bytes) -> bytes:
        return b"new"

    return held, slow, quick


async def test_backends_that_are_followed_come_at_once_and_go_with_their_last_request() -> None:
    held, slow, quick = _old_and_new()
    async with (
        backend(slow) as old,
        backend(quick) as new,
        front([], FrontSettings(patience_s=0.0)) as (made, client),
    ):
        assert (await client.post("/", content=b"x")).status_code == 503
        made.follow([old])
        first = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: made.backends[0].active == 1)
        made.follow([new])
        assert (await client.post("/", content=b"x")).content == b"new"
        assert [each.url for each in made.backends if each.draining] == [old]
        held.set()
        assert (await first).content == b"old"
        made.follow([new])
        assert [each.url for each in made.backends] == [new]


async def test_a_request_that_waits_goes_to_a_backend_that_comes() -> None:
    held, slow, quick = _old_and_new()
    async with backend(slow) as old, backend(quick) as new, front([old], FrontSettings(limit=1)) as (made, client):
        first = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: made.backends[0].active == 1)
        second = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: len(made.waiting) == 1)
        made.follow([old, new])
        assert (await second).content == b"new"
        held.set()
        assert (await first).content == b"old"


async def test_a_request_waits_for_a_backend_that_comes_in_time() -> None:
    async def quick(body: bytes) -> bytes:
        return b"here"

    async with backend(quick) as url, front([], FrontSettings()) as (made, client):
        early = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: len(made.waiting) == 1)
        made.follow([url])
        assert (await early).content == b"here"
        assert (made.served, made.refused) == (1, 0)


async def test_nobody_waits_for_ever_when_the_last_backend_goes() -> None:
    held = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await held.wait()
        return b"late"

    async with backend(slow) as url, front([url], FrontSettings(limit=1, patience_s=0.01)) as (made, client):
        first = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: made.backends[0].active == 1)
        waits = asyncio.ensure_future(client.post("/", content=b"x"))
        await until(lambda: len(made.waiting) == 1)
        made.follow([])
        assert (await waits).status_code == 503
        assert not made.waiting
        held.set()
        assert (await first).content == b"late"
