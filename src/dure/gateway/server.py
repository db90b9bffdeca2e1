"""Serves the gateway's application in a thread of its own; `start` returns once requests are answered.

Connections come in through the door, which answers plain submissions itself and gives the rest to the application.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import uvicorn
from litestar import Litestar
from uvicorn.protocols.http.h11_impl import H11Protocol

from dure.gateway.door import Door
from dure.gateway.intake import answered
from dure.model.errors import Permanent, Temporary

GRACE_S = 5
START_S = 60.0
BACKLOG = 256


class Server:
    """`app` is one that `create_app` made: its state holds the desk and the doorman."""

    def __init__(self, app: Litestar) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            ws="none",
            # By name, so that how strictly requests are read does not depend on what is installed.
            http="h11",
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()
        submit = partial(answered, app.state["desk"], app.state["doorman"])
        self._door = Door(submit, self._server.take_over, self._server.stamp)

    def start(self, host: str, port: int) -> str:
        listener = _listen(host, port)
        self._thread = threading.Thread(target=self._server.run, args=([],), name="dure-gateway", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                listener.close()
                raise Temporary("the gateway did not start")
            self._pause.wait(0.01)
        address = f"http://{host}:{listener.getsockname()[1]}"
        self._door.start(listener)
        return address

    def stop(self) -> None:
        self._door.stop()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(GRACE_S + 1)


class _Server(uvicorn.Server):
    """Listens nowhere: connections are handed to it, by any thread."""

    loop: asyncio.AbstractEventLoop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def stamp(self) -> Iterable[tuple[bytes, bytes]]:
        return self.server_state.default_headers

    def take_over(self, conn: socket.socket, got: bytes) -> None:
        """`got` was already read from it."""
        try:
            asyncio.run_coroutine_threadsafe(self._welcome(conn, got), self.loop)
        except RuntimeError:
            # The server has ended meanwhile.
            conn.close()

    async def _welcome(self, conn: socket.socket, got: bytes) -> None:
        def protocol() -> _Begun:
            state: dict[str, Any] = self.lifespan.state
            return _Begun(got, config=self.config, server_state=self.server_state, app_state=state)

        try:
            await self.loop.connect_accepted_socket(protocol, conn)
        except OSError:
            conn.close()


class _Begun(H11Protocol):
    """A connection of which a part was read before."""

    def __init__(self, got: bytes, **given: Any) -> None:
        super().__init__(**given)
        self._got = got

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base has it
        super().connection_made(transport)
        if self._got:
            self.data_received(self._got)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, asyncio switches Nagle's delay off; unnamed, every answer waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Permanent(f"cannot listen on {host}:{port}: {error.strerror}", remedy="Name another port.") from error
    listener.listen(BACKLOG)
    return listener
