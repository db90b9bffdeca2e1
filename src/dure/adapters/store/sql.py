"""StorePort on SQLAlchemy Core. Every write is one short transaction; reads never block the writer for long."""

from __future__ import annotations

import difflib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import Connection, Engine, Select, func, select

from dure.adapters.acting import act, who_acts
from dure.adapters.store import audit
from dure.adapters.store import tables as t
from dure.adapters.store.batches import by_key, create_all, swap_all, taken
from dure.adapters.store.freshness import Decoded, freshness_of
from dure.adapters.store.rows import (
    DECODERS,
    POSTING_KEY,
    POSTING_SUMS,
    charge_rows,
    encode,
    entry_of,
    entry_row,
    event_of,
    new_decisions,
    posting_of,
    posting_rows,
    record_of,
    upsert,
    upsert_all,
)
from dure.adapters.store.trouble import translated
from dure.model.audit import AuditLine, Finding, Mark
from dure.model.decision import JournalEntry
from dure.model.errors import Conflict, DureError, NotFound, Temporary
from dure.model.event import Event
from dure.model.policy import Policy
from dure.model.posting import Posting
from dure.model.pruned import Pruned
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.token import Token
from dure.model.units import Instant, Seconds
from dure.model.who import PLANE
from dure.model.workload import Phase, WorkloadRecord
from dure.ports import NO_SETTINGS, Change, Charge, New

if TYPE_CHECKING:
    from dure.adapters.store.bus import Bus

_LEADER = "leader"
_WAITING = tuple(phase.value for phase in Phase if phase.waits)
# Other replicas hear of it when this transaction is committed.
CHANNEL = "dure_news"
# Looking for a similar name must not cost more than the answer is worth.
_NAMES_COMPARED = 500


class SqlStore:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reader = engine.execution_options(reads=True)
        self._listeners: list[Callable[[], None]] = []
        self._fresh = freshness_of(engine)
        self._joined = threading.local()
        self._decoded = Decoded()
        # SQLite lets one write at a time and has the others look again after a while; here they are woken.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()
        self._bus: Bus | None = None
        self._identity = uuid.uuid4().hex

    def close(self) -> None:
        if self._bus is not None:
            self._bus.close()
        if self._fresh is not None:
            self._fresh.close()
        self.engine.dispose()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Wake `listener` after every commit that wrote an event; on PostgreSQL also those of other processes."""
        self._listeners.append(listener)
        if self._bus is None and self.engine.dialect.name == "postgresql":
            from dure.adapters.store.bus import Bus

            self._bus = Bus(self.engine, self._identity, self._wake)
        return lambda: self._listeners.remove(listener)

    @contextmanager
    def together(self) -> Iterator[None]:
        if getattr(self._joined, "connection", None) is not None:
            yield
            return
        with self._turn, translated(), self.engine.begin() as connection:
            audit.lock(connection)
            self._joined.connection = connection
            try:
                yield
            finally:
                self._joined.connection = None

    # -- leadership ------------------------------------------------------------------------------------------------

    def acquire_lease(self, holder: str, now_s: Instant, ttl_s: Seconds) -> int | None:
        with self._write(audited=False) as db:
            row = db.execute(select(t.lease).where(t.lease.c.name == _LEADER).with_for_update()).one_or_none()
            if row is None:
                values = {"name": _LEADER, "holder": holder, "token": 1, "until_s": now_s + ttl_s}
                db.execute(t.lease.insert().values(**values))
                return 1
            if row.holder != holder and row.until_s > now_s:
                return None
            token = row.token if row.holder == holder else row.token + 1
            db.execute(t.lease.update().values(holder=holder, token=token, until_s=now_s + ttl_s))
            return int(token)

    # -- workloads -------------------------------------------------------------------------------------------------

    def create_workload(self, record: WorkloadRecord, *, idempotency_key: str = "") -> WorkloadRecord:
        (made,) = self.create_workloads([New(record, idempotency_key, *act())])
        if isinstance(made, Conflict):
            raise made
        return made

    def create_workloads(self, wanted: Sequence[New]) -> list[WorkloadRecord | Conflict]:
        try:
            with self._write() as db:
                return create_all(db, wanted)
        except Temporary:
            raise
        except DureError as error:
            # What the database does not take of one must not be refused to the others.
            if len(wanted) > 1:
                return [made for one in wanted for made in self.create_workloads([one])]
            if isinstance(error, Conflict):
                return [taken(one.record) for one in wanted]
            raise

    def fetch_workload(self, name: str) -> WorkloadRecord:
        version = self._fresh.version() if self._fresh is not None else None
        if self._fresh is None or version is None:
            return self._read_workload(name)
        record = self._fresh.recall(name, version)
        if record is None:
            record = self._read_workload(name)
            self._fresh.remember(name, version, record)
        return record

    def _read_workload(self, name: str) -> WorkloadRecord:
        newest = select(t.workloads).where(t.workloads.c.name == name).order_by(t.workloads.c.submitted_s.desc())
        with self._read() as db:
            row = db.execute(newest.limit(1)).one_or_none()
            if row is not None:
                return record_of(row)
            lately = select(t.workloads.c.name).order_by(t.workloads.c.submitted_s.desc()).limit(_NAMES_COMPARED)
            names = sorted(set(db.execute(lately).scalars()))
        close = difflib.get_close_matches(name, names, n=3)
        raise NotFound(
            f"no workload '{name}'",
            remedy=f"Did you mean {' or '.join(close)}?" if close else "See: dure get workloads",
        )

    def list_workloads(
        self,
        *,
        ended: bool | None = None,
        tenant: str | None = None,
        since_s: Instant | None = None,
        most: int | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        query = select(t.workloads).order_by(t.workloads.c.submitted_s, t.workloads.c.name)
        if ended is not None:
            query = query.where(t.workloads.c.ended == int(ended))
        if tenant is not None:
            query = query.where(t.workloads.c.tenant == tenant)
        if since_s is not None:
            query = query.where((t.workloads.c.ended == 0) | (t.workloads.c.finished_s >= since_s))
        if most is not None:
            latest = t.workloads.c.finished_s.desc().nulls_last()
            query = query.order_by(None).order_by(latest, t.workloads.c.uid).limit(most)
        with self._read() as db:
            all_open = ended is False and tenant is None and most is None
            found = self._decoded.records(db.execute(query), all_open=all_open)
        if most is not None:
            found.sort(key=lambda one: (one.status.submitted_s, one.name))
        return tuple(found)

    def list_homed(self) -> tuple[WorkloadRecord, ...]:
        columns = t.workloads.c
        query = select(t.workloads).where(columns.ended == 0, columns.phase.not_in(_WAITING))
        with self._read() as db:
            rows = db.execute(query.order_by(columns.submitted_s, columns.name))
            return tuple(self._decoded.records(rows, all_open=False))

    def count_waiting(self, tenant: str) -> int:
        columns = t.workloads.c
        query = select(func.count()).where(columns.ended == 0, columns.tenant == tenant, columns.phase.in_(_WAITING))
        with self._read() as db:
            return db.execute(query).scalar_one()

    def list_created(self, keys: Sequence[str]) -> dict[str, WorkloadRecord]:
        with self._read() as db:
            return by_key(db, {key for key in keys if key})

    def count_workloads(self) -> dict[Phase, int]:
        query = select(t.workloads.c.phase, func.count()).group_by(t.workloads.c.phase)
        with self._read() as db:
            return {Phase(phase): number for phase, number in db.execute(query)}

    # -- the loop's writes -----------------------------------------------------------------------------------------

    def commit(
        self,
        changes: Sequence[Change],
        *,
        entries: Sequence[JournalEntry] = (),
        events: Sequence[Event] = (),
        settings: Mapping[str, str] = NO_SETTINGS,
        postings: Sequence[Posting] = (),
        token: int | None = None,
    ) -> tuple[str, ...]:
        new_entries, new_events, charges = list(entries), list(events), list[Charge]()
        with self._write() as db:
            if token is not None:
                self._check_token(db, token)
            swapped, facts = swap_all(db, changes)
            for change in swapped:
                new_entries.extend(change.entries)
                new_events.extend(change.events)
                charges.extend(change.charges)
            rows = self._append(db, new_entries, new_events)
            posted = posting_rows(postings)
            told = (*audit.entry_facts(rows), *audit.charge_facts(charges), *audit.posting_facts(posted))
            audit.append(db, [*facts, *told])
            upsert_all(db, t.charges, charge_rows(charges), ("day", "tenant", "cluster"), add=("micros", "carbon_mg"))
            upsert_all(db, t.ledger, posted, POSTING_KEY, add=POSTING_SUMS)
            for name, value in sorted(settings.items()):
                _set(db, name, value)
        if new_events:
            self._wake()
        kept = {id(change) for change in swapped}
        return tuple(change.uid for change in changes if id(change) not in kept)

    # -- journal, events, charges ----------------------------------------------------------------------------------

    def list_journal(
        self, *, workload: str | None = None, after: int = 0, limit: int = 100, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        query = select(t.journal).where(t.journal.c.seq > after).limit(limit)
        if workload is not None:
            query = query.where(t.journal.c.workload == workload)
        with self._read() as db:
            rows = [entry_of(row) for row in db.execute(_ordered(query, t.journal.c.seq, newest))]
        return tuple(reversed(rows) if newest else rows)

    def list_events(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[Event, ...]:
        query = select(t.events).where(t.events.c.seq > after).limit(limit)
        with self._read() as db:
            rows = [event_of(row) for row in db.execute(_ordered(query, t.events.c.seq, newest))]
        return tuple(reversed(rows) if newest else rows)

    def list_charges(self, since_day: int, until_day: int) -> tuple[Charge, ...]:
        days = t.charges.c.day
        query = select(t.charges).where(days >= since_day, days < until_day)
        with self._read() as db:
            rows = db.execute(query.order_by(days, t.charges.c.tenant, t.charges.c.cluster))
            return tuple(Charge(row.day, row.tenant, row.cluster, row.micros, row.carbon_mg) for row in rows)

    def list_ledger(
        self, since_hour: int, until_hour: int, *, tenant: str | None = None, cluster: str | None = None
    ) -> tuple[Posting, ...]:
        hours = t.ledger.c.hour
        query = select(t.ledger).where(hours >= since_hour, hours < until_hour)
        for column, wanted in ((t.ledger.c.tenant, tenant), (t.ledger.c.cluster, cluster)):
            if wanted is not None:
                query = query.where(column == wanted)
        with self._read() as db:
            rows = db.execute(query.order_by(*(t.ledger.c[name] for name in POSTING_KEY)))
            return tuple(posting_of(row) for row in rows)

    # -- what agents report ----------------------------------------------------------------------------------------

    def write_report(self, report: Report) -> None:
        with self._write() as db:
            query = select(t.reports.c.at_s, t.reports.c.body).where(t.reports.c.cluster == report.cluster)
            known = db.execute(query).one_or_none()
            if known is not None and known.at_s > report.at_s:
                return
            body = encode(msgspec.structs.replace(report, decisions=()))
            row = {"cluster": report.cluster, "at_s": report.at_s, "body": body}
            upsert(db, t.reports, row, ("cluster",))
            entries = [
                JournalEntry(0, report.at_s, report.version, decision, cluster=report.cluster)
                for decision in new_decisions(report, known.body if known is not None else b"{}")
            ]
            owners = self._owners(db, {entry.workload for entry in entries})
            decided = [msgspec.structs.replace(one, tenant=owners.get(one.workload, "")) for one in entries]
            audit.append(db, [*audit.entry_facts(self._append(db, decided, []))])

    def list_reports(self) -> tuple[Report, ...]:
        with self._read() as db:
            rows = db.execute(select(*t.reports.c["cluster", "body"]).order_by(t.reports.c.cluster)).all()
        return self._decoded.reports((row.cluster, row.body) for row in rows)

    # -- settings, tenants, policies -------------------------------------------------------------------------------

    def fetch_setting(self, name: str) -> str | None:
        with self._read() as db:
            value = db.execute(select(t.settings.c.value).where(t.settings.c.name == name)).scalar()
            return None if value is None else bytes(value).decode()

    def write_setting(self, name: str, value: str) -> None:
        with self._write() as db:
            _set(db, name, value)
            # What the plane notes for itself is no decision; what others set is.
            if who_acts() is not PLANE:
                audit.append(db, [audit.fact("setting", name, value)])

    def write_tenant(self, tenant: Tenant) -> None:
        body = encode(tenant)
        with self._write() as db:
            known = db.execute(select(t.tenants.c.body).where(t.tenants.c.name == tenant.name)).scalar()
            # Every start writes the tenants of the fleet file; only a change is news.
            if known is None or bytes(known) != body:
                upsert(db, t.tenants, {"name": tenant.name, "body": body}, ("name",))
                audit.append(db, [audit.fact("tenant", tenant.name, body)])

    def list_tenants(self) -> tuple[Tenant, ...]:
        with self._read() as db:
            rows = db.execute(select(t.tenants.c.body).order_by(t.tenants.c.name)).scalars()
            return tuple(DECODERS[Tenant].decode(body) for body in rows)

    def write_policy(self, policy: Policy) -> Policy:
        with self._write() as db:
            versions = select(t.policies.c.version).where(t.policies.c.name == policy.name)
            newest = db.execute(versions.order_by(t.policies.c.version.desc()).limit(1)).scalar() or 0
            kept = msgspec.structs.replace(policy, version=newest + 1)
            body = encode(kept)
            db.execute(t.policies.insert().values(name=kept.name, version=kept.version, body=body))
            audit.append(db, [audit.fact("policy", f"{kept.name}@{kept.version}", body)])
            return kept

    def list_policies(self, *, name: str | None = None) -> tuple[Policy, ...]:
        query = select(t.policies.c.body).order_by(t.policies.c.name, t.policies.c.version)
        if name is not None:
            query = query.where(t.policies.c.name == name)
        with self._read() as db:
            found = [DECODERS[Policy].decode(body) for body in db.execute(query).scalars()]
        return tuple(found if name is not None else {policy.name: policy for policy in found}.values())

    # -- tokens, audit ---------------------------------------------------------------------------------------------

    def write_token(self, token: Token) -> None:
        body = encode(token)
        with self._write() as db:
            upsert(db, t.tokens, {"id": token.id, "body": body}, ("id",))
            audit.append(db, [audit.fact("token", token.id, body)])

    def fetch_token(self, id_: str) -> Token | None:
        with self._read() as db:
            body = db.execute(select(t.tokens.c.body).where(t.tokens.c.id == id_)).scalar()
            return None if body is None else DECODERS[Token].decode(body)

    def list_tokens(self) -> tuple[Token, ...]:
        with self._read() as db:
            found = [DECODERS[Token].decode(body) for body in db.execute(select(t.tokens.c.body)).scalars()]
        return tuple(sorted(found, key=lambda one: (one.created_s, one.id)))

    def list_audit(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[AuditLine, ...]:
        with self._read() as db:
            return tuple(audit.read(db, after, limit, newest))

    def audit_mark(self) -> Mark:
        """How far the log has come; kept elsewhere, it shows a log that was cut off."""
        with self._read() as db:
            return audit.head(db)

    def verify_audit(self, known: Sequence[Mark] = ()) -> tuple[int, list[Finding]]:
        """The number of lines, and everything in the database that is not what they say."""
        from dure.adapters.store.verify import verify

        with self._read() as db:
            return verify(db, tuple(known))

    def prune(self, cut_s: Instant, now_s: Instant, *, dry_run: bool = False) -> Pruned:
        """Cut off what lies before `cut_s`; with `dry_run` only say what would go."""
        from dure.adapters.store.prune import cut_off

        return cut_off(self._write, cut_s, now_s, dry_run)

    def latest_cut(self, cut_s: Instant) -> Instant:
        from dure.adapters.store.prune import latest_cut

        with self._read() as db:
            return latest_cut(db, cut_s)

    def audit_origin(self) -> Mark:
        from dure.adapters.store.verify import origin

        with self._read() as db:
            return origin(db)

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        joined: Connection | None = getattr(self._joined, "connection", None)
        if joined is not None:
            yield joined
            return
        with translated(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def _write(self, *, audited: bool = True) -> Iterator[Connection]:
        """A transaction of its own, or a step of the one that `together` has opened in this thread."""
        joined: Connection | None = getattr(self._joined, "connection", None)
        if joined is not None:
            with translated(), joined.begin_nested():
                yield joined
            return
        with self._turn, translated(), self.engine.begin() as connection:
            if audited:
                audit.lock(connection)
            yield connection

    def _owners(self, db: Connection, names: set[str]) -> dict[str, str]:
        """Whose the workloads of these names are now."""
        if not names:
            return {}
        query = select(t.workloads.c.name, t.workloads.c.tenant).where(t.workloads.c.ended == 0)
        return {row.name: row.tenant for row in db.execute(query.where(t.workloads.c.name.in_(sorted(names))))}

    def _check_token(self, db: Connection, token: int) -> None:
        newest = db.execute(select(t.lease.c.token).where(t.lease.c.name == _LEADER).with_for_update()).scalar()
        if newest != token:
            raise Conflict(f"another leader has taken over (token {newest}, ours {token})")

    def _append(
        self, db: Connection, entries: Sequence[JournalEntry], events: Sequence[Event]
    ) -> list[dict[str, object]]:
        """Answers the rows of the journal."""
        rows = [entry_row(entry) for entry in entries]
        if rows:
            db.execute(t.journal.insert(), rows)
        if events:
            db.execute(t.events.insert(), [{"tenant": one.tenant, "body": encode(one)} for one in events])
            if db.dialect.name == "postgresql":
                db.execute(select(func.pg_notify(CHANNEL, self._identity)))
        return rows

    def _wake(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _set(db: Connection, name: str, value: str) -> None:
    upsert(db, t.settings, {"name": name, "value": value.encode()}, ("name",))


def _ordered(query: Select[tuple[object, ...]], seq: object, newest: bool) -> Select[tuple[object, ...]]:
    return query.order_by(seq.desc() if newest else seq)  # type: ignore[attr-defined, arg-type]
