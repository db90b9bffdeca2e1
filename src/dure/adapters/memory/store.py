"""StorePort in plain dictionaries: for simulation and tests, where nothing has to survive the process."""

from __future__ import annotations

import copy
import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from dure.model.audit import AuditLine
from dure.model.decision import JournalEntry
from dure.model.errors import Conflict, NotFound
from dure.model.event import Event
from dure.model.once import once
from dure.model.policy import Policy
from dure.model.posting import Posting, added
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.token import Token
from dure.model.units import Instant, Seconds
from dure.model.workload import Phase, WorkloadRecord
from dure.ports import NO_SETTINGS, Change, Charge, New


class MemoryStore:
    """One thread at a time; iteration orders are those of the port, so that runs are repeatable."""

    def __init__(self) -> None:
        self._records: dict[str, WorkloadRecord] = {}
        self._open: dict[str, str] = {}
        self._open_sorted: tuple[WorkloadRecord, ...] | None = None
        self._open_order: list[str] | None = None
        self._homed = once(_homed)
        self._newest: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._journal: list[JournalEntry] = []
        self._by_workload: dict[str, list[JournalEntry]] = defaultdict(list)
        self._events: list[Event] = []
        self._charges: dict[tuple[int, str, str], Charge] = {}
        self._charge_order: list[tuple[int, str, str]] | None = None
        self._ledger: dict[int, dict[tuple[int, str, str, str, str, str, str], Posting]] = {}
        self._reports: dict[str, Report] = {}
        self._settings: dict[str, str] = {}
        self._tenants: tuple[Tenant, ...] = ()
        self._policies: dict[str, list[Policy]] = defaultdict(list)
        self._newest_policies: tuple[Policy, ...] | None = None
        self._tokens: dict[str, Token] = {}
        self._lease: tuple[str, int, Instant] = ("", 0, 0.0)
        self._listeners: list[Callable[[], None]] = []

    def close(self) -> None:
        """Nothing to close; here because every store has it."""

    @contextmanager
    def together(self) -> Iterator[None]:
        before = {name: copy.copy(value) for name, value in vars(self).items()}
        before["_policies"] = defaultdict(list, {name: list(kept) for name, kept in self._policies.items()})
        before["_by_workload"] = defaultdict(list, {name: list(kept) for name, kept in self._by_workload.items()})
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def acquire_lease(self, holder: str, now_s: Instant, ttl_s: Seconds) -> int | None:
        owner, token, until_s = self._lease
        if owner != holder and until_s > now_s:
            return None
        token = token if owner == holder else token + 1
        self._lease = (holder, token, now_s + ttl_s)
        return token

    def create_workload(self, record: WorkloadRecord, *, idempotency_key: str = "") -> WorkloadRecord:
        if idempotency_key in self._keys:
            return self._records[self._keys[idempotency_key]]
        if record.name in self._open or record.uid in self._records:
            raise Conflict(f"workload '{record.name}' exists and has not ended")
        self._records[record.uid] = record
        self._open_sorted = self._open_order = None
        if not record.status.phase.ended:
            self._open[record.name] = record.uid
        self._newest[record.name] = record.uid
        if idempotency_key:
            self._keys[idempotency_key] = record.uid
        return record

    def create_workloads(self, wanted: Sequence[New]) -> list[WorkloadRecord | Conflict]:
        answers: list[WorkloadRecord | Conflict] = []
        for one in wanted:
            try:
                answers.append(self.create_workload(one.record, idempotency_key=one.key))
            except Conflict as error:
                answers.append(error)
        return answers

    def fetch_workload(self, name: str) -> WorkloadRecord:
        uid = self._newest.get(name)
        if uid is None:
            close = difflib.get_close_matches(name, self._newest, n=3)
            raise NotFound(f"no workload '{name}'", remedy=f"Did you mean {' or '.join(close)}?" if close else "")
        return self._records[uid]

    def list_workloads(
        self,
        *,
        ended: bool | None = None,
        tenant: str | None = None,
        since_s: Instant | None = None,
        most: int | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        if ended is False:
            found = self._list_open()
        else:
            kept = (one for one in self._records.values() if ended is None or one.status.phase.ended)
            found = _sorted(kept)
        if since_s is not None:
            found = tuple(
                one for one in found if not one.status.phase.ended or (one.status.finished_s or 0) >= since_s
            )
        if tenant is not None:
            found = tuple(one for one in found if one.spec.tenant == tenant)
        if most is None or len(found) <= most:
            return found
        return _sorted(sorted(found, key=lambda one: (-(one.status.finished_s or 0.0), one.uid))[:most])

    def list_homed(self) -> tuple[WorkloadRecord, ...]:
        return self._homed(self._list_open())

    def count_waiting(self, tenant: str) -> int:
        return sum(one.status.phase.waits and one.spec.tenant == tenant for one in self._list_open())

    def list_created(self, keys: Sequence[str]) -> dict[str, WorkloadRecord]:
        return {key: self._records[self._keys[key]] for key in keys if key in self._keys}

    def count_workloads(self) -> dict[Phase, int]:
        return dict(Counter(record.status.phase for record in self._records.values()))

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
        if token is not None and token != self._lease[1]:
            raise Conflict(f"another leader has taken over (token {self._lease[1]}, ours {token})")
        self._append(entries, events)
        self._settings.update(settings)
        self._post(postings)
        lost = tuple(change.uid for change in changes if not self._swap(change))
        if events or any(change.events for change in changes):
            for listener in tuple(self._listeners):
                listener()
        return lost

    def list_journal(
        self, *, workload: str | None = None, after: int = 0, limit: int = 100, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        lines = self._journal if workload is None else self._by_workload.get(workload, [])
        found = [entry for entry in lines if entry.seq > after] if after else lines
        return tuple(found[-limit:] if newest else found[:limit])

    def list_events(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[Event, ...]:
        found = self._events[after:]
        return tuple(found[-limit:] if newest else found[:limit])

    def list_charges(self, since_day: int, until_day: int) -> tuple[Charge, ...]:
        if self._charge_order is None:
            self._charge_order = sorted(self._charges)
        return tuple(self._charges[key] for key in self._charge_order if since_day <= key[0] < until_day)

    def list_ledger(
        self, since_hour: int, until_hour: int, *, tenant: str | None = None, cluster: str | None = None
    ) -> tuple[Posting, ...]:
        return tuple(
            one
            for hour in sorted(self._ledger)
            if since_hour <= hour < until_hour
            for _, one in sorted(self._ledger[hour].items())
            if tenant in (None, one.tenant) and cluster in (None, one.cluster)
        )

    def write_report(self, report: Report) -> None:
        known = self._reports.get(report.cluster)
        if known is not None and known.at_s > report.at_s:
            return
        self._reports[report.cluster] = msgspec.structs.replace(report, decisions=())
        repeated = known is not None and report.told_s > 0 and known.told_s == report.told_s
        entries = [
            JournalEntry(0, report.at_s, report.version, one, cluster=report.cluster)
            for one in (() if repeated else report.decisions)
        ]
        self._append([msgspec.structs.replace(one, tenant=self._owner(one.workload)) for one in entries], ())

    def list_reports(self) -> tuple[Report, ...]:
        return tuple(report for _, report in sorted(self._reports.items()))

    def fetch_setting(self, name: str) -> str | None:
        return self._settings.get(name)

    def write_setting(self, name: str, value: str) -> None:
        self._settings[name] = value

    def write_tenant(self, tenant: Tenant) -> None:
        self._tenants = tuple(sorted((*(one for one in self._tenants if one.name != tenant.name), tenant), key=_name))

    def list_tenants(self) -> tuple[Tenant, ...]:
        return self._tenants

    def write_policy(self, policy: Policy) -> Policy:
        versions = self._policies[policy.name]
        versions.append(msgspec.structs.replace(policy, version=len(versions) + 1))
        self._newest_policies = None
        return versions[-1]

    def list_policies(self, *, name: str | None = None) -> tuple[Policy, ...]:
        if name is not None:
            return tuple(self._policies.get(name, ()))
        if self._newest_policies is None:
            self._newest_policies = tuple(versions[-1] for _, versions in sorted(self._policies.items()))
        return self._newest_policies

    def write_token(self, token: Token) -> None:
        self._tokens[token.id] = token

    def fetch_token(self, id_: str) -> Token | None:
        return self._tokens.get(id_)

    def list_tokens(self) -> tuple[Token, ...]:
        return tuple(sorted(self._tokens.values(), key=lambda one: (one.created_s, one.id)))

    def list_audit(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[AuditLine, ...]:
        """Nothing survives here, so there is nothing to prove."""
        return ()

    def _list_open(self) -> tuple[WorkloadRecord, ...]:
        """Kept sorted until a record changes: the loops ask far more often than they write."""
        if self._open_sorted is None:
            if self._open_order is None:
                self._open_order = [one.uid for one in _sorted(self._records[uid] for uid in self._open.values())]
            self._open_sorted = tuple(map(self._records.__getitem__, self._open_order))
        return self._open_sorted

    def _owner(self, name: str) -> str:
        uid = self._open.get(name)
        return self._records[uid].spec.tenant if uid is not None else ""

    def _swap(self, change: Change) -> bool:
        record = self._records.get(change.uid)
        if record is None or record.version != change.version:
            return False
        self._records[change.uid] = WorkloadRecord(record.uid, record.spec, change.status, record.version + 1)
        self._open_sorted = None
        if change.status.phase.ended:
            self._open.pop(record.name, None)
            self._open_order = None
        self._append(change.entries, change.events)
        for charge in change.charges:
            key = (charge.day, charge.tenant, charge.cluster)
            before = self._charges.get(key)
            if before is None:
                before, self._charge_order = Charge(*key, 0, 0), None
            sums = before.micros + charge.micros, before.carbon_mg + charge.carbon_mg
            self._charges[key] = Charge(*key, *sums)
        return True

    def _post(self, postings: Sequence[Posting]) -> None:
        for one in postings:
            kept, key = self._ledger.setdefault(one.hour, {}), one.key
            before = kept.get(key)
            kept[key] = one if before is None else added(before, one)

    def _append(self, entries: Sequence[JournalEntry], events: Sequence[Event]) -> None:
        for entry in entries:
            kept = msgspec.structs.replace(entry, seq=len(self._journal) + 1)
            self._journal.append(kept)
            self._by_workload[kept.workload].append(kept)
        for event in events:
            self._events.append(msgspec.structs.replace(event, seq=len(self._events) + 1))


def _homed(records: tuple[WorkloadRecord, ...]) -> tuple[WorkloadRecord, ...]:
    return tuple(one for one in records if not one.status.phase.waits)


def _sorted(records: Iterable[WorkloadRecord]) -> tuple[WorkloadRecord, ...]:
    return tuple(sorted(records, key=lambda one: (one.status.submitted_s, one.name)))


def _name(tenant: Tenant) -> str:
    return tenant.name
