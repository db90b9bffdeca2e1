"""Records that need not be read again: nobody has committed since, or their version is the same.

SQLite says in microseconds whether anybody has committed, which makes a cache of records exact.

Used by the store alone: GET of one workload is the busiest read, and a query through all layers costs a
hundred times as much as this question.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Engine, Row

from dure.adapters.store.rows import DECODERS, record_of
from dure.model.report import Report
from dure.model.workload import WorkloadRecord

MAX_RECORDS = 4096
_REPORT = DECODERS[Report]


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


class Decoded:
    """Open records by uid and version, reports by their text: what has not changed is not read out of its JSON again.

    The loop, the agents and everybody who asks for the fleet list the same ones several times a second.
    """

    def __init__(self) -> None:
        self._open: dict[str, WorkloadRecord] = {}
        self._reports: dict[str, tuple[bytes, Report]] = {}

    def reports(self, rows: Iterable[tuple[str, bytes]]) -> tuple[Report, ...]:
        """Of all clusters: one that is gone is forgotten."""
        known, found = self._reports, {}
        for cluster, body in rows:
            before = known.get(cluster)
            found[cluster] = before if before is not None and before[0] == body else (body, _REPORT.decode(body))
        self._reports = found
        return tuple(report for _, report in found.values())

    def records(self, rows: Iterable[Row[Any]], *, all_open: bool) -> list[WorkloadRecord]:
        """`all_open` says that these are all there are, so that others can be forgotten."""
        known = self._open
        found = [_known_or_read(known.get(row.uid), row) for row in rows]
        if all_open:
            self._open = {record.uid: record for record in found}
        return found


def _known_or_read(known: WorkloadRecord | None, row: Row[Any]) -> WorkloadRecord:
    return known if known is not None and known.version == row.version else record_of(row)


def freshness_of(engine: Engine) -> Freshness | None:
    """Only a SQLite file can be watched this way; elsewhere every read goes to the database."""
    path = engine.url.database
    if engine.dialect.name != "sqlite" or not path or path == ":memory:":
        return None
    return Freshness(path)
