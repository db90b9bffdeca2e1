"""Takes one request from backend to backend, should it have to go on elsewhere, and its client along.

Called by `proxy` for each request when it carries over. A leaving backend is only left when the next one has begun to
answer, so nothing is given up for one that refuses. What may be continued and how the parts are joined is `carry`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
import structlog

from dure.front.carry import CHAT, Kept, Seen, Stream, continued, known
from dure.front.events import Events, Head, chunk, head_of, reframed
from dure.front.leg import Asked, Leg
from dure.front.pulse import Answer
from dure.front.request import Request

if TYPE_CHECKING:
    from dure.front.choose import Backend
    from dure.front.proxy import Front

# How often one request changes its backend before it is given up or stays.
MOST_CARRIES = 3
READ_BYTES = 65536

_log = structlog.get_logger("dure.front")


class Carrier:
    """For one request of one client."""

    def __init__(self, front: Front, request: Request, writer: asyncio.StreamWriter) -> None:
        self._front, self._request, self._writer = front, request, writer
        self._stream: Stream | None = None
        self._events: Events | None = None
        self._carries = 0
        self._leg: Leg
        self._turn: asyncio.Task[tuple[Backend, Asked] | None] | None = None
        self._reading: asyncio.Timeout | None = None
        self._stays = self._refused = False

    async def run(self, leg: Leg) -> bool:
        """Answer the client; False when nothing was answered, so that the request can be sent anew."""
        self._leg = leg
        begun = False
        try:
            raw = await self._head(self._request)
            if not raw:
                self._front.rest(self._leg.backend)
                return False
            begun = True
            head = head_of(raw)
            if head.events and self._request.version == b"HTTP/1.1" and self._known:
                await self._follow(head)
            else:
                await self._copy(raw)
        finally:
            await self._end_turn()
            self._leg.close()
            self._front.counts.answered += int(begun)
        return True

    @property
    def _known(self) -> bool:
        return known(self._request.method, self._request.path)

    async def _head(self, request: Request) -> bytes:
        """The first answer's head, of whichever backend gives one; empty when it broke off before."""
        try:
            if not await self._leg.send(request):
                return b""
            while (raw := await self._next(lambda: self._leg.reader.readuntil(b"\r\n\r\n"))) is None:
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return b""
        return raw

    async def _copy(self, raw: bytes) -> None:
        """An answer that is no stream of text: as it comes, to its end."""
        await self._end_turn()
        answer = Answer()
        try:
            while raw:
                answer.see(raw)
                if answer.streams:
                    self._leg.prompt.answered()
                await self._give(raw)
                raw = await _read(self._leg)
        finally:
            self._front.counts.output_tokens += answer.tokens

    async def _follow(self, head: Head) -> None:
        """A stream of events, over as many backends as it takes."""
        stream = self._stream = Stream(chat=self._request.path.partition(b"?")[0] == CHAT)
        self._events = Events(head)
        await self._give(reframed(head))
        try:
            while True:
                raw = await self._next(lambda: _read(self._leg))
                if raw is None:
                    continue
                over = await self._pass(stream, raw)
                if not over:
                    continue
                if stream.whole:
                    return await self._give(_chunk(stream.end()) + chunk(b""))
                if not await self._recover(stream):
                    return None
        finally:
            self._front.counts.output_tokens += stream.tokens

    async def _pass(self, stream: Stream, raw: bytes) -> bool:
        """Give the client what came; True when nothing more will come from this backend."""
        assert self._events is not None
        try:
            events = self._events.feed(raw)
        except ValueError:
            return True
        if events:
            self._leg.prompt.answered()
            await self._give(_chunk(b"".join(map(stream.take, events))))
        return not raw or self._events.ended or stream.broken or stream.done

    async def _next(self, read: Callable[[], Awaitable[bytes]]) -> bytes | None:
        """What the backend says next; None when the request has gone on to another meanwhile."""
        if self._stays:
            return await read()
        if self._turn is None:
            self._turn = asyncio.create_task(self._wait_for_turn(self._leg))
            self._turn.add_done_callback(self._interrupt)
        if not self._turn.done():
            # A task for each read would cost more than all the rest; what is interrupted has read nothing.
            try:
                async with asyncio.timeout(None) as self._reading:
                    return await read()
            except TimeoutError:
                if not self._turn.done():
                    raise ConnectionResetError from None
            finally:
                self._reading = None
        turn, self._turn = self._turn.result(), None
        if turn is None:
            self._stays = True
        else:
            await self._move(*turn)
        return None

    def _interrupt(self, turn: object) -> None:
        """A turn has come, or the word that there will be none; an earlier one that was used up says nothing."""
        if turn is self._turn and self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def _wait_for_turn(self, leg: Leg) -> tuple[Backend, Asked] | None:
        """When the request is asked to leave, a backend with room for what is left of it; None when it stays."""
        await leg.cut.wait()
        body = self._continued() if self._carries < MOST_CARRIES else Kept("tries")
        if isinstance(body, Kept):
            self._keep(body)
            return None
        asked = self._front.asked(body)
        backend = await self._front.next_turn(asked, patient=True)
        return None if backend is None else (backend, asked)

    async def _move(self, backend: Backend, asked: Asked) -> None:
        """Leave a backend that is still there; it is read on if the next one does not answer as it should."""
        leg = Leg(self._front, backend, asked)
        body = self._continued()
        if isinstance(body, Kept) or not self._leg.backend.draining:
            leg.close()
            self._leg.cut.clear()
            return
        self._carries += 1
        if not await self._begin(leg, body) and self._refused:
            self._stays = True
            self._keep(Kept("refused"))

    async def _recover(self, stream: Stream) -> bool:
        """Go on after a backend that broke off; False when that is over, and the client told as far as can be."""
        await self._end_turn()
        self._leg.close()
        if not stream.broken:
            self._front.rest(self._leg.backend)
        while self._carries < MOST_CARRIES:
            self._carries += 1
            body = self._continued()
            if isinstance(body, Kept):
                if body.reason == "length":
                    await self._give(_chunk(stream.full()) + chunk(b""))
                    return False
                self._keep(body)
                break
            asked = self._front.asked(body)
            backend = await self._front.next_turn(asked, patient=False)
            if backend is None:
                self._keep(Kept("nobody"))
                break
            if await self._begin(Leg(self._front, backend, asked), body):
                return True
        else:
            self._keep(Kept("refused" if self._refused else "tries"))
        if stream.broken:
            await self._give(_chunk(stream.end()) + chunk(b""))
        # Else the body stays without its end, which is how a client knows that something is missing.
        return False

    async def _begin(self, leg: Leg, body: bytes) -> bool:
        """Send what is left to the next backend. If it takes it up, it is the one that is followed."""
        request = _with_body(self._request, body)
        begun = False
        try:
            async with asyncio.timeout(self._front.settings.patience_s):
                self._refused = False
                begun = await leg.send(request) and (self._stream is None or await self._take_up(leg))
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            begun = False
        finally:
            if not begun:
                leg.close()
        if not begun and not self._refused:
            self._front.rest(leg.backend)
        if begun:
            self._leg.close()
            self._leg = leg
            self._front.carried += 1
        return begun

    async def _take_up(self, leg: Leg) -> bool:
        """Whether its answer is a stream that can be joined to what the client has."""
        assert self._stream is not None
        head = head_of(await leg.reader.readuntil(b"\r\n\r\n"))
        if not head.events:
            self._refused = True
            return False
        self._events = Events(head)
        self._stream.resume()
        return True

    def _continued(self) -> bytes | Kept:
        if not self._known:
            return Kept("endpoint")
        if self._stream is not None and self._stream.whole:
            return Kept("ended")
        seen = Seen() if self._stream is None else self._stream.seen()
        return continued(self._request.path, self._request.body, seen)

    def _keep(self, kept: Kept) -> None:
        """It is not carried over; told once for each reason that comes up. What ends by itself is no case of it."""
        if kept.reason == "ended":
            return
        counted = self._front.kept
        counted[kept.reason] = counted.get(kept.reason, 0) + 1
        if counted[kept.reason] == 1:
            _log.info("a request is not carried over", reason=kept.reason, backend=self._leg.backend.url)

    async def _end_turn(self) -> None:
        """Nothing is waited for any more; a backend that was just given is given back."""
        task, self._turn = self._turn, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None and (turn := task.result()) is not None:
            Leg(self._front, *turn).close()

    async def _give(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


async def _read(leg: Leg) -> bytes:
    """Empty at the end, however it came."""
    try:
        return await leg.reader.read(READ_BYTES)
    except OSError:
        return b""


def _chunk(data: bytes) -> bytes:
    """None for nothing: an empty one would end the body."""
    return chunk(data) if data else b""


def _with_body(request: Request, body: bytes) -> Request:
    headers = [(name, value) for name, value in request.headers if name.lower() != b"content-length"]
    return msgspec.structs.replace(request, headers=[*headers, (b"Content-Length", b"%d" % len(body))], body=body)
