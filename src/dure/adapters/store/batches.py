"""Many rows in a few statements: new workloads, and new statuses of known ones.

Called by the store inside of its write transaction. All who write workloads wait for the audit log's lock first, so
what is read here stands until the commit, and reading before writing replaces a statement for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sqlalchemy import Connection, bindparam, select

from dure.adapters.store import audit
from dure.adapters.store import tables as t
from dure.adapters.store.rows import record_of, record_row, status_row
from dure.model.audit import Fact
from dure.model.errors import Conflict
from dure.model.workload import WorkloadRecord
from dure.ports import Change, New

# PostgreSQL takes 65,535 values in one statement, SQLite 32,766.
_VALUES = 10_000

_UPDATE = (
    t.workloads.update()
    .where(t.workloads.c.uid == bindparam("known_uid"))
    .values({name: bindparam(name) for name in ("version", "phase", "ended", "finished_s", "status")})
)


def create_all(db: Connection, wanted: Sequence[New]) -> list[WorkloadRecord | Conflict]:
    """What each has led to, in their order. A refused one leaves no trace."""
    earlier = by_key(db, {one.key for one in wanted if one.key})
    used = _open_names(db, {one.record.name for one in wanted})
    answers: list[WorkloadRecord | Conflict] = []
    made: list[New] = []
    for one in wanted:
        record = one.record
        if one.key in earlier:
            answers.append(earlier[one.key])
            continue
        if not record.status.phase.ended and record.name in used:
            answers.append(taken(record))
            continue
        made.append(one)
        answers.append(record)
        if not record.status.phase.ended:
            used.add(record.name)
        if one.key:
            earlier[one.key] = record
    _insert(db, made)
    return answers


def swap_all(db: Connection, changes: Sequence[Change]) -> tuple[list[Change], list[Fact]]:
    """The changes whose record was still at its version, and what the audit log says about them."""
    versions: dict[str, int] = {}
    for uids in _chunks({change.uid for change in changes}):
        columns = t.workloads.c["uid", "version"]
        for row in db.execute(select(*columns).where(t.workloads.c.uid.in_(uids))):
            versions[row.uid] = row.version
    swapped: list[Change] = []
    rows: list[dict[str, object]] = []
    facts: list[Fact] = []
    for change in changes:
        if versions.get(change.uid) != change.version:
            continue
        versions[change.uid] = change.version + 1
        values = {"version": change.version + 1, **status_row(change.status)}
        swapped.append(change)
        rows.append({"known_uid": change.uid, **values})
        facts.extend(audit.record_facts(change.uid, values))
    if rows:
        db.execute(_UPDATE, rows)
    return swapped, facts


def _insert(db: Connection, made: Sequence[New]) -> None:
    if not made:
        return
    keys = [{"key": one.key, "uid": one.record.uid} for one in made if one.key]
    if keys:
        db.execute(t.idempotency.insert(), keys)
    rows = [record_row(one.record) for one in made]
    db.execute(t.workloads.insert(), rows)
    facts = ([*audit.record_facts(one.record.uid, row)] for one, row in zip(made, rows, strict=True))
    audit.append_all(db, [(one.who, one.doing, said) for one, said in zip(made, facts, strict=True)])


def by_key(db: Connection, keys: set[str]) -> dict[str, WorkloadRecord]:
    """What was created under those keys that are known."""
    found = {}
    for some in _chunks(keys):
        joined = select(t.workloads, t.idempotency.c.key).join(
            t.idempotency, t.idempotency.c.uid == t.workloads.c.uid
        )
        for row in db.execute(joined.where(t.idempotency.c.key.in_(some))):
            found[row.key] = record_of(row)
    return found


def _open_names(db: Connection, names: set[str]) -> set[str]:
    found: set[str] = set()
    for some in _chunks(names):
        query = select(t.workloads.c.name).where(t.workloads.c.ended == 0, t.workloads.c.name.in_(some))
        found.update(db.execute(query).scalars())
    return found


def taken(record: WorkloadRecord) -> Conflict:
    remedy = f"Choose another name or cancel it first: dure cancel {record.name}"
    return Conflict(f"workload '{record.name}' exists and has not ended", remedy=remedy)


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(sorted(values))
    while chunk := list(islice(rest, _VALUES)):
        yield chunk
