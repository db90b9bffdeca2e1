"""Small modelled inference engines on loopback, and a crowd that asks them: what `dure demo front` shows.

An engine answers one request after the other; a request takes as long as its tokens say, times a factor that makes
minutes into seconds. The crowd asks the same questions once in turn at each engine and once through the front.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import msgspec

from dure.embedded.words import Words, words_of
from dure.front.choose import Work, prompt_tokens, work_of
from dure.front.events import chunk
from dure.front.proxy import Front, FrontSettings
from dure.front.request import Request, read_request

HOST = "127.0.0.1"
LARGEST_BODY = 1 << 20
OUTPUT = 20.0
OK, AWAY = "200 OK", "503 Service Unavailable"


class Crowd(msgspec.Struct, frozen=True):
    """So many requests at so many a second; most prompts are short, some are very long."""

    requests: int = 160
    per_s: float = 50.0
    engines: int = 4
    promise_s: float = 0.6
    seed: int = 1

    def asked(self) -> list[tuple[float, bytes]]:
        """(seconds after the start, body) of every request."""
        rng = random.Random(self.seed)
        at_s, found = 0.0, []
        for _ in range(self.requests):
            at_s += rng.expovariate(self.per_s)
            tokens = 3000 if rng.random() < 0.1 else rng.randint(50, 300)
            found.append((at_s, b'{"prompt": "' + b"word" * tokens + b'"}'))
        return found


class Shown(msgspec.Struct, frozen=True):
    """How long the first answer took, by request; sorted."""

    waits_s: tuple[float, ...]
    promise_s: float

    @property
    def late(self) -> int:
        return sum(wait > self.promise_s for wait in self.waits_s)


class Engine:
    """One replica: a plain HTTP server that works off its queue.

    Streams are computed side by side after their prompts, a token after the other, and end when their client goes. It
    sleeps and wakes as vLLM does with `--enable-sleep-mode`: asleep it refuses to compute, still shows its metrics
    and health, and takes `wake_s` to come back; a sleep waits for what is inside, or ends it (`mode=abort`).
    """

    def __init__(
        self, work: Work, *, host: str = HOST, port: int = 0, sleep_s: float = 0.0, wake_s: float = 0.0
    ) -> None:
        self._work, self._host, self._port, self._sleep_s, self._wake_s = work, host, port, sleep_s, wake_s
        self._turn = asyncio.Lock()
        self._switch = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._inside: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.asleep = False
        self.answered = self.ended = 0
        self.tokens = self.generated = 0
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._client, self._host, self._port)
        self.url = f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def kill(self) -> None:
        """End as a process does that is killed: every connection is lost, and nobody listens."""
        if self._server is not None:
            self._server.close()
        for task in self._inside:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    @property
    def inside(self) -> int:
        """Requests that it has not ended."""
        return len(self._inside)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            request = await read_request(reader, LARGEST_BODY)
            if request is None or isinstance(request, str):
                return
            words = words_of(request.path, request.body)
            if request.method == b"POST" and words is not None and words.stream and not self.asleep:
                await self._stream(words, prompt_tokens(request.body), reader, writer)
                return
            status, body = await self._answer(request, words)
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client went away; there is nobody to tell.
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _stream(
        self, words: Words, tokens: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        task = asyncio.create_task(self._speak(words, tokens, writer))
        gone = asyncio.create_task(reader.read(1))
        self._inside.add(task)
        try:
            await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and gone.done():
                task.cancel()
                await asyncio.wait([task])
            elif task.cancelled():
                # Somebody put the engine to sleep: told as vLLM does.
                writer.write(chunk(words.piece("", "abort")) + chunk(words.end()) + chunk(b""))
        finally:
            gone.cancel()
            self._inside.discard(task)
        if task.cancelled():
            self.ended += 1
            return
        task.result()
        self.answered, self.tokens = self.answered + 1, self.tokens + tokens
        await writer.drain()

    async def _speak(self, words: Words, tokens: int, writer: asyncio.StreamWriter) -> None:
        async with self._turn:
            await asyncio.sleep(work_of(tokens, 0.0, self._work))
        writer.write(chunk(words.opening()) if words.chat else b"")
        for text in words:
            await asyncio.sleep(self._work.decode_s)
            self.generated += 1
            writer.write(chunk(words.piece(text, None)))
            await writer.drain()
        last = (words.piece("", words.reason), words.usage(tokens), words.end(), b"")
        writer.write(b"".join(map(chunk, last)))

    async def _answer(self, request: Request, words: Words | None) -> tuple[str, bytes]:
        path, _, query = request.path.partition(b"?")
        match request.method, path:
            case b"GET", b"/is_sleeping":
                return OK, b'{"is_sleeping": true}' if self.asleep else b'{"is_sleeping": false}'
            case b"GET", b"/metrics":
                return OK, self._metrics()
            case b"GET", b"/health":
                return OK, b""
            case b"POST", b"/sleep":
                await self._fall_asleep(abort=b"mode=wait" not in query)
                return OK, b""
            case b"POST", b"/wake_up":
                await self._wake_up()
                return OK, b""
        if self.asleep:
            return AWAY, b'{"error": "the engine is asleep"}'
        return await self._compute(prompt_tokens(request.body), words)

    async def _compute(self, tokens: int, words: Words | None) -> tuple[str, bytes]:
        task = asyncio.create_task(self._work_off(tokens))
        self._inside.add(task)
        try:
            # Waited for and not awaited: who ends it must not end this client's connection as well.
            await asyncio.wait([task])
        finally:
            self._inside.discard(task)
        if task.cancelled():
            return AWAY, b'{"error": "the request was ended"}'
        self.answered, self.tokens = self.answered + 1, self.tokens + tokens
        self.generated += int(OUTPUT)
        return OK, b'{"choices": [{"text": "an answer"}]}' if words is None else words.whole(tokens)

    async def _work_off(self, tokens: int) -> None:
        async with self._turn:
            await asyncio.sleep(work_of(tokens, OUTPUT, self._work))

    async def _fall_asleep(self, *, abort: bool) -> None:
        async with self._switch:
            if abort:
                for task in self._inside:
                    task.cancel()
            if not self.asleep:
                while self._inside:
                    await asyncio.wait(self._inside)
                self.asleep = True
                await asyncio.sleep(self._sleep_s)

    async def _wake_up(self) -> None:
        async with self._switch:
            if self.asleep:
                await asyncio.sleep(self._wake_s)
                self.asleep = False

    def _metrics(self) -> bytes:
        running = min(len(self._inside), 1)
        shown = {
            "num_requests_running": running,
            "num_requests_waiting": len(self._inside) - running,
            "request_success_total": self.answered,
            "prompt_tokens_total": self.tokens,
            "generation_tokens_total": self.generated,
        }
        return "".join(f"vllm:{name} {value}\n" for name, value in shown.items()).encode()


async def show(crowd: Crowd) -> tuple[Shown, Shown]:
    """The same crowd in turn at each engine, then through the front."""
    work = Work(prefill_s=0.00012, decode_s=0.001, request_s=0.01)
    engines = [Engine(work) for _ in range(crowd.engines)]
    for engine in engines:
        await engine.start()
    urls = [engine.url for engine in engines]
    front = Front(urls, FrontSettings(ttft_s=crowd.promise_s, limit=1))
    port = await front.start(HOST, 0)
    try:
        in_turn = await _ask(crowd, lambda number: int(urls[number % len(urls)].rpartition(":")[2]))
        through = await _ask(crowd, lambda _: port)
    finally:
        await front.stop()
        for engine in engines:
            await engine.stop()
    return in_turn, through


async def _ask(crowd: Crowd, port_of: Callable[[int], int]) -> Shown:
    began = time.monotonic()

    async def one(number: int, at_s: float, body: bytes) -> float:
        await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
        sent = time.monotonic()
        reader, writer = await asyncio.open_connection(HOST, port_of(number))
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        status = await reader.readline()
        waited = time.monotonic() - sent
        await reader.read()
        writer.close()
        await writer.wait_closed()
        if b" 200 " not in status:
            raise ConnectionError(f"request {number} was answered with {status.decode().strip()}")
        return waited

    waits = await asyncio.gather(*(one(number, *asked) for number, asked in enumerate(crowd.asked())))
    return Shown(tuple(sorted(waits)), crowd.promise_s)
