"""The front as a process: an asyncio HTTP/1.1 reverse proxy with a queue of its own.

Started by `dure front`. One request per client connection turn, streamed answers pass through as they come. A
backend that refuses a connection is skipped for a while and the request goes to another one; a request whose answer
has begun is never sent twice. Everything is bounded: header size, body size, waiting requests, prompts that a backend
has not begun to answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from dure.front.choose import Backend, Lanes, Pace, Waiting, Work, next_waiting, pick, prompt_tokens, work_of
from dure.front.pulse import Answer, Counts

MAX_HEADER = 64 * 1024
_STREAM = re.compile(rb'"stream"\s*:\s*true')
HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect"}


class FrontSettings(msgspec.Struct, frozen=True):
    """`limit` requests run at once on a backend, of which prompts for `ahead_s` may be without a first token; `queue`
    may wait here, `patience_s` when there is none to ask. Only requests below `paths` pass, where some are named."""

    ttft_s: float = 2.0
    limit: int = 64
    ahead_s: float = 0.5
    queue: int = 4096
    body_bytes: int = 16 * 1024 * 1024
    mean_output: float = 200.0
    rest_s: float = 5.0
    patience_s: float = 10.0
    work: Work = Work()
    paths: tuple[str, ...] = ()


class Request(msgspec.Struct):
    """One parsed client request."""

    method: bytes
    path: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Asked(msgspec.Struct, frozen=True):
    """What a request should take of a backend, and its prompt of that; whether its first token will be seen."""

    work_s: float
    prompt_s: float
    tokens: int
    streams: bool


class Front:
    """Routes requests to backends; create it, then `start`."""

    def __init__(self, urls: list[str], settings: FrontSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings, self.clock = settings, clock
        self.backends = [Backend(url, settings.limit) for url in urls]
        self.waiting: list[Waiting] = []
        self.turns: dict[int, asyncio.Future[Backend | None]] = {}
        self.resting: dict[str, float] = {}
        self.number = 0
        self.served = self.refused = 0
        self.counts = Counts()
        self.pace = Pace()
        self.server: asyncio.Server | None = None
        # A stream's own references to the task that serves it are weak: without ours it may vanish in the middle.
        self.inside: set[asyncio.Task[None] | None] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self.server = await asyncio.start_server(self._client, host, port, limit=MAX_HEADER)
        address = self.server.sockets[0].getsockname()
        return int(address[1])

    async def stop(self) -> None:
        """Stop listening; requests under way finish."""
        if self.server is not None:
            self.server.close()
            await self.server.wait_closed()

    def drain(self, url: str) -> None:
        """No new requests for this backend: the hook for a node that will be reclaimed."""
        for backend in self.backends:
            if backend.url == url:
                backend.draining = True

    def follow(self, urls: list[str]) -> None:
        """These are the backends from now on; who is not among them ends what it has and gets nothing new."""
        known = {backend.url: backend for backend in self.backends}
        for url in urls:
            if url not in known:
                self.backends.append(Backend(url, self.settings.limit))
                self.resting.pop(url, None)
        for backend in self.backends:
            backend.draining = backend.url not in urls
        self.backends = [backend for backend in self.backends if backend.active or not backend.draining]
        self._call()
        self._doubt()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self.inside.add(task)
        try:
            request = await read_request(reader, self.settings.body_bytes)
            if request is None:
                return
            if isinstance(request, str):
                await _answer(writer, 400, request)
            elif request.path == b"/-/front":
                await _answer(writer, 200, self._status())
            elif not self._passes(request.path):
                await _answer(writer, 403, "requests to this path do not pass here")
            else:
                await self._forward(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client went away; there is nobody to tell.
            pass
        finally:
            self.inside.discard(task)
            writer.close()

    def _passes(self, path: bytes) -> bool:
        """An engine may have doors of its own beside those for users, to put it to sleep for one."""
        below = any(path.startswith(each.encode()) for each in self.settings.paths)
        return not self.settings.paths or (below and b".." not in path)

    def _status(self) -> str:
        backends = {
            b.url: {"active": b.active, "work_s": b.work_s, "prompts_s": b.prompts_s, "draining": b.draining}
            for b in self.backends
        }
        state = {
            "served": self.served,
            "refused": self.refused,
            "waiting": len(self.waiting),
            "waiting_tokens": sum(entry.tokens for entry in self.waiting),
            "running": sum(backend.active for backend in self.backends),
            "counts": self.counts,
            "backends": backends,
        }
        return msgspec.json.encode(state).decode()

    async def _forward(self, request: Request, writer: asyncio.StreamWriter) -> None:
        asked = self._asked(request.body)
        self.counts.asked += 1
        self.counts.prompt_tokens += asked.tokens
        give_up_s = self.clock() + self.settings.patience_s
        while (backend := await self._turn(asked, give_up_s)) is not None:
            prompt = _Prompt(self, backend, asked)
            try:
                begun = await self._relay(backend, request, writer, prompt)
            finally:
                prompt.over()
                self._done(backend, asked.work_s)
            if begun:
                self.served += 1
                return
            self._rest(backend)
        self.refused += 1
        await _answer(writer, 503, "no backend can take this request now")

    def _asked(self, body: bytes) -> Asked:
        work, tokens = self.settings.work, prompt_tokens(body)
        whole_s = work_of(tokens, self.settings.mean_output, work)
        return Asked(whole_s, work.prefill_s * tokens + work.request_s, tokens, bool(_STREAM.search(body)))

    async def _turn(self, asked: Asked, give_up_s: float) -> Backend | None:
        """A backend with room, waiting for one if need be; None when the queue is full or nobody comes in time."""
        backend = pick(self._open(), self.settings.ahead_s)
        if backend is not None:
            self._take(backend, asked)
            return backend
        if len(self.waiting) >= self.settings.queue:
            return None
        self.number += 1
        entry = Waiting(self.number, self.clock(), asked.work_s, asked.prompt_s, asked.tokens, asked.streams)
        turn: asyncio.Future[Backend | None] = asyncio.get_running_loop().create_future()
        self.waiting.append(entry)
        self.turns[entry.number] = turn
        left_s = max(0.0, give_up_s - self.clock())
        timer = asyncio.get_running_loop().call_later(left_s, self._give_up, entry)
        try:
            return await turn
        finally:
            timer.cancel()

    def _give_up(self, entry: Waiting) -> None:
        """Nobody to ask until now. Who only waits for room among those that are there goes on waiting."""
        turn = self.turns.get(entry.number)
        if turn is not None and not self._open():
            self.waiting.remove(entry)
            del self.turns[entry.number]
            turn.set_result(None)

    def _rest(self, backend: Backend) -> None:
        self.resting[backend.url] = self.clock() + self.settings.rest_s
        asyncio.get_running_loop().call_later(self.settings.rest_s, self._call)
        self._doubt()

    def _doubt(self) -> None:
        """With nobody left to ask, the patience of all who wait begins to run."""
        if not self._open():
            for entry in self.waiting:
                asyncio.get_running_loop().call_later(self.settings.patience_s, self._give_up, entry)

    def _open(self) -> list[Backend]:
        now = self.clock()
        return [b for b in self.backends if not b.draining and self.resting.get(b.url, 0.0) <= now]

    def _take(self, backend: Backend, taken: Asked | Waiting) -> None:
        backend.active += 1
        backend.work_s += taken.work_s
        backend.prompts_s += taken.prompt_s if taken.streams else 0.0

    def _done(self, backend: Backend, cost: float) -> None:
        backend.active -= 1
        backend.work_s = max(0.0, backend.work_s - cost)
        self._call()

    def _call(self) -> None:
        """Turns for those who wait, as far as there is room."""
        while self.waiting:
            there = self._open()
            free = pick(there, self.settings.ahead_s)
            if free is None:
                return
            lanes = Lanes(len(there), self.pace.value)
            entry = next_waiting(self.waiting, self.clock(), self.settings.ttft_s, lanes)
            assert entry is not None
            self.waiting.remove(entry)
            turn = self.turns.pop(entry.number)
            if not turn.cancelled():
                self._take(free, entry)
                turn.set_result(free)

    async def _relay(self, backend: Backend, request: Request, writer: asyncio.StreamWriter, prompt: _Prompt) -> bool:
        """Send to one backend and copy its answer; False when nothing was answered yet."""
        parts = urlsplit(backend.url)
        try:
            up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        except OSError:
            return False
        begun, answer = False, Answer()
        try:
            up_writer.write(encode_request(request, parts.netloc))
            await up_writer.drain()
            while chunk := await up_reader.read(65536):
                begun = True
                answer.see(chunk)
                if answer.streams:
                    prompt.answered()
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            return begun
        finally:
            up_writer.close()
            self.counts.answered += int(begun)
            self.counts.output_tokens += answer.tokens
        return begun


class _Prompt:
    """A prompt on a backend until its first token, which makes room for the next.

    Only a stream shows when that is; of another answer nothing is seen before its end, so it holds nobody back.
    """

    def __init__(self, front: Front, backend: Backend, asked: Asked) -> None:
        self._front, self._backend = front, backend
        self._own_s = asked.prompt_s if asked.streams else 0.0
        # Those before it and its own: what its first token is expected to take.
        self._expected_s, self._sent_s = backend.prompts_s, front.clock()
        self._here = asked.streams

    def answered(self) -> None:
        """Its first token has come."""
        if self._here:
            self._front.pace.learn(self._expected_s, self._front.clock() - self._sent_s)
            self.over()

    def over(self) -> None:
        if self._here:
            self._here = False
            self._backend.prompts_s = max(0.0, self._backend.prompts_s - self._own_s)
            self._front._call()


async def read_request(reader: asyncio.StreamReader, body_bytes: int) -> Request | str | None:
    """One request; None when the client said nothing, a sentence when it is malformed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return "request header is too large"
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head[:-4].split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3:
        return "not an HTTP request line"
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    fields = {name.lower(): value for name, value in headers}
    if b"transfer-encoding" in fields:
        return "send a Content-Length; chunked request bodies are not taken"
    length = fields.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > body_bytes:
        return f"Content-Length must be a number up to {body_bytes}"
    body = await reader.readexactly(int(length))
    return Request(parts[0], parts[1], headers, body)


def encode_request(request: Request, host: str) -> bytes:
    """The request for a backend: own Host, one turn, hop-by-hop headers left out."""
    lines = [b" ".join((request.method, request.path, b"HTTP/1.1")), b"Host: " + host.encode()]
    for name, value in request.headers:
        if name.lower() not in HOP and name.lower() != b"host":
            lines.append(name + b": " + value)
    lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body


async def _answer(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    reason = {200: "OK", 400: "Bad Request", 403: "Forbidden", 503: "Service Unavailable"}[status]
    kind = "application/json" if text.startswith("{") else "text/plain; charset=utf-8"
    body = text.encode()
    writer.write(
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()
