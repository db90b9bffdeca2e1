"""A long poll in a thread of its own that does nothing but wake the agent when the plane has news."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from dure.model.errors import DureError
from dure.model.units import Seconds

WAIT_S = 25.0
PAUSE_S = 2.0

_log = structlog.get_logger("dure.agent")


class Poller:
    def __init__(self, wait_for_news: Callable[[Seconds], bool], wake: Callable[[], None]) -> None:
        self._wait_for_news = wait_for_news
        self._wake = wake
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plane poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The poll that is under way ends by itself; nobody waits for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                news = self._wait_for_news(WAIT_S)
            except Exception as error:
                if not isinstance(error, DureError):
                    _log.error("listening to the plane failed, trying again", exc_info=error)
                self._stopped.wait(PAUSE_S)
                continue
            if news:
                self._wake()
                # Until the agent has fetched it, the same news would be told again at once.
                self._stopped.wait(PAUSE_S / 10)
