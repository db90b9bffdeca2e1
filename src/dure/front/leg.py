"""One request's stay on one backend, from its turn to its end: the connection, and what it holds of the backend.

Made by `proxy` for each turn, and by `carrier` for those that follow.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from dure.front.choose import Backend
from dure.front.request import Request, encode_request

if TYPE_CHECKING:
    from dure.front.proxy import Front


class Asked(msgspec.Struct, frozen=True):
    """What a request should take of a backend, and its prompt of that; whether its first token will be seen."""

    work_s: float
    prompt_s: float
    tokens: int
    streams: bool


class Leg:
    """Made when a backend has taken the request; `close` gives everything back."""

    def __init__(self, front: Front, backend: Backend, asked: Asked) -> None:
        self._front, self.backend, self._asked = front, backend, asked
        self.prompt = Prompt(front, backend, asked)
        self.reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        # Set when the backend has left for long enough, and the request should go on elsewhere.
        self.cut = asyncio.Event()
        self._closed = False
        front.legs.add(self)

    async def send(self, request: Request) -> bool:
        """Whether the backend could be reached. A connection that is lost later shows when its answer is read."""
        parts = urlsplit(self.backend.url)
        try:
            self.reader, self._writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        except OSError:
            return False
        self._writer.write(encode_request(request, parts.netloc))
        await self._writer.drain()
        return True

    def close(self) -> None:
        """To an engine that still computes, the end of the connection says that nobody wants the rest."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        self._front.legs.discard(self)
        self.prompt.over()
        self._front.done(self.backend, self._asked.work_s)


class Prompt:
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
            self._front.call()
