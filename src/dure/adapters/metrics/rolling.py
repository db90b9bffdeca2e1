"""Adds up the steps that are over, packs their samples tightly, and lets go of what is too old or too much.

The store calls `turn` at the end of every write, inside its transaction. Work is shared out: each turn rolls about
four times as many samples as were written, a metric at a time, so it keeps up and no single write waits long.
"""

from __future__ import annotations

import sqlite3

import numpy as np

from dure.adapters.metrics import columns as cols
from dure.adapters.metrics.catalogue import Known, Metric
from dure.adapters.metrics.columns import Columns
from dure.model.units import DAY_S, Instant

# (step, kept for); every sample is kept for RAW_S.
RAW_S, STEPS = 2.0 * DAY_S, ((300, 32.0 * DAY_S), (3600, 400.0 * DAY_S))
# Series do not come at the same moment: a step is added up when nobody should be this late any more.
LAG_S = 600.0
# A kept piece has about this many samples at most: what a short query has to inflate.
_PIECE = 100_000
_LEAST_WORK = 20_000
_SWEEP_S = 300.0


class Roller:
    def __init__(self, db: sqlite3.Connection, most_bytes: int) -> None:
        self._db = db
        self._most_bytes = most_bytes
        self._swept_s: Instant | None = None

    def mark(self, metric: int, step: int) -> Instant:
        """Until when the metric has been rolled up into this step."""
        query = "select until_s from mark where metric = ? and step = ?"
        row = self._db.execute(query, (metric, step)).fetchone()
        return float(row[0]) if row else 0.0

    def turn(self, known: Known, written: int) -> None:
        """Roll metrics that have a step more to roll, the furthest behind first, until enough was done."""
        step = STEPS[0][0]
        until_s = _floor(known.newest_s - LAG_S, step)
        due = [metric for metric in known.metrics.values() if metric.closed_s < until_s]
        budget = max(_LEAST_WORK, 4 * written)
        for metric in sorted(due, key=lambda one: (one.closed_s, one.number)):
            budget -= self._roll(metric, until_s)
            if budget <= 0:
                break
        if self._swept_s is None or known.newest_s - self._swept_s >= _SWEEP_S:
            self._swept_s = known.newest_s
            self._sweep(known.newest_s)

    def _roll(self, metric: Metric, until_s: Instant) -> int:
        """All open pieces of one metric; what is after `until_s` stays open. Answers how many samples that was."""
        query = "select id, data from piece where metric = ? and kept = 0 and low_s < ?"
        rows = self._db.execute(query, (metric.number, until_s)).fetchall()
        if rows:
            whole = cols.joined(cols.read_plain(data) for _, data in rows).ordered()
            self._db.executemany("delete from piece where id = ?", [(number,) for number, _ in rows])
            over = whole.at_s < until_s
            self._fine(metric.number, whole.where(over))
            if not over.all():
                self._insert(metric.number, whole.where(~over), kept=False)
        self._write_mark(metric.number, STEPS[0][0], until_s)
        self._coarse(metric.number, _floor(until_s, STEPS[1][0]))
        metric.closed_s = until_s
        return sum(len(data) // 20 for _, data in rows) + 100

    def _fine(self, metric: int, part: Columns) -> None:
        step = STEPS[0][0]
        slots = part.at_s // step
        found = np.unique(slots)
        for slot in found:
            inside = part.where(slots == slot) if len(found) > 1 else part
            self._write_rolled(step, metric, float(slot) * step, cols.rolled_up(inside))
        # By time first: a piece that covers a short time is one that few queries touch.
        order = np.argsort(slots, kind="stable")
        moved = Columns(part.series[order], part.at_s[order], part.value[order])
        for begin in range(0, len(order), _PIECE):
            self._insert(metric, moved.cut(begin, begin + _PIECE), kept=True)

    def _coarse(self, metric: int, until_s: Instant) -> None:
        """Hours out of five minutes, once they are whole."""
        fine, step = STEPS[0][0], STEPS[1][0]
        since_s = self.mark(metric, step)
        if until_s <= since_s:
            return
        query = "select at_s, data from rolled where step = ? and metric = ? and at_s >= ? and at_s < ? order by at_s"
        hours: dict[float, list[cols.Rolled]] = {}
        for at_s, data in self._db.execute(query, (fine, metric, since_s, until_s)):
            hours.setdefault(_floor(at_s, step), []).append(cols.inflate_rolled(data))
        for at_s, parts in hours.items():
            self._write_rolled(step, metric, at_s, cols.coarser(parts))
        self._write_mark(metric, step, until_s)

    def _insert(self, metric: int, part: Columns, *, kept: bool) -> None:
        data = cols.deflate(part) if kept else cols.plain(part)
        self._db.execute(
            "insert into piece (metric, low_s, high_s, count, kept, data) values (?, ?, ?, ?, ?, ?)",
            (metric, part.at_s.min(), part.at_s.max(), len(part.at_s), int(kept), data),
        )

    def _write_rolled(self, step: int, metric: int, at_s: Instant, rolled: cols.Rolled) -> None:
        given = (step, metric, at_s, cols.deflate_rolled(rolled))
        self._db.execute("insert or replace into rolled values (?, ?, ?, ?)", given)

    def _write_mark(self, metric: int, step: int, until_s: Instant) -> None:
        self._db.execute("insert or replace into mark values (?, ?, ?)", (metric, step, until_s))

    def _sweep(self, newest_s: Instant) -> None:
        self._db.execute("delete from piece where kept = 1 and high_s < ?", (newest_s - RAW_S,))
        for step, kept_s in STEPS:
            self._db.execute("delete from rolled where step = ? and at_s < ?", (step, newest_s - kept_s))
        used = self._used_bytes()
        while used > self._most_bytes:
            query = "select id, length(data) from piece where kept = 1 order by high_s limit 256"
            oldest = self._db.execute(query).fetchall()
            if not oldest:
                return
            self._db.executemany("delete from piece where id = ?", [(number,) for number, _ in oldest])
            used -= sum(size for _, size in oldest)

    def _used_bytes(self) -> int:
        words = ("page_count", "freelist_count", "page_size")
        pages, free, size = (int(self._db.execute(f"pragma {word}").fetchone()[0]) for word in words)
        return (pages - free) * size


def _floor(at_s: Instant, step: int) -> Instant:
    return at_s // step * step
