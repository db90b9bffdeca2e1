"""Serves the gateway's application in a thread of its own; `start` returns once requests are answered."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from litestar import Litestar

from dure.model.errors import Permanent, Temporary

GRACE_S = 5
START_S = 60.0
BACKLOG = 256


class Server:
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
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()

    def start(self, host: str, port: int) -> str:
        listener = _listen(host, port)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="dure-gateway", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise Temporary("the gateway did not start")
            self._pause.wait(0.01)
        return f"http://{host}:{listener.getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(GRACE_S + 1)


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
