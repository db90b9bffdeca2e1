"""Cuts off the past in one transaction, and seals the cut into the audit log.

The log loses its oldest lines. A new line names the last one that is gone and its hash, so that the chain is checked
from there on; the lines after it tell again everything that stands, so that every row can still be compared with what
was written. The journal loses the decisions about workloads that had ended, the ledger keeps closed months as sums.

Invariant: what is left is what was there before; a crash leaves all or nothing of a cut.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import Connection, Select, func, or_, select, text

from dure.adapters.acting import act
from dure.adapters.store import audit
from dure.adapters.store import tables as t
from dure.adapters.store.rows import posting_of, posting_rows, upsert
from dure.adapters.store.verify import origin
from dure.model.audit import CUT, PRUNE, REMOVED, RESTATE, AuditLine, Fact, Mark
from dure.model.errors import Conflict
from dure.model.pruned import PRUNED_SETTING, Pruned
from dure.model.units import Instant
from dure.watch.months import month_hour, opening

T = TypeVar("T")
Write = Callable[[], AbstractContextManager[Connection]]
BATCH = 1000


class _NotMeant(Exception):
    """Takes a transaction back whose outcome was only looked at."""


def cut_off(write: Write, cut_s: Instant, now_s: Instant, dry_run: bool) -> Pruned:
    """`write` opens a transaction. `now_s` is what the fleet's clock says; lines of the log go by the same age on
    this machine's clock. `Conflict` if the cut would touch the past of a workload that has not ended."""
    made = Pruned(cut_s)
    with contextlib.suppress(_NotMeant), write() as db:
        if db.dialect.name == "postgresql":
            # Adding up months takes as long as it takes.
            db.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        made = prune(db, cut_s, time.time() - (now_s - cut_s))
        if dry_run:
            raise _NotMeant
    return made


def latest_cut(db: Connection, cut_s: Instant) -> Instant:
    """The latest moment up to `cut_s` at which a cut touches no workload that has not ended."""
    return min([cut_s, *(submitted_s for _, submitted_s in unfinished(db, cut_s))])


def unfinished(db: Connection, cut_s: Instant) -> list[tuple[str, Instant]]:
    """Workloads whose past the cut would touch, the oldest first."""
    query = select(t.workloads.c.name, t.workloads.c.submitted_s).where(
        t.workloads.c.ended == 0, t.workloads.c.submitted_s < cut_s
    )
    rows = db.execute(query.order_by(t.workloads.c.submitted_s, t.workloads.c.name).limit(3))
    return [(str(row.name), float(row.submitted_s)) for row in rows]


def prune(db: Connection, cut_s: Instant, wall_s: Instant) -> Pruned:
    """Everything before `cut_s`; `wall_s` is the same moment by the clock that lines of the log have."""
    if touched := unfinished(db, cut_s):
        names = ", ".join(name for name, _ in touched)
        raise Conflict(
            f"the cut would touch the past of workloads that have not ended: {names}",
            remedy="Keep more, or let --unfinished choose the latest cut that touches none.",
        )
    first = origin(db)
    last = _last_before(db, first, wall_s)
    decisions = db.execute(select(func.count()).select_from(_decisions(cut_s).subquery())).scalar_one()
    old = [posting_of(row) for row in db.execute(select(t.ledger).where(t.ledger.c.hour < month_hour(cut_s)))]
    kept = opening(old)
    made = Pruned(
        cut_s,
        last.seq - first.seq,
        decisions,
        len(old) - len(kept),
        len({one.hour for one in kept}),
        last.seq + 1,
    )
    if not made:
        return made
    _cut_journal(db, cut_s)
    if made.postings:
        _swap_ledger(db, cut_s, posting_rows(kept))
    db.execute(t.audit.delete().where(t.audit.c.seq <= last.seq))
    _seal(db, made, last)
    upsert(db, t.settings, {"name": PRUNED_SETTING, "value": repr(cut_s).encode()}, ("name",))
    return made


def _last_before(db: Connection, first: Mark, wall_s: Instant) -> Mark:
    """The last of the oldest lines that are all older than this; a clock that was set back ends it early."""
    last = first
    for lines in _batches(db):
        for line in lines:
            said = line.said()
            if said.at_s >= wall_s:
                return last
            last = Mark(said.seq, line.hash)
    return last


def _batches(db: Connection) -> Iterator[list[AuditLine]]:
    after = 0
    while lines := audit.read(db, after, BATCH):
        yield lines
        after = lines[-1].said().seq


def _decisions(cut_s: Instant) -> Select[tuple[int]]:
    """Those about workloads that had ended by then, and those about none; of the others not one is missing."""
    alive = select(t.workloads.c.name).where(or_(t.workloads.c.ended == 0, t.workloads.c.finished_s >= cut_s))
    return select(t.journal.c.seq).where(t.journal.c.at_s < cut_s, t.journal.c.workload.not_in(alive))


def _cut_journal(db: Connection, cut_s: Instant) -> None:
    db.execute(t.journal.delete().where(t.journal.c.seq.in_(_decisions(cut_s))))


def _swap_ledger(db: Connection, cut_s: Instant, rows: Sequence[dict[str, object]]) -> None:
    db.execute(t.ledger.delete().where(t.ledger.c.hour < month_hour(cut_s)))
    for part in _parts(rows):
        db.execute(t.ledger.insert(), part)


def _seal(db: Connection, made: Pruned, last: Mark) -> None:
    told = [
        Fact(CUT, str(last.seq), last.hash),
        Fact(REMOVED, "before", repr(made.cut_s)),
        Fact(REMOVED, "lines", str(made.lines)),
        Fact(REMOVED, "decisions", str(made.decisions)),
        Fact(REMOVED, "postings", str(made.postings)),
    ]
    who, _ = act()
    audit.append_all(db, [(who, PRUNE, told)])
    for part in _parts(audit.standing(db, in_short=True)):
        audit.append_all(db, [(who, RESTATE, part)])


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(itertools.islice(rest, BATCH)):
        yield part
