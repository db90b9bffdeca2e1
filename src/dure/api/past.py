"""Keeps the journal's index up to date for questions about the past: reads what is new, then answers from memory."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import msgspec

from dure.api.backend import Backend
from dure.model.errors import InvalidInput, NotFound
from dure.model.pruned import PRUNED_SETTING
from dure.model.units import Instant, Seconds
from dure.model.who import Who
from dure.model.workload import WorkloadRecord
from dure.watch.past import Change, FleetWas, Journey, Stretch
from dure.watch.queues import QueuePoint, queue_points, waits

BATCH = 2000
# Of a long journal only so many of the newest lines are indexed.
MOST = 200_000
# Of the queues so many steps at most are told at once.
MOST_STEPS = 1_000


class Past:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._journey = Journey()
        self._lock = threading.Lock()

    def fleet_at(self, at_s: Instant) -> FleetWas:
        cut_s = self._cut_s()
        if at_s < cut_s:
            when = datetime.fromtimestamp(cut_s, UTC).isoformat(timespec="seconds")
            raise InvalidInput(f"the past begins at {when} ({cut_s:.0f})", remedy="What was before it was cut off.")
        with self._lock:
            self._catch_up()
            was = self._journey.fleet_at(self._backend.store.list_workloads(since_s=at_s), at_s)
        return msgspec.structs.replace(was, first_s=max(was.first_s, cut_s))

    def held_by(self, cluster: str, device: str) -> tuple[Stretch, ...]:
        known = next((one for one in self._backend.store.list_reports() if one.cluster == cluster), None)
        if known is None or all(one.id != device for one in known.devices):
            raise NotFound(f"no device '{device}' in '{cluster}'", remedy="See: dure get devices")
        with self._lock:
            self._catch_up()
            records: dict[str, WorkloadRecord] = {one.name: one for one in self._backend.store.list_workloads()}
            return self._journey.held_by(cluster, device, records)

    def changes(self, limit: int) -> tuple[Change, ...]:
        """What was decided about sizes, newest first."""
        with self._lock:
            self._catch_up()
            return tuple(reversed(self._journey.changes[-limit:]))

    def queues(
        self, who: Who, tenant: str | None, since_s: Instant, until_s: Instant, step_s: Seconds
    ) -> tuple[QueuePoint, ...]:
        """Of the tenants whom `who` may see; the journal's beginning is as far back as it goes."""
        if until_s - since_s > MOST_STEPS * step_s:
            raise InvalidInput(f"more than {MOST_STEPS} steps", remedy="Ask for a shorter time, or a longer step_s.")
        known = [one.name for one in self._backend.store.list_tenants()]
        names = {name for name in known if who.sees(name) and tenant in (None, name)}
        with self._lock:
            self._catch_up()
            first_s = until_s if self._journey.first_s is None else self._journey.first_s
            begin_s = min(max(since_s, first_s // step_s * step_s, self._cut_s()), until_s)
            records = self._backend.store.list_workloads(since_s=begin_s, tenant=tenant)
            seen = [one for one in records if who.sees(one.spec.tenant)]
            return queue_points(waits(seen, self._journey.homes), names, begin_s, until_s, step_s)

    def _cut_s(self) -> Instant:
        """From when on the journal is whole."""
        kept = self._backend.store.fetch_setting(PRUNED_SETTING)
        return float(kept) if kept else 0.0

    def _catch_up(self) -> None:
        store = self._backend.store
        if self._journey.seq == 0:
            newest = store.list_journal(newest=True, limit=1)
            self._journey.seq = max(0, newest[0].seq - MOST) if newest else 0
        while batch := store.list_journal(after=self._journey.seq, limit=BATCH):
            self._journey.take(batch)
