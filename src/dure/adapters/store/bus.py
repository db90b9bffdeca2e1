"""News between replicas of the plane: PostgreSQL's NOTIFY at the end of a transaction, one listening thread each.

A wake-up, not a message: whoever is woken reads the store. What is lost while the connection is away is made up for
by the pollers' own looks, and by one wake-up when it is back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import structlog
from sqlalchemy import Engine

from dure.adapters.store.sql import CHANNEL

# How long to wait for news before looking whether to stop, and after a lost connection before the next try.
LOOK_S, READY_S = 1.0, 5.0
_log = structlog.get_logger("dure.store")


class Bus:
    """Calls `wake` for every piece of news of another replica; `me` is the name under which this one notifies."""

    def __init__(self, engine: Engine, me: str, wake: Callable[[], None]) -> None:
        self._address = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._me, self._wake = me, wake
        self._listening = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dure-bus", daemon=True)
        self._thread.start()
        # Who subscribes reads the store afterwards: nothing said until then may be missed.
        self._listening.wait(READY_S)

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                _log.warning("no news from other replicas, trying again", error=str(error))
                self._stopped.wait(LOOK_S)

    def _listen(self) -> None:
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            if self._listening.is_set():
                # Something may have been said while the connection was away.
                self._wake()
            self._listening.set()
            while not self._stopped.is_set():
                for news in connection.notifies(timeout=LOOK_S, stop_after=1):
                    if news.payload != self._me:
                        self._wake()
