"""Requests go on upon another engine over real loopback HTTP: engines that leave, die, refuse; nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from dure.embedded.engines import Engine
from dure.embedded.words import words_of
from dure.front.choose import Work
from dure.front.events import chunk
from dure.front.proxy import Front, FrontSettings
from dure.front.request import Request
from tests.unit.front.scripted import scripted

Json = dict[str, Any]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
TOKEN_S = 0.004
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def expected(path: str, body: bytes) -> str:
    words = words_of(path.encode(), body)
    assert words is not None
    return "".join(words)


def long_requests(count: int, **more: object) -> list[tuple[str, bytes]]:
    """In turn of both kinds, each with a long answer."""
    found: list[tuple[str, bytes]] = []
    number = 0
    while len(found) < count:
        number += 1
        path = (CHAT, TEXT)[len(found) % 2]
        own: Json = {"prompt": f"story {number}"}
        if path == CHAT:
            own = {"messages": [{"role": "user", "content": f"story {number}"}]}
        body = msgspec.json.encode({**own, "stream": True, "max_tokens": 120, **more})
        if len(expected(path, body)) > 400:
            found.append((path, body))
    return found


@asynccontextmanager
async def engines(count: int = 2, work: Work | None = None) -> AsyncIterator[list[Engine]]:
    made = [Engine(work or Work(0.0, TOKEN_S, 0.0)) for _ in range(count)]
    for engine in made:
        await engine.start()
    try:
        yield made
    finally:
        for engine in made:
            engine.kill()
            await engine.stop()


@asynccontextmanager
async def front(urls: list[str], **more: Any) -> AsyncIterator[tuple[Front, httpx.AsyncClient]]:
    made = Front(urls, FrontSettings(**{"carry_s": 0.0, "ahead_s": 60.0, **more}))
    port = await made.start("127.0.0.1", 0)
    limits = httpx.Limits(max_connections=None)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60.0, limits=limits) as client:
        try:
            yield made, client
        finally:
            await made.stop()


class Reader:
    """A client and what it has got so far."""

    def __init__(self, client: httpx.AsyncClient, path: str, body: bytes) -> None:
        self.path, self.body, self.raw = path, body, b""
        self.task = asyncio.create_task(self._read(client))

    async def _read(self, client: httpx.AsyncClient) -> None:
        async with client.stream("POST", self.path, content=self.body) as answer:
            assert answer.status_code == 200
            async for raw in answer.aiter_bytes():
                self.raw += raw

    @property
    def chunks(self) -> list[Json]:
        found = [each.removeprefix(b"data: ") for each in self.raw.split(b"\n\n")]
        return [msgspec.json.decode(each) for each in found if each.startswith(b"{") and each.endswith(b"}")]

    @property
    def text(self) -> str:
        choices = [one for each in self.chunks for one in each["choices"]]
        return "".join(one.get("text") or one.get("delta", {}).get("content") or "" for one in choices)

    async def check(self) -> None:
        """It has the whole answer, as of one engine."""
        await self.task
        assert self.text == expected(self.path, self.body)
        assert self.raw.count(b"[DONE]") == 1
        assert len({(each["id"], each["created"]) for each in self.chunks}) == 1


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("never came to hold")


async def test_an_engine_that_leaves_is_empty_at_once_and_every_client_has_its_whole_text() -> None:
    async with engines() as (old, new), front([old.url]) as (made, client):
        readers = [Reader(client, *each) for each in long_requests(12)]
        await until(lambda: all(reader.text for reader in readers))
        assert old.inside == 12
        made.follow([new.url])
        await until(lambda: old.inside == 0)
        assert (old.answered, old.ended, new.answered) == (0, 12, 0)
        await asyncio.gather(*(reader.check() for reader in readers))
        assert (made.carried, made.kept, new.answered) == (12, {}, 12)
        assert (made.served, made.counts.asked, made.counts.answered) == (12, 12, 12)
        assert not made.legs
        state = (await client.get("/-/front")).json()
        assert (state["carried"], state["kept"], state["running"]) == (12, {}, 0)


async def test_the_sum_of_tokens_is_that_of_the_whole_answer() -> None:
    async with engines() as (old, new), front([old.url]) as (made, client):
        told = long_requests(2, stream_options={"include_usage": True})
        readers = [Reader(client, *each) for each in told]
        await until(lambda: all(reader.text for reader in readers))
        made.follow([new.url])
        await asyncio.gather(*(reader.check() for reader in readers))
        assert made.carried == 2
        for reader in readers:
            words = words_of(reader.path.encode(), reader.body)
            assert words is not None
            usage = reader.chunks[-1]["usage"]
            assert usage["completion_tokens"] == len(list(words))
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert made.counts.output_tokens == sum(reader.chunks[-1]["usage"]["completion_tokens"] for reader in readers)


async def test_an_engine_that_is_killed_in_mid_stream_costs_nobody_a_word() -> None:
    async with engines() as (first, second), front([first.url, second.url]) as (made, client):
        readers = [Reader(client, *each) for each in long_requests(8)]
        await until(lambda: all(reader.text for reader in readers))
        lost = first.inside
        assert 0 < lost < 8
        first.kill()
        await asyncio.gather(*(reader.check() for reader in readers))
        assert (made.carried, made.kept, second.answered) == (lost, {}, 8)


async def test_an_engine_that_is_put_to_sleep_with_requests_inside_costs_nobody_a_word() -> None:
    async with engines() as (first, second), front([first.url, second.url], carry_s=3600.0) as (made, client):
        readers = [Reader(client, *each) for each in long_requests(4)]
        await until(lambda: all(reader.text for reader in readers))
        made.follow([second.url])
        async with httpx.AsyncClient(trust_env=False) as operator:
            await operator.post(f"{first.url}/sleep?level=1&mode=abort")
        await asyncio.gather(*(reader.check() for reader in readers))
        assert made.carried > 0
        assert not any(b"abort" in reader.raw for reader in readers)


async def test_where_nobody_else_is_requests_stay_until_somebody_comes() -> None:
    async with engines() as (old, new), front([old.url]) as (made, client):
        readers = [Reader(client, *each) for each in long_requests(2)]
        await until(lambda: all(reader.text for reader in readers))
        made.follow([])
        await until(lambda: made.leaving[old.url] is None)
        had = [len(reader.text) for reader in readers]
        await until(lambda: all(len(reader.text) > before for reader, before in zip(readers, had, strict=True)))
        assert (old.inside, made.carried) == (2, 0)
        made.follow([new.url])
        await asyncio.gather(*(reader.check() for reader in readers))
        assert made.carried == 2


async def test_one_that_comes_back_in_time_keeps_what_it_has() -> None:
    async with engines() as (old, new), front([old.url], carry_s=3600.0) as (made, client):
        reader = Reader(client, *long_requests(1)[0])
        await until(lambda: bool(reader.text))
        made.follow([new.url])
        assert old.url in made.leaving
        made.follow([old.url, new.url])
        assert not made.leaving
        await reader.check()
        assert (made.carried, old.answered) == (0, 1)


async def test_what_cannot_be_continued_ends_where_it_is_and_is_counted() -> None:
    async with engines() as (old, new), front([old.url]) as (made, client):
        kinds: list[Json] = [{"logprobs": 1}, {"seed": 7}, {"n": 2}]
        readers = [Reader(client, *long_requests(1, **more)[0]) for more in kinds]
        await until(lambda: all(reader.text for reader in readers))
        made.follow([new.url])
        await asyncio.gather(*(reader.check() for reader in readers))
        assert (old.answered, made.carried) == (3, 0)
        assert made.kept == {"choices": 1, "logprobs": 1, "seed": 1}


async def test_who_does_not_stream_is_asked_again_elsewhere() -> None:
    async with (
        engines(1, Work(0.0, 0.0, 3600.0)) as (slow,),
        engines(1) as (quick,),
        front([slow.url]) as (made, client),
    ):
        path, body = long_requests(1, stream=False)[0]
        asked = asyncio.create_task(client.post(path, content=body))
        other = asyncio.create_task(client.post("/v1/embeddings", content=b"{}"))
        await until(lambda: slow.inside == 2)
        made.follow([quick.url])
        answer = await asked
        assert answer.json()["choices"][0]["message"]["content"] == expected(path, body)
        assert (made.carried, made.kept) == (1, {"endpoint": 1})
        slow.kill()
        # Nothing of it was answered, so it goes to another, as ever.
        assert (await other).status_code == 200


async def test_an_engine_that_refuses_to_go_on_costs_nothing() -> None:
    async def refuse(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with engines(1) as (old,), scripted(refuse) as url, front([old.url]) as (made, client):
        reader = Reader(client, *long_requests(1)[0])
        await until(lambda: bool(reader.text))
        made.follow([url])
        await reader.check()
        assert (old.answered, made.carried, made.kept) == (1, 0, {"refused": 1})


async def test_what_was_cut_goes_before_those_who_wait() -> None:
    came: list[bytes] = []
    free = asyncio.Event()

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        came.append(request.body)
        await free.wait()
        end = b'data: {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        writer.write(SSE + end)

    async with engines(1) as (old,), scripted(serve) as url, front([old.url], limit=1) as (made, client):
        path, body = long_requests(2)[1]
        reader = Reader(client, path, body)
        await until(lambda: bool(reader.text))
        made.follow([old.url, url])
        busy, waits = (asyncio.create_task(client.post(path, content=b"%d" % number)) for number in range(2))
        await until(lambda: len(came) == 1 and len(made.waiting) == 1)
        made.follow([url])
        await until(lambda: len(made.line) == 1)
        free.set()
        await asyncio.gather(busy, waits, reader.task)
        assert len(came) == 3
        assert came[1].startswith(b'{"prompt":"story')
        assert {came[0], came[2]} == {b"0", b"1"}


async def test_a_request_is_carried_so_often_and_no_more() -> None:
    served = 0

    async def one_word(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        writer.write(SSE + b'data: {"id": "x", "choices": [{"index": 0, "text": " word"}]}\n\n')
        await writer.drain()

    async with scripted(one_word) as url, front([url], rest_s=0.0) as (made, client):
        reader = Reader(client, *long_requests(2)[1])
        with pytest.raises(httpx.RemoteProtocolError):
            await reader.task
        assert (served, made.carried, made.kept) == (4, 3, {"tries": 1})
        assert reader.text == " word" * 4


async def test_when_nobody_is_left_the_client_knows_that_something_is_missing() -> None:
    async with engines(1) as (only,), front([only.url], patience_s=0.0) as (made, client):
        reader = Reader(client, *long_requests(1)[0])
        await until(lambda: bool(reader.text))
        only.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            await reader.task
        assert made.kept == {"nobody": 1}
        assert not made.legs


async def test_an_answer_that_lacks_only_its_end_is_given_one() -> None:
    async def ends(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE.replace(b"Connection: close", b"Transfer-Encoding: chunked"))
        for number in range(3):
            writer.write(chunk(b'data: {"id": "x", "choices": [{"index": 0, "text": " %d"}]}\n\n' % number))
        await writer.drain()

    async with scripted(ends) as url, front([url], rest_s=0.0) as (made, client):
        reader = Reader(client, TEXT, b'{"prompt": "count", "max_tokens": 3, "stream": true}')
        await reader.task
        assert reader.text == " 0 1 2"
        assert reader.chunks[-1]["choices"][0]["finish_reason"] == "length"
        assert reader.raw.endswith(b"data: [DONE]\n\n")
        assert made.carried == 0


async def test_an_answer_that_has_ended_and_lacks_the_mark_is_not_continued() -> None:
    marked = asyncio.Event()

    async def ends(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            SSE + b'data: {"id": "x", "choices": [{"index": 0, "text": " all", "finish_reason": "stop"}]}\n\n'
        )
        await marked.wait()
        writer.write(b"data: [DONE]\n\n")

    async with scripted(ends) as url, engines(1) as (other,), front([url]) as (made, client):
        reader = Reader(client, *long_requests(2)[1])
        await until(lambda: bool(reader.text))
        made.follow([other.url])
        await until(lambda: made.leaving[url] is None)
        marked.set()
        await reader.task
        assert reader.raw.count(b"[DONE]") == 1
        assert (reader.text, made.carried, made.kept, other.answered) == (" all", 0, {}, 0)


async def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    async with engines() as (old, new), front([old.url]) as (made, client):
        reader = Reader(client, *long_requests(1)[0])
        await until(lambda: bool(reader.text))
        made.follow([new.url])
        await until(lambda: new.inside == 1)
        reader.task.cancel()
        await until(lambda: not made.legs and new.inside == 0)
        assert all(backend.active == 0 for backend in made.backends)
