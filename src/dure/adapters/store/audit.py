"""The audit log in the database: one line for each audited transaction, written in that transaction.

So no write can exist without its line, nor a line without its write. `lock` is taken first by every writer, which
gives the lines, and the journal with them, one order in both databases.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, Row, select

from dure.adapters.acting import act
from dure.adapters.store import tables as t
from dure.adapters.store.rows import POSTING_KEY, POSTING_SUMS
from dure.model.audit import JOURNAL, START, AuditBody, AuditLine, Fact, Mark, digest_of, folded, sealed
from dure.model.who import Who
from dure.ports import Charge

_HEAD = "head"
BEGIN = "begin"


def lock(db: Connection) -> None:
    """Writers wait here for one another. SQLite has one writer at a time by itself."""
    if db.dialect.name != "sqlite":
        db.execute(select(t.audit_head.c.seq).where(t.audit_head.c.name == _HEAD).with_for_update())


def append(db: Connection, facts: Sequence[Fact]) -> None:
    """One line about everything that this step wrote, in the name of who acts."""
    append_all(db, [(*act(), facts)] if facts else [])


def append_all(db: Connection, said: Iterable[tuple[Who, str, Sequence[Fact]]]) -> None:
    """A line for each: who, what they did, and what that wrote."""
    _append(db, [(who.name, who.via, doing, facts) for who, doing, facts in said])


def begin(db: Connection) -> None:
    """The first line: everything that is there already. Nothing is done where there is a log."""
    if db.execute(select(t.audit_head.c.seq)).first() is not None:
        return
    db.execute(t.audit_head.insert().values(name=_HEAD, seq=0, hash=START))
    _append(db, [("plane", "plane", BEGIN, list(standing(db)))])


def head(db: Connection) -> Mark:
    row = db.execute(select(t.audit_head).where(t.audit_head.c.name == _HEAD)).one_or_none()
    return Mark(row.seq, row.hash) if row is not None else Mark()


def read(db: Connection, after: int, limit: int, newest: bool = False) -> list[AuditLine]:
    query = select(t.audit).where(t.audit.c.seq > after).limit(limit)
    rows = db.execute(query.order_by(t.audit.c.seq.desc() if newest else t.audit.c.seq)).all()
    lines = [AuditLine(_raw(row.body).decode(errors="replace"), str(row.hash)) for row in rows]
    return lines[::-1] if newest else lines


def record_facts(uid: str, values: Mapping[str, object]) -> Iterator[Fact]:
    """Of a new record both halves; of a changed one only its status, because the other never changes."""
    if "spec" in values:
        yield Fact("spec", uid, digest_of(values["spec"]))
    yield Fact("workload", uid, digest_of(values["version"], values["status"]))


def entry_facts(rows: Iterable[Mapping[str, object]]) -> Iterator[Fact]:
    for row in rows:
        yield Fact("journal", str(row["workload"]), digest_of(*(row[column] for column in _ENTRY)))


def charge_facts(charges: Iterable[Charge]) -> Iterator[Fact]:
    """What was added, in plain figures: the sums follow from them."""
    for one in charges:
        yield Fact("charge", f"{one.day}/{one.cluster}/{one.tenant}", f"{one.micros}/{one.carbon_mg}")


def posting_facts(rows: Iterable[Mapping[str, object]]) -> Iterator[Fact]:
    """As with charges: what was added to each line of the ledger."""
    for row in rows:
        name = "/".join(str(row[column]) for column in POSTING_KEY)
        yield Fact("posting", name, "/".join(str(row[column]) for column in POSTING_SUMS))


def fact(kind: str, name: str, body: object) -> Fact:
    return Fact(kind, name, digest_of(body))


def standing(db: Connection, *, in_short: bool = False) -> Iterator[Fact]:
    """Everything in the audited tables as it is now; `in_short` the journal is one fact."""
    for row in db.execute(select(*t.workloads.c["uid", "version", "spec", "status"])):
        yield from record_facts(row.uid, row._asdict())
    if in_short:
        yield journal_fact(db)
    else:
        yield from journal_facts(db)
    for row in db.execute(select(t.charges)):
        yield from charge_facts([_charge(row)])
    for row in db.execute(select(t.ledger)):
        yield from posting_facts([row._asdict()])
    for kind, name, body in bodies(db):
        yield fact(kind, name, body)


def journal_facts(db: Connection) -> Iterator[Fact]:
    for row in db.execute(select(t.journal).order_by(t.journal.c.seq)):
        yield from entry_facts([row._asdict()])


def journal_fact(db: Connection) -> Fact:
    """The whole journal: how many decisions, and all their digests as one."""
    digests = [one.digest for one in journal_facts(db)]
    return Fact(JOURNAL, str(len(digests)), folded(digests))


def bodies(db: Connection) -> Iterator[tuple[str, str, bytes]]:
    """Tenants, policies and tokens: kind, name, and the text that is kept."""
    for row in db.execute(select(t.tenants)):
        yield "tenant", row.name, _raw(row.body)
    for row in db.execute(select(t.policies)):
        yield "policy", f"{row.name}@{row.version}", _raw(row.body)
    for row in db.execute(select(t.tokens)):
        yield "token", row.id, _raw(row.body)


def _raw(value: object) -> bytes:
    """SQLite keeps whatever it is given, also in a column of bytes; a hand that alters it need not be careful."""
    return bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()


def _charge(row: Row[tuple[object, ...]]) -> Charge:
    return Charge(row.day, row.tenant, row.cluster, row.micros, row.carbon_mg)


def _append(db: Connection, said: Sequence[tuple[str, str, str, Sequence[Fact]]]) -> None:
    if not said:
        return
    last, now_s = head(db), time.time()
    rows: list[dict[str, object]] = []
    for who, via, action, facts in said:
        line = sealed(AuditBody(last.seq + 1, now_s, who, via, action, tuple(facts)), last.hash)
        last = Mark(last.seq + 1, line.hash)
        rows.append({"seq": last.seq, "body": line.body.encode(), "hash": line.hash})
    db.execute(t.audit.insert(), rows)
    db.execute(t.audit_head.update().where(t.audit_head.c.name == _HEAD).values(seq=last.seq, hash=last.hash))


_ENTRY = ("at_s", "digest", "workload", "tenant", "cluster", "decision")
