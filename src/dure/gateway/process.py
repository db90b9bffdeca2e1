"""Puts a gateway together and runs it: watches, the thread that looks again, and the HTTP server."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import structlog
import uvicorn

from dure.adapters.kube.rest import Api
from dure.adapters.kueue.board import Board
from dure.adapters.kueue.objects import Workload
from dure.gateway.app import create_app
from dure.gateway.desk import Desk
from dure.gateway.journal import Journal
from dure.gateway.ledger import Ledger
from dure.gateway.memory import Memory
from dure.gateway.mover import Mover
from dure.gateway.recovery import Recovery
from dure.gateway.settings import Settings
from dure.gateway.who import Doorman
from dure.model.errors import DureError, Permanent, Temporary

GRACE_S = 5
START_S = 20.0
_log = structlog.get_logger("dure.gateway")


class Gateway:
    """`start` returns the address; `stop` is safe to call twice. The main thread keeps the signals."""

    def __init__(self, api: Api, settings: Settings, state: Path | None = None, *, everybody: bool = False) -> None:
        if state is not None:
            state.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(state / "decisions.jsonl" if state else None)
        self.memory = Memory(state / "durations.json" if state else None)
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self.ledger = Ledger()
        self.board = Board(api, self.ledger, self._finished, self._wake.set)
        self.desk = Desk(api, self.board, self.ledger, settings, self.journal, self.memory, time.time)
        self.mover = Mover(self.desk)
        self.app = create_app(self.desk, Doorman(api, everybody=everybody))
        self._server: uvicorn.Server | None = None
        self._threads: list[threading.Thread] = []

    def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        self.board.start()
        Recovery(self.desk).run()
        listener = _listen(host, port)
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._threads = [
            threading.Thread(target=self._server.run, args=([listener],), name="dure-gateway", daemon=True),
            threading.Thread(target=self._look_again, name="dure-mover", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._threads[0].is_alive():
                raise Temporary("the gateway did not start")
            self._stopped.wait(0.01)
        return f"http://{host}:{listener.getsockname()[1]}"

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        if self._server is not None:
            self._server.should_exit = True
        for thread in self._threads:
            thread.join(GRACE_S + 1)
        self.board.stop()
        self.memory.save()
        self.journal.close()

    def _finished(self, workload: Workload) -> None:
        self.desk.finished(workload)

    def _look_again(self) -> None:
        """At once after a change, but not more often than every `look_again_s`."""
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self.mover.turn()
            except DureError as error:
                _log.warning("looking again failed", error=str(error))
            self._stopped.wait(self.desk.settings.look_again_s)


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Permanent(f"cannot listen on {host}:{port}: {error.strerror}", remedy="Name another port.") from error
    listener.listen(256)
    return listener
