"""Keeps the journal's index up to date for questions about the past: reads what is new, then answers from memory."""

from __future__ import annotations

import threading

from dure.api.backend import Backend
from dure.model.errors import NotFound
from dure.model.units import Instant
from dure.model.workload import WorkloadRecord
from dure.watch.past import Change, FleetWas, Journey, Stretch

BATCH = 2000
# Of a long journal only so many of the newest lines are indexed.
MOST = 200_000


class Past:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._journey = Journey()
        self._lock = threading.Lock()

    def fleet_at(self, at_s: Instant) -> FleetWas:
        with self._lock:
            self._catch_up()
            return self._journey.fleet_at(self._backend.store.list_workloads(since_s=at_s), at_s)

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

    def _catch_up(self) -> None:
        store = self._backend.store
        if self._journey.seq == 0:
            newest = store.list_journal(newest=True, limit=1)
            self._journey.seq = max(0, newest[0].seq - MOST) if newest else 0
        while batch := store.list_journal(after=self._journey.seq, limit=BATCH):
            self._journey.take(batch)
