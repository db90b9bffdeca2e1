"""Structs to rows and back, and the one upsert that both databases spell the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Table
from sqlalchemy.dialects import postgresql, sqlite

from dure.model.decision import Decision, JournalEntry
from dure.model.event import Event
from dure.model.policy import Policy
from dure.model.posting import Account, Posting
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.token import Token
from dure.model.workload import Workload, WorkloadRecord, WorkloadStatus
from dure.ports import Charge

encode = msgspec.json.Encoder().encode

DECODERS: Mapping[Any, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Workload, WorkloadStatus, Event, Policy, Report, Tenant, Token)
}
_DECISION: msgspec.json.Decoder[Decision] = msgspec.json.Decoder(Decision)


class _Told(msgspec.Struct):
    told_s: float = 0.0


def new_decisions(report: Report, before: bytes) -> tuple[Decision, ...]:
    """What a report tells that the one before it has not told already; its sender may not have heard the answer."""
    repeated = report.told_s > 0 and msgspec.json.decode(before, type=_Told).told_s == report.told_s
    return () if repeated else report.decisions


def record_row(record: WorkloadRecord) -> dict[str, object]:
    return {
        "uid": record.uid,
        "name": record.name,
        "tenant": record.spec.tenant,
        "submitted_s": record.status.submitted_s,
        "version": record.version,
        "spec": encode(record.spec),
        **status_row(record.status),
    }


def status_row(status: WorkloadStatus) -> dict[str, object]:
    """The columns that follow from a status."""
    return {
        "phase": status.phase.value,
        "ended": int(status.phase.ended),
        "finished_s": status.finished_s,
        "status": encode(status),
    }


def record_of(row: Row[Any]) -> WorkloadRecord:
    spec, status = DECODERS[Workload].decode(row.spec), DECODERS[WorkloadStatus].decode(row.status)
    return WorkloadRecord(row.uid, spec, status, row.version)


def entry_row(entry: JournalEntry) -> dict[str, object]:
    return {
        "at_s": entry.at_s,
        "digest": entry.digest,
        "workload": entry.workload,
        "tenant": entry.tenant,
        "cluster": entry.cluster,
        "decision": encode(entry.decision),
    }


def entry_of(row: Row[Any]) -> JournalEntry:
    return JournalEntry(row.seq, row.at_s, row.digest, _DECISION.decode(row.decision), row.tenant, row.cluster)


def event_of(row: Row[Any]) -> Event:
    event: Event = DECODERS[Event].decode(row.body)
    return msgspec.structs.replace(event, seq=row.seq)


def charge_rows(charges: Sequence[Charge]) -> list[dict[str, object]]:
    """Summed by key, because one statement may touch a row only once."""
    sums: dict[tuple[int, str, str], tuple[int, int]] = {}
    for charge in charges:
        key = (charge.day, charge.tenant, charge.cluster)
        micros, carbon = sums.get(key, (0, 0))
        sums[key] = (micros + charge.micros, carbon + charge.carbon_mg)
    return [
        {"day": day, "tenant": tenant, "cluster": cluster, "micros": micros, "carbon_mg": carbon}
        for (day, tenant, cluster), (micros, carbon) in sums.items()
    ]


# As the ledger is sorted: by hour, place, account, then whose it is.
POSTING_KEY = ("hour", "cluster", "pool", "account", "tenant", "workload", "model")
POSTING_SUMS = ("micros", "carbon_mg", "device_ms", "energy_mwh", "unknown_mwh")


def posting_rows(postings: Sequence[Posting]) -> list[dict[str, object]]:
    return [{name: _plain(getattr(one, name)) for name in (*POSTING_KEY, *POSTING_SUMS)} for one in postings]


def posting_of(row: Row[Any]) -> Posting:
    values = {name: getattr(row, name) for name in (*POSTING_KEY, *POSTING_SUMS)}
    return Posting(**{**values, "account": Account(row.account)})


def _plain(value: object) -> object:
    return value.value if isinstance(value, Account) else value


def upsert(db: Connection, table: Table, row: Mapping[str, object], key: Sequence[str]) -> None:
    """Insert, or replace the other columns."""
    upsert_all(db, table, [row], key)


def upsert_all(
    db: Connection, table: Table, rows: Sequence[Mapping[str, object]], key: Sequence[str], *, add: Sequence[str] = ()
) -> None:
    """Insert each, or replace the other columns; those in `add` are summed instead. All have the same columns."""
    if not rows:
        return
    dialect = sqlite if db.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(table)
    new = {
        column: table.c[column] + insert.excluded[column] if column in add else insert.excluded[column]
        for column in rows[0]
        if column not in key
    }
    db.execute(insert.on_conflict_do_update(index_elements=list(key), set_=new), list(rows))
