"""Is the database what the audit log says? Every line of the chain, then every audited row against its last line.

Called by `dure audit verify` on the database itself, so that it needs nobody's word. Reads everything once, or twice
where a cut has to be found, in memory that grows with the number of workloads, not of lines.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select

from dure.adapters.store import audit
from dure.adapters.store import tables as t
from dure.adapters.store.rows import POSTING_SUMS, record_of, record_row
from dure.model.audit import JOURNAL, START, AuditLine, Fact, Finding, Mark, check, cut_of, folded, origin_of

BATCH = 1000
_SUMMED = ("charge", "posting")
_ROWS = ("spec", "workload", "tenant", "policy", "token")


def verify(db: Connection, known: tuple[Mark, ...] = ()) -> tuple[int, list[Finding]]:
    """How many lines there are, and everything that is not as it was written."""
    said = _Said()
    findings = [*check(said.follow(_lines(db)), audit.head(db), known, origin(db))]
    findings += _rows(db, said.last)
    findings += _journal(db, said.restated, said.journal)
    findings += _sums(said.sums, "charge", map(_charge, db.execute(select(t.charges))))
    findings += _sums(said.sums, "posting", map(_posting, db.execute(select(t.ledger))))
    return said.count, findings


def origin(db: Connection) -> Mark:
    """The last line that a cut took away; what comes before line 1 where nothing is gone."""
    first = db.execute(select(func.min(t.audit.c.seq))).scalar()
    return Mark() if first in (None, 1) else origin_of(_lines(db))


class _Said:
    """What the log says of each thing, gathered while the chain is checked."""

    def __init__(self) -> None:
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """A cut tells everything again, so what was said before it counts no longer."""
        self.restated: tuple[int, str] = (0, START)
        self.last: dict[tuple[str, str], str] = {}
        self.journal: list[str] = []
        self.sums: dict[tuple[str, str], tuple[int, ...]] = {}

    def follow(self, lines: Iterator[AuditLine]) -> Iterator[AuditLine]:
        for line in lines:
            self.count += 1
            try:
                if cut_of(line) is not None:
                    self.forget()
                for one in line.said().facts:
                    self._take(one)
            except (msgspec.MsgspecError, ValueError):
                # The chain itself says that this line was altered.
                pass
            yield line

    def _take(self, one: Fact) -> None:
        if one.kind == "journal":
            self.journal.append(one.digest)
        elif one.kind == JOURNAL:
            self.restated = (int(one.name), one.digest)
        elif one.kind in _SUMMED:
            more = tuple(int(part) for part in one.digest.split("/"))
            before = self.sums.get((one.kind, one.name), (0,) * len(more))
            self.sums[one.kind, one.name] = tuple(map(operator.add, before, more))
        elif one.kind in _ROWS:
            self.last[one.kind, one.name] = one.digest


def _lines(db: Connection) -> Iterator[AuditLine]:
    after = 0
    while batch := audit.read(db, after, BATCH):
        yield from batch
        # By place, not by what the line calls itself: that could have been altered.
        after = db.execute(
            select(t.audit.c.seq).where(t.audit.c.seq > after).order_by(t.audit.c.seq).offset(len(batch) - 1).limit(1)
        ).scalar_one()


def _rows(db: Connection, last: dict[tuple[str, str], str]) -> Iterator[Finding]:
    left = dict(last)
    for one in _present(db):
        told = left.pop((one.kind, one.name), None)
        if told is None:
            yield Finding(f"{one.kind} {one.name}", "nobody wrote it: the log does not know it")
        elif told != one.digest:
            yield Finding(f"{one.kind} {one.name}", "it is not what was last written")
    for kind, name in sorted(left):
        yield Finding(f"{kind} {name}", "it was written and is gone")
    for row in db.execute(select(t.workloads)):
        if not _consistent(row):
            yield Finding(f"workload {row.name}", "its columns do not say what its record says")


def _present(db: Connection) -> Iterator[Fact]:
    for row in db.execute(select(*t.workloads.c["uid", "version", "spec", "status"])):
        yield from audit.record_facts(row.uid, row._asdict())
    for kind, name, body in audit.bodies(db):
        yield audit.fact(kind, name, body)


def _consistent(row: Row[Any]) -> bool:
    """Searches go by the columns, so they must not differ from the record they stand for."""
    try:
        wanted = record_row(record_of(row))
    except (msgspec.MsgspecError, TypeError, ValueError):
        return False
    columns = ("name", "tenant", "phase", "ended", "submitted_s", "finished_s")
    return all(wanted[column] == row._mapping[column] for column in columns)


def _journal(db: Connection, restated: tuple[int, str], told: list[str]) -> Iterator[Finding]:
    """Writers took turns, so the journal has the order of the log; a cut tells its beginning as one."""
    number, (count, wanted) = 0, restated
    whole = START
    for row in db.execute(select(t.journal).order_by(t.journal.c.seq)):
        (one,) = audit.entry_facts([row._asdict()])
        if number < count:
            whole = folded([one.digest], whole)
            if number == count - 1 and whole != wanted:
                yield Finding(f"decisions up to {row.seq}", "they are not what the cut left, or one is missing")
                return
        elif number >= count + len(told) or told[number - count] != one.digest:
            yield Finding(f"decision {row.seq}", "it is not what was decided, or one before it is missing")
            return
        number += 1
    if number < count + len(told):
        yield Finding("decisions", f"{count + len(told) - number} of the last ones are gone")


def _sums(
    said: dict[tuple[str, str], tuple[int, ...]], kind: str, rows: Iterable[tuple[str, tuple[int, ...]]]
) -> Iterator[Finding]:
    left = {name for found, name in said if found == kind}
    for name, sums in rows:
        left.discard(name)
        if said.get((kind, name), ()) != sums:
            yield Finding(f"{kind} {name}", "it is not the sum of what was written")
    for name in sorted(left):
        yield Finding(f"{kind} {name}", "it was written and is gone")


def _charge(row: Row[Any]) -> tuple[str, tuple[int, ...]]:
    return f"{row.day}/{row.cluster}/{row.tenant}", (row.micros, row.carbon_mg)


def _posting(row: Row[Any]) -> tuple[str, tuple[int, ...]]:
    (one,) = audit.posting_facts([row._asdict()])
    return one.name, tuple(getattr(row, column) for column in POSTING_SUMS)
