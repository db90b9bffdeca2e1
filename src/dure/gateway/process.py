"""Puts a gateway together and runs it: watches, the thread that looks again, and the HTTP server."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import structlog
from litestar.handlers import HTTPRouteHandler

from dure.adapters.kube.rest import Api
from dure.adapters.kueue.board import Board
from dure.adapters.kueue.objects import Workload
from dure.adapters.shapes import settle
from dure.gateway.app import create_app
from dure.gateway.desk import Desk
from dure.gateway.dispatcher import Dispatcher
from dure.gateway.journal import Journal
from dure.gateway.ledger import Ledger
from dure.gateway.memory import Memory
from dure.gateway.mover import Mover
from dure.gateway.planner import Planner
from dure.gateway.recovery import Recovery
from dure.gateway.server import Server
from dure.gateway.settings import Settings
from dure.gateway.who import Doorman
from dure.model.errors import DureError

GRACE_S = 5
_log = structlog.get_logger("dure.gateway")


class Gateway:
    """`start` returns the address; `stop` is safe to call twice. The main thread keeps the signals."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        state: Path | None = None,
        *,
        everybody: bool = False,
        pages: Sequence[HTTPRouteHandler] = (),
        apart: bool = False,
    ) -> None:
        """`apart`: long backlogs are planned in a process of their own."""
        settle()
        if state is not None:
            state.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(state / "decisions.jsonl" if state else None)
        self.memory = Memory(state / "durations.json" if state else None)
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self.ledger = Ledger()
        self.board = Board(api, self.ledger, self._finished, self._wake.set)
        self.desk = Desk(api, self.board, self.ledger, settings, self.journal, self.memory, time.time)
        self._planner = Planner() if apart else None
        self._recovery = Recovery(self.desk)
        self.mover = Mover(self.desk, self._planner, recover=self._recovery.run)
        self.dispatcher = Dispatcher(self.board, settings)
        self.app = create_app(self.desk, Doorman(api, everybody=everybody), pages)
        self._server = Server(self.app)
        self._thread = threading.Thread(target=self._look_again, name="dure-mover", daemon=True)

    def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        self.board.start()
        self._recovery.run()
        url = self._server.start(host, port)
        self._thread.start()
        return url

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        self._server.stop()
        if self._planner is not None:
            self._planner.close()
        if self._thread.is_alive():
            self._thread.join(GRACE_S)
        self.board.stop()
        self.memory.save()
        self.journal.close()

    def _finished(self, workload: Workload) -> None:
        self.desk.finished(workload)

    def _look_again(self) -> None:
        """At once after a change, but not more often than every `look_again_s`."""
        while not self._stopped.is_set():
            self._wake.wait(self.dispatcher.pause_s)
            self._wake.clear()
            try:
                self.dispatcher.turn(time.time())
                self.mover.turn()
            except DureError as error:
                _log.warning("looking again failed", error=str(error))
            except Exception as error:
                # A fault of ours; jobs that wait must still be looked at again.
                _log.error("looking again failed", exc_info=error)
            self._stopped.wait(self.desk.settings.look_again_s)
