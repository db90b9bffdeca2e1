"""Events to many readers, live. One reader of the store feeds a bounded queue for each client.

Woken by the backend after a commit (and by itself now and then, for commits of other processes) it reads what is new
and hands the same bytes to all who may see the same. A client that does not keep up loses its connection, not its
events: it comes back with `Last-Event-ID` and reads the store from there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from dure.api.backend import Backend
from dure.model.errors import DureError
from dure.model.event import Event
from dure.model.who import PLANE, Who

QUEUE_FRAMES = 512
MAX_CLIENTS = 200
BATCH = 200
POLL_S = 2.0
HEARTBEAT_S = 15.0
RETRY_MS = 2000
HEARTBEAT = b": beat\n\n"
GREETING = f"retry: {RETRY_MS}\n\n".encode()
_log = structlog.get_logger("dure.api")
_ENCODER = msgspec.json.Encoder()


class _Frame(NamedTuple):
    seq: int
    tenant: str
    data: bytes


class _Part(NamedTuple):
    """Frames that go out together, made once for all who may see the same."""

    frames: tuple[_Frame, ...]
    data: bytes

    def after(self, seq: int) -> bytes:
        if self.frames[0].seq > seq:
            return self.data
        return b"".join(one.data for one in self.frames if one.seq > seq)


class _Client:
    """`None` in the queue ends the stream; `waiting` counts the frames in it."""

    def __init__(self, most: int, who: Who) -> None:
        self.queue: asyncio.Queue[_Part | None] = asyncio.Queue()
        self.who = who
        self.most = most
        self.waiting = 0

    def give(self, part: _Part) -> bool:
        """Whether there was room for it. Somebody who has read all gets everything, however much it is."""
        if self.waiting and self.waiting + len(part.frames) > self.most:
            return False
        self.waiting += len(part.frames)
        self.queue.put_nowait(part)
        return True

    def end(self) -> None:
        """What has not been read by now is read after the next connection."""
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class Stream:
    def __init__(self, backend: Backend, *, frames: int = QUEUE_FRAMES, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._backend = backend
        self._frames = frames
        self._heartbeat_s = heartbeat_s
        self._clients: set[_Client] = set()
        self._wake = asyncio.Event()
        self._started = asyncio.Event()
        self._closed = False
        self._open = 0
        self._last = 0

    @property
    def clients(self) -> int:
        return self._open

    async def run(self) -> None:
        """Read and hand out until cancelled."""
        loop = asyncio.get_running_loop()
        self._last = await asyncio.to_thread(self._newest)
        self._started.set()

        def wake() -> None:
            # The plane may still commit while the server's loop is going down.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self._backend.subscribe(wake)
        try:
            while True:
                await self._hand_out()
                # Not wait_for: before Python 3.12 it can swallow the cancellation that ends this loop.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            unsubscribe()

    def close(self) -> None:
        """End every stream, so that the server can stop without waiting for readers."""
        self._closed = True
        for client in list(self._clients):
            self._end(client)

    async def frames(self, after: int | None, who: Who = PLANE) -> AsyncIterator[bytes]:
        """The stream of one client: everything after `after` (or from now on), then live with heartbeats.

        Only what belongs to the tenants of `who`.
        """
        yield GREETING
        if self._closed or self._open >= MAX_CLIENTS:
            return
        client = _Client(self._frames, who)
        self._open += 1
        try:
            async for frame in self._all_frames(client, after):
                yield frame
        finally:
            self._open -= 1
            self._clients.discard(client)

    async def _all_frames(self, client: _Client, after: int | None) -> AsyncIterator[bytes]:
        # A backlog read before the reader of the store knows its own start could end too early.
        await self._started.wait()
        last = await asyncio.to_thread(self._newest) if after is None else after
        listening = False
        while True:
            batch = await asyncio.to_thread(self._read, last)
            for event in batch:
                last = event.seq
                if client.who.sees(event.tenant):
                    yield frame_of(event)
            if len(batch) == BATCH:
                continue
            if listening or self._closed:
                break
            # Only now does the queue begin to fill; one more read closes the gap before this moment.
            self._clients.add(client)
            listening = True
        if self._closed:
            return
        async for frame in self._live(client, last):
            yield frame

    async def _live(self, client: _Client, last: int) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    part = await client.queue.get()
            except TimeoutError:
                yield HEARTBEAT
                continue
            if part is None:
                return
            client.waiting -= len(part.frames)
            # What came in while the backlog was read may have been in it.
            if data := part.after(last):
                yield data

    async def _hand_out(self) -> None:
        try:
            while batch := await asyncio.to_thread(self._read, self._last):
                self._give([_Frame(event.seq, event.tenant, frame_of(event)) for event in batch])
                self._last = batch[-1].seq
        except DureError as error:
            _log.warning("cannot read events", error=str(error))

    def _give(self, frames: Sequence[_Frame]) -> None:
        views: dict[frozenset[str] | None, _Part | None] = {}
        for client in list(self._clients):
            view = client.who.tenants
            if view not in views:
                views[view] = _part(one for one in frames if client.who.sees(one.tenant))
            part = views[view]
            if part is not None and not client.give(part):
                self._end(client)

    def _end(self, client: _Client) -> None:
        self._clients.discard(client)
        client.end()

    def _read(self, after: int) -> tuple[Event, ...]:
        return self._backend.store.list_events(after=after, limit=BATCH)

    def _newest(self) -> int:
        newest = self._backend.store.list_events(limit=1, newest=True)
        return newest[-1].seq if newest else 0


def _part(frames: Iterable[_Frame]) -> _Part | None:
    seen = tuple(frames)
    return _Part(seen, b"".join(one.data for one in seen)) if seen else None


def frame_of(event: Event) -> bytes:
    return b"id: %d\nevent: dure\ndata: %s\n\n" % (event.seq, _ENCODER.encode(event))
