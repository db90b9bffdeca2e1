"""The front as a process: an asyncio HTTP/1.1 reverse proxy with a queue of its own.

Started by `dure front`. One request per client connection turn, streamed answers pass through as they come. A
backend that refuses a connection is skipped for a while and the request goes to another one; a request whose answer
has begun is never sent twice, unless it may be carried over (`carrier`). Everything is bounded: header size, body
size, waiting requests, prompts that a backend has not begun to answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

import msgspec
import structlog

from dure.front.carrier import Carrier
from dure.front.choose import Backend, Lanes, Pace, Waiting, Work, next_waiting, pick, prompt_tokens, work_of
from dure.front.leg import Asked, Leg
from dure.front.pulse import Answer, Counts
from dure.front.request import Request, read_request

MAX_HEADER = 64 * 1024
_STREAM = re.compile(rb'"stream"\s*:\s*true')

_log = structlog.get_logger("dure.front")


class FrontSettings(msgspec.Struct, frozen=True):
    """`limit` requests run at once on a backend, of which prompts for `ahead_s` may be without a first token; `queue`
    may wait here, `patience_s` when there is none to ask. Only requests below `paths` pass, where some are named.
    What is on a backend `carry_s` after it left goes on upon another; None leaves it where it is."""

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
    carry_s: float | None = None


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
        # Backends that left, with what will carry over what they have; None once that is due.
        self.leaving: dict[str, asyncio.TimerHandle | None] = {}
        self.legs: set[Leg] = set()
        self.line: list[tuple[Asked, asyncio.Future[Backend | None]]] = []
        self.carried = 0
        self.kept: dict[str, int] = {}
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
        self._notice()

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
        self._notice()
        self.call()
        self._doubt()

    def _notice(self) -> None:
        """Begin to count for those who have left, and forget who came back or is gone."""
        if self.settings.carry_s is None:
            return
        left = {backend.url for backend in self.backends if backend.draining}
        for url in [each for each in self.leaving if each not in left]:
            timer = self.leaving.pop(url)
            if timer is not None:
                timer.cancel()
        loop = asyncio.get_running_loop()
        for url in left - self.leaving.keys():
            self.leaving[url] = loop.call_later(self.settings.carry_s, self._due, url)
        self._carry_over()

    def _due(self, url: str) -> None:
        self.leaving[url] = None
        inside = sum(leg.backend.url == url for leg in self.legs)
        if inside:
            _log.info("requests are carried over from a backend that left", backend=url, requests=inside)
        self._carry_over()

    def _carry_over(self) -> None:
        """Ask everything that is due to go on elsewhere; where nobody else is, it stays."""
        if not self._open():
            return
        for leg in self.legs:
            if leg.backend.draining and self.leaving.get(leg.backend.url, leg) is None:
                leg.cut.set()

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
            "carried": self.carried,
            "kept": dict(sorted(self.kept.items())),
            "counts": self.counts,
            "backends": backends,
        }
        return msgspec.json.encode(state).decode()

    async def _forward(self, request: Request, writer: asyncio.StreamWriter) -> None:
        asked = self.asked(request.body)
        self.counts.asked += 1
        self.counts.prompt_tokens += asked.tokens
        give_up_s = self.clock() + self.settings.patience_s
        while (backend := await self._turn(asked, give_up_s)) is not None:
            leg = Leg(self, backend, asked)
            if self.settings.carry_s is not None:
                begun = await Carrier(self, request, writer).run(leg)
            else:
                try:
                    begun = await self._relay(leg, request, writer)
                finally:
                    leg.close()
                if not begun:
                    self.rest(backend)
            if begun:
                self.served += 1
                return
        self.refused += 1
        await _answer(writer, 503, "no backend can take this request now")

    def asked(self, body: bytes) -> Asked:
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

    async def next_turn(self, asked: Asked, *, patient: bool) -> Backend | None:
        """A backend for what was cut elsewhere, before all who wait; None when nobody comes, if not `patient`."""
        backend = pick(self._open(), self.settings.ahead_s)
        if backend is not None:
            self._take(backend, asked)
            return backend
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Backend | None] = loop.create_future()
        self.line.append((asked, turn))

        def doubt() -> None:
            if turn.done():
                return
            if self._open():
                loop.call_later(self.settings.patience_s, doubt)
            else:
                turn.set_result(None)

        if not patient:
            loop.call_later(self.settings.patience_s, doubt)
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            if turn.done() and (given := turn.result()) is not None:
                Leg(self, given, asked).close()
            raise
        finally:
            self.line = [entry for entry in self.line if entry[1] is not turn]
            if not turn.done():
                turn.cancel()

    def _give_up(self, entry: Waiting) -> None:
        """Nobody to ask until now. Who only waits for room among those that are there goes on waiting."""
        turn = self.turns.get(entry.number)
        if turn is not None and not self._open():
            self.waiting.remove(entry)
            del self.turns[entry.number]
            turn.set_result(None)

    def rest(self, backend: Backend) -> None:
        """It failed, and is left alone for a while."""
        self.resting[backend.url] = self.clock() + self.settings.rest_s
        asyncio.get_running_loop().call_later(self.settings.rest_s, self._rested)
        self._doubt()

    def _rested(self) -> None:
        self.call()
        self._carry_over()

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

    def done(self, backend: Backend, cost: float) -> None:
        """Something that was taken has ended there."""
        backend.active -= 1
        backend.work_s = max(0.0, backend.work_s - cost)
        self.call()

    def call(self) -> None:
        """Turns for those who wait, as far as there is room; first for what was cut in the middle."""
        while self.line:
            free = pick(self._open(), self.settings.ahead_s)
            if free is None:
                return
            asked, next_turn = self.line.pop(0)
            if not next_turn.done():
                self._take(free, asked)
                next_turn.set_result(free)
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

    async def _relay(self, leg: Leg, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Send to one backend and copy its answer; False when nothing was answered yet."""
        begun, answer = False, Answer()
        try:
            if not await leg.send(request):
                return False
            while chunk := await leg.reader.read(65536):
                begun = True
                answer.see(chunk)
                if answer.streams:
                    leg.prompt.answered()
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            return begun
        finally:
            self.counts.answered += int(begun)
            self.counts.output_tokens += answer.tokens
        return begun


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
