"""Samples in one SQLite file: every one for two days, then means of five minutes for a month, of hours for a year.

Called by the API's pulse (writes, reads) in several threads; one connection and one lock, since both are short. A
query over a long time reads the coarse tables, so that it answers about as many points as one over a short time.
Invariant: what was rolled up once is not changed by a sample that comes late; that one is dropped, as is a second one
of the same moment.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from dure.model.errors import Permanent, Temporary
from dure.model.sample import Sample
from dure.model.units import DAY_S, Instant

# (step, kept for): 0 is every sample as it came.
RAW_S, STEPS = 2.0 * DAY_S, ((300, 32.0 * DAY_S), (3600, 400.0 * DAY_S))
# A window is answered from the finest table that gives at most this many points for each series.
MOST_POINTS = 2_000
# Series do not come at the same moment: a step is added up when nobody should be this late any more.
LAG_S = 600.0
_ROLL_EVERY_S = 300.0

_SCHEMA = """
create table if not exists series (id integer primary key, name text not null, labels text not null,
                                   unique (name, labels));
create table if not exists raw (series integer not null, at_s real not null, value real not null,
                                primary key (series, at_s)) without rowid;
create table if not exists rolled (step integer not null, series integer not null, at_s real not null,
                                   count integer not null, total real not null, low real not null, high real not null,
                                   primary key (step, series, at_s)) without rowid;
create table if not exists mark (step integer primary key, until_s real not null);
create index if not exists raw_by_time on raw (at_s);
"""
_Key = tuple[str, tuple[tuple[str, str], ...]]


class SqliteMetrics:
    """`close` it at the end. A file that is no such store is refused with a word on what to do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._ids: dict[_Key, int] = {}
        self._last: dict[int, Instant] = {}
        self._newest_s = self._rolled_s = self._closed_s = 0.0
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.executescript("pragma journal_mode=wal; pragma synchronous=normal;" + _SCHEMA)
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
            known = {number: key[1] for key, number in self._ids.items() if key[0] == name}
            if not known:
                return ()
            rows = self._read(",".join(str(number) for number in known), since_s, until_s)
        found = [(known[series], at_s, value) for series, at_s, value in rows]
        found.sort(key=lambda one: one[:2])
        return tuple(Sample(name, dict(labels), at_s, value) for labels, at_s, value in found)

    def _read(self, listed: str, since_s: Instant, until_s: Instant) -> list[tuple[int, Instant, float]]:
        step = self._resolution(listed, since_s, until_s)
        fine = f"select series, at_s, value from raw where series in ({listed}) and at_s between ? and ?"
        if step == 0:
            return self._db.execute(fine, (since_s, until_s)).fetchall()
        coarse = (
            f"select series, at_s, total / count from rolled where series in ({listed}) and step = ? "
            "and at_s between ? and ?"
        )
        # The newest steps are not over yet.
        given = (step, since_s, until_s, max(since_s, self._mark(step)), until_s)
        return self._db.execute(f"{coarse} union all {fine}", given).fetchall()

    def write_samples(self, samples: Iterable[Sample]) -> None:
        with self._lock:
            try:
                self._db.execute("begin immediate")
                self._db.executemany("insert into raw values (?, ?, ?)", list(self._rows(samples)))
                if self._newest_s - self._rolled_s >= _ROLL_EVERY_S:
                    self._roll()
                self._db.execute("commit")
            except sqlite3.DatabaseError as error:
                self._db.rollback()
                self._load()
                raise Temporary(f"samples were not written: {error}", where=str(self._path)) from error

    def _rows(self, samples: Iterable[Sample]) -> Iterable[tuple[int, Instant, float]]:
        for sample in samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            number = self._ids.get(key)
            if number is None:
                number = self._register(key)
            last_s = self._last.get(number)
            if sample.at_s > last_s if last_s is not None else sample.at_s >= self._closed_s:
                self._last[number] = sample.at_s
                self._newest_s = max(self._newest_s, sample.at_s)
                yield number, sample.at_s, sample.value

    def _register(self, key: _Key) -> int:
        row = self._db.execute("insert into series (name, labels) values (?, ?)", (key[0], json.dumps(key[1])))
        assert row.lastrowid is not None
        self._ids[key] = row.lastrowid
        return row.lastrowid

    def _load(self) -> None:
        """Which series there are and how far each goes."""
        rows = self._db.execute("select id, name, labels from series").fetchall()
        self._ids = {(name, tuple((k, v) for k, v in json.loads(labels))): number for number, name, labels in rows}
        self._last = dict(self._db.execute("select series, max(at_s) from raw group by series").fetchall())
        self._newest_s = max(self._last.values(), default=0.0)
        self._rolled_s = self._closed_s = self._mark(STEPS[0][0])

    def _mark(self, step: int) -> Instant:
        """Until when the samples have been rolled up into this step."""
        row = self._db.execute("select until_s from mark where step = ?", (step,)).fetchone()
        return float(row[0]) if row else 0.0

    def _roll(self) -> None:
        """Add up the steps that are over, then let go of what is too old."""
        for step, kept_s in STEPS:
            since_s, until_s = self._mark(step), (self._newest_s - LAG_S) // step * step
            self._db.execute(
                "insert or ignore into rolled select ?, series, cast(at_s / ? as integer) * ?, count(*), sum(value), "
                "min(value), max(value) from raw where at_s >= ? and at_s < ? group by 2, 3",
                (step, step, step, since_s, until_s),
            )
            self._db.execute("insert or replace into mark values (?, ?)", (step, until_s))
            self._db.execute("delete from rolled where step = ? and at_s < ?", (step, self._newest_s - kept_s))
        self._db.execute("delete from raw where at_s < ?", (self._newest_s - RAW_S,))
        self._rolled_s = self._newest_s
        self._closed_s = self._mark(STEPS[0][0])

    def _resolution(self, listed: str, since_s: Instant, until_s: Instant) -> int:
        """The finest step that still reaches back to `since_s` and does not answer too much; 0 is every sample."""
        if since_s >= self._newest_s - RAW_S or not self._has_rolled(listed):
            query = f"select count(*) from raw where series in ({listed}) and at_s between ? and ? group by series"
            counts = self._db.execute(query, (since_s, until_s)).fetchall()
            if max((count for (count,) in counts), default=0) <= MOST_POINTS:
                return 0
        span_s = min(until_s, self._newest_s) - max(since_s, 0.0)
        fitting = (step for step, kept_s in STEPS if span_s <= min(kept_s, step * MOST_POINTS))
        return next(fitting, STEPS[-1][0])

    def _has_rolled(self, listed: str) -> bool:
        """Whether there is anything that only the coarse tables know."""
        query = f"select 1 from rolled where series in ({listed}) and at_s < ? limit 1"
        return self._db.execute(query, (self._newest_s - RAW_S,)).fetchone() is not None
