"""Has anybody committed since? SQLite answers that in microseconds, which makes a cache of records exact.

Used by the store alone: GET of one workload is the busiest read, and a query through all layers costs a
hundred times as much as this question.
"""

from __future__ import annotations

import sqlite3
import threading

from sqlalchemy import Engine

from dure.model.workload import WorkloadRecord

MAX_RECORDS = 4096


class Freshness:
    """Records as of a version of the database file; one of an older version is never given out."""

    def __init__(self, path: str) -> None:
        # A connection that never writes: its data_version changes with every commit of any other, in any process.
        self._watcher = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        self._records: dict[str, tuple[int, WorkloadRecord]] = {}

    def version(self) -> int | None:
        """None when the disk does not let it look; then nothing is known to be fresh."""
        try:
            with self._lock:
                (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        assert isinstance(version, int)
        return version

    def recall(self, name: str, version: int) -> WorkloadRecord | None:
        at, record = self._records.get(name, (-1, None))
        return record if at == version else None

    def remember(self, name: str, version: int, record: WorkloadRecord) -> None:
        """`version` was asked before the record was read, so a commit between the two only makes it useless."""
        if len(self._records) >= MAX_RECORDS:
            self._records = {}
        self._records[name] = (version, record)

    def close(self) -> None:
        with self._lock:
            self._watcher.close()


def freshness_of(engine: Engine) -> Freshness | None:
    """Only a SQLite file can be watched this way; elsewhere every read goes to the database."""
    path = engine.url.database
    if engine.dialect.name != "sqlite" or not path or path == ":memory:":
        return None
    return Freshness(path)
