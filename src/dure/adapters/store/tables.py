"""The tables. Structs are kept as JSON beside the few columns that are searched by."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, text

metadata = MetaData()

# SQLite counts only INTEGER PRIMARY KEY by itself.
_Sequence = BigInteger().with_variant(Integer, "sqlite")

workloads = Table(
    "workloads",
    metadata,
    Column("uid", String(64), primary_key=True),
    Column("name", String(253), nullable=False),
    Column("tenant", String(253), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("ended", Integer, nullable=False),
    Column("submitted_s", Float, nullable=False),
    Column("finished_s", Float),
    Column("version", BigInteger, nullable=False),
    Column("spec", LargeBinary, nullable=False),
    Column("status", LargeBinary, nullable=False),
    Index("workloads_by_name", "name", "submitted_s"),
    Index("workloads_open", "ended", "submitted_s", "name"),
    Index("workloads_finished", "ended", "finished_s"),
    Index("workloads_by_phase", "phase"),
    Index("workloads_by_submission", "submitted_s"),
    Index(
        "workloads_one_open_of_a_name",
        "name",
        unique=True,
        sqlite_where=text("ended = 0"),
        postgresql_where=text("ended = 0"),
    ),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("uid", String(64), nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("workload", String(253), nullable=False),
    Column("tenant", String(253), nullable=False),
    Column("cluster", String(253), nullable=False),
    Column("decision", LargeBinary, nullable=False),
    Index("journal_by_workload", "workload", "seq"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("tenant", String(253), nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

charges = Table(
    "charges",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("tenant", String(253), primary_key=True),
    Column("cluster", String(253), primary_key=True),
    Column("micros", BigInteger, nullable=False),
    Column("carbon_mg", BigInteger, nullable=False),
)

ledger = Table(
    "ledger",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("cluster", String(253), primary_key=True),
    Column("pool", String(253), primary_key=True),
    Column("account", String(16), primary_key=True),
    Column("tenant", String(253), primary_key=True),
    Column("workload", String(253), primary_key=True),
    Column("model", String(253), primary_key=True),
    Column("micros", BigInteger, nullable=False),
    Column("carbon_mg", BigInteger, nullable=False),
    Column("device_ms", BigInteger, nullable=False),
    Column("energy_mwh", BigInteger, nullable=False),
    Column("unknown_mwh", BigInteger, nullable=False),
    Index("ledger_by_tenant", "tenant", "hour"),
)

reports = Table(
    "reports",
    metadata,
    Column("cluster", String(253), primary_key=True),
    Column("at_s", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

settings = Table(
    "settings",
    metadata,
    Column("name", String(253), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

tenants = Table(
    "tenants",
    metadata,
    Column("name", String(253), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

policies = Table(
    "policies",
    metadata,
    Column("name", String(253), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(253), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("until_s", Float, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("hash", String(64), nullable=False),
)

# One row: how far the log has come. Every writer locks it first.
audit_head = Table(
    "audit_head",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
