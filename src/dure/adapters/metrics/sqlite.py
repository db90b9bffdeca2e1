"""Samples in one SQLite file: every one for two days, then means of five minutes for a month, of hours for a year.

Called by the API's pulse and by collectors (writes, reads) in several threads; one connection and one lock. A write
is one row for each metric in it, whatever the number of series: columns of numbers, not rows of them. Steps that
are over are sorted, deflated and added up a few metrics at a time, so that no writer waits for all. A query over a
long time reads means, so that it answers about as many points as one over a short time. When the file would pass
its size the oldest samples go first; means stay.

Invariant: what was rolled up once is not changed by a sample that comes late; that one is dropped, as is a second
one of the same moment.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from dure.adapters.metrics import columns as cols
from dure.adapters.metrics.catalogue import Fresh, Known, Metric
from dure.adapters.metrics.columns import Columns
from dure.adapters.metrics.rolling import RAW_S, STEPS, Roller
from dure.adapters.metrics.tables import prepare
from dure.model.errors import Permanent, Temporary
from dure.model.sample import Sample
from dure.model.units import Instant

# A window is answered from the finest table that gives at most this many points for each series.
MOST_POINTS = 2_000
MOST_BYTES = 4 * 1024**3


class SqliteMetrics:
    """`close` it at the end. A file that is no such store is refused with a word on what to do."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.executescript("pragma journal_mode=wal; pragma synchronous=normal;")
            prepare(self._db)
            self._roller = Roller(self._db, most_bytes)
            self._known = Known()
            self._load()
        except sqlite3.DatabaseError as error:
            raise Permanent(
                f"the samples cannot be read: {error}",
                where=str(path),
                remedy="Move the file away: only the charts' past is in it.",
            ) from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def fetch_samples(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        """Samples with `since_s <= at_s <= until_s`; over a long time means, each at the beginning of its step."""
        with self._lock:
            metric = self._known.metrics.get(name)
            if metric is None:
                return ()
            found = self._read(metric, since_s, until_s)
            labels = metric.by_rank()
        # Series are ordered by their labels, not by when they were seen first.
        rank = np.zeros(max(number for number, _ in labels) + 1, np.int32)
        rank[[number for number, _ in labels]] = np.arange(len(labels), dtype=np.int32)
        found = found._replace(series=rank[found.series]).ordered()
        shown = [dict(pairs) for _, pairs in labels]
        rows = zip(found.series.tolist(), found.at_s.tolist(), found.value.tolist(), strict=True)
        return tuple(Sample(name, shown[series], at_s, value) for series, at_s, value in rows)

    def _read(self, metric: Metric, since_s: Instant, until_s: Instant) -> Columns:
        step = self._resolution(metric, since_s, until_s)
        if step == 0:
            return self._raw(metric, since_s, until_s)
        parts: list[Columns] = []
        begin_s = since_s
        # The newest steps are not over yet: they are answered by finer ones, the last minutes sample by sample.
        for finer in [coarse for coarse, _ in reversed(STEPS) if coarse <= step]:
            mark_s = self._roller.mark(metric.number, finer)
            parts.extend(self._means(metric, finer, begin_s, min(until_s, mark_s - finer)))
            begin_s = max(begin_s, mark_s)
        return cols.joined([*parts, self._raw(metric, begin_s, until_s)])

    def _means(self, metric: Metric, step: int, since_s: Instant, until_s: Instant) -> Iterable[Columns]:
        query = "select at_s, data from rolled where step = ? and metric = ? and at_s between ? and ?"
        for at_s, data in self._db.execute(query, (step, metric.number, since_s, until_s)):
            one = cols.inflate_rolled(data)
            yield Columns(one.series, np.full(len(one.series), at_s), one.total / one.counts)

    def _raw(self, metric: Metric, since_s: Instant, until_s: Instant) -> Columns:
        query = "select kept, data from piece where metric = ? and low_s <= ? and high_s >= ?"
        parts = [
            cols.inflate(data) if kept else cols.read_plain(data)
            for kept, data in self._db.execute(query, (metric.number, until_s, since_s))
        ]
        whole = cols.joined(parts)
        return whole.where((whole.at_s >= since_s) & (whole.at_s <= until_s))

    def _resolution(self, metric: Metric, since_s: Instant, until_s: Instant) -> int:
        """The finest step that still reaches back to `since_s` and does not answer too much; 0 is every sample."""
        query = "select min(low_s), max(high_s) from piece where metric = ?"
        oldest_s, newest_s = self._db.execute(query, (metric.number,)).fetchone()
        if oldest_s is None:
            oldest_s = newest_s = self._known.newest_s
        # Samples of the asked time are gone where it has a mean that begins before the oldest sample.
        older = "select 1 from rolled where step = ? and metric = ? and at_s >= ? and at_s < ? limit 1"
        step = STEPS[0][0]
        bounds = (since_s // step) * step, (oldest_s // step) * step
        lost = self._db.execute(older, (step, metric.number, *bounds)).fetchone() is not None
        if since_s >= oldest_s or not lost:
            query = "select low_s, high_s, count from piece where metric = ? and low_s <= ? and high_s >= ?"
            pieces = self._db.execute(query, (metric.number, until_s, since_s))
            if sum(_inside(one, since_s, until_s) for one in pieces) <= MOST_POINTS * len(metric.ids):
                return 0
        span_s = min(until_s, newest_s) - max(since_s, 0.0)
        fitting = (step for step, kept_s in STEPS if span_s <= min(kept_s, step * MOST_POINTS))
        return next(fitting, STEPS[-1][0])

    def write_samples(self, samples: Iterable[Sample]) -> None:
        with self._lock:
            try:
                self._db.execute("begin immediate")
                taken = self._known.take(samples)
                self._register(self._known.fresh())
                for metric, part in taken:
                    self._db.execute(
                        "insert into piece (metric, low_s, high_s, count, kept, data) values (?, ?, ?, ?, 0, ?)",
                        (metric.number, part.at_s.min(), part.at_s.max(), len(part.at_s), cols.plain(part)),
                    )
                self._roller.turn(self._known, sum(len(part.at_s) for _, part in taken))
                self._db.execute("commit")
            except sqlite3.DatabaseError as error:
                self._db.rollback()
                self._load()
                raise Temporary(f"samples were not written: {error}", where=str(self._path)) from error

    def _register(self, fresh: Fresh) -> None:
        """Series that were seen for the first time, and their metrics."""
        self._db.executemany("insert into metric (id, name) values (?, ?)", fresh.metrics)
        rows = ((number, metric, msgspec.json.encode(labels).decode()) for number, metric, labels in fresh.series)
        self._db.executemany("insert into series (id, metric, labels) values (?, ?, ?)", rows)

    def _load(self) -> None:
        """Which series there are and how far each goes: what is rolled up is before the mark of its metric."""
        self._known = known = Known()
        query = "select m.id, m.name, s.id, s.labels from series s join metric m on m.id = s.metric"
        for metric, name, number, labels in self._db.execute(query):
            known.add(metric, name, number, tuple((key, value) for key, value in msgspec.json.decode(labels)))
        for metric in known.metrics.values():
            metric.closed_s = self._roller.mark(metric.number, STEPS[0][0])
        for (data,) in self._db.execute("select data from piece where kept = 0 order by id"):
            known.remember(cols.read_plain(data))
        (newest_s,) = self._db.execute("select max(high_s) from piece").fetchone()
        known.newest_s = newest_s or 0.0


def _inside(piece: tuple[Instant, Instant, int], since_s: Instant, until_s: Instant) -> float:
    """About how many samples of a piece lie in the window."""
    low_s, high_s, count = piece
    if high_s <= low_s:
        return count
    return count * (min(high_s, until_s) - max(low_s, since_s)) / (high_s - low_s)


__all__ = ["MOST_BYTES", "MOST_POINTS", "RAW_S", "STEPS", "SqliteMetrics"]
