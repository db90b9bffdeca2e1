"""A StorePort in plain dictionaries, for tests of what is above the store."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Sequence

import msgspec

from dure.model.decision import JournalEntry
from dure.model.errors import Conflict, NotFound
from dure.model.event import Event
from dure.model.policy import Policy
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.units import Instant, Seconds
from dure.model.workload import WorkloadRecord
from dure.ports import Change


class MemoryStore:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._records: dict[str, WorkloadRecord] = {}
        self._keys: dict[str, str] = {}
        self._journal: list[JournalEntry] = []
        self._events: list[Event] = []
        self._reports: dict[str, Report] = {}
        self._settings: dict[str, str] = {}
        self._tenants: dict[str, Tenant] = {}
        self._policies: dict[str, list[Policy]] = {}

    def acquire_lease(self, holder: str, now_s: Instant, ttl_s: Seconds) -> int | None:
        return 1

    def create_workload(self, record: WorkloadRecord, *, idempotency_key: str = "") -> WorkloadRecord:
        with self._lock:
            if idempotency_key in self._keys:
                return self._records[self._keys[idempotency_key]]
            if any(old.name == record.name and not old.status.phase.ended for old in self._records.values()):
                raise Conflict(f"workload '{record.name}' has not ended", remedy="Choose another name.")
            self._records[record.uid] = record
            if idempotency_key:
                self._keys[idempotency_key] = record.uid
            return record

    def fetch_workload(self, name: str) -> WorkloadRecord:
        with self._lock:
            found = [record for record in self._records.values() if record.name == name]
            if found:
                return found[-1]
            close = difflib.get_close_matches(name, [record.name for record in self._records.values()], n=1)
        raise NotFound(f"no workload '{name}'", remedy=f"Did you mean '{close[0]}'?" if close else "")

    def list_workloads(self, *, ended: bool | None = None, tenant: str | None = None) -> tuple[WorkloadRecord, ...]:
        with self._lock:
            kept = [
                record
                for record in self._records.values()
                if ended in (None, record.status.phase.ended) and tenant in (None, record.spec.tenant)
            ]
        return tuple(sorted(kept, key=lambda record: (record.status.submitted_s, record.name)))

    def commit(
        self,
        changes: Sequence[Change],
        *,
        entries: Sequence[JournalEntry] = (),
        events: Sequence[Event] = (),
        token: int | None = None,
    ) -> tuple[str, ...]:
        stale = []
        with self._lock:
            for change in changes:
                record = self._records[change.uid]
                if record.version != change.version:
                    stale.append(change.uid)
                    continue
                self._records[change.uid] = msgspec.structs.replace(
                    record, status=change.status, version=record.version + 1
                )
                self._append(change.entries, change.events)
            self._append(entries, events)
        return tuple(stale)

    def _append(self, entries: Sequence[JournalEntry], events: Sequence[Event]) -> None:
        for entry in entries:
            self._journal.append(msgspec.structs.replace(entry, seq=len(self._journal) + 1))
        for event in events:
            self._events.append(msgspec.structs.replace(event, seq=len(self._events) + 1))

    def list_journal(
        self, *, workload: str | None = None, after: int = 0, limit: int = 100, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        with self._lock:
            kept = [e for e in self._journal if e.seq > after and workload in (None, e.workload)]
        return tuple(kept[-limit:] if newest else kept[:limit])

    def list_events(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[Event, ...]:
        with self._lock:
            kept = self._events[after:]
        return tuple(kept[-limit:] if newest else kept[:limit])

    def write_report(self, report: Report) -> None:
        with self._lock:
            self._reports[report.cluster] = report

    def list_reports(self) -> tuple[Report, ...]:
        with self._lock:
            return tuple(self._reports[name] for name in sorted(self._reports))

    def fetch_setting(self, name: str) -> str | None:
        return self._settings.get(name)

    def write_setting(self, name: str, value: str) -> None:
        self._settings[name] = value

    def write_tenant(self, tenant: Tenant) -> None:
        with self._lock:
            self._tenants[tenant.name] = tenant

    def list_tenants(self) -> tuple[Tenant, ...]:
        with self._lock:
            return tuple(self._tenants[name] for name in sorted(self._tenants))

    def write_policy(self, policy: Policy) -> Policy:
        with self._lock:
            versions = self._policies.setdefault(policy.name, [])
            versions.append(msgspec.structs.replace(policy, version=len(versions) + 1))
            return versions[-1]

    def list_policies(self, *, name: str | None = None) -> tuple[Policy, ...]:
        with self._lock:
            if name is not None:
                return tuple(self._policies.get(name, ()))
            return tuple(self._policies[known][-1] for known in sorted(self._policies))
