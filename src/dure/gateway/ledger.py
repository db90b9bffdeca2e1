"""Every open Workload in its place, kept up to date by the watch: what holds quota, and what waits in which row.

The board's watch thread writes, requests read. A request never walks over all Workloads: waiting ones stand in sorted
rows, only the end of a long row is handed out, and what is ahead of it is known as a sum of work.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable

import msgspec

from dure.adapters.kueue.figures import demand
from dure.adapters.kueue.objects import Workload
from dure.model.units import Instant
from dure.route.amounts import Amounts

UNKNOWN_S = 60.0
KEPT_LEFT = 10_000
Place = tuple[int, Instant, str]


class Held(msgspec.Struct, frozen=True):
    """A Workload as far as routing cares; `job` is the namespace and name of its Job."""

    job: str
    row: str
    lane: str
    demand: Amounts
    created_s: Instant
    priority: int
    priority_class: str
    reserved_s: Instant | None

    @property
    def place(self) -> Place:
        return (-self.priority, self.created_s, self.job)


class Row:
    """What waits in one LocalQueue, in the order in which it is served, and its work by resource."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.held: dict[Place, Held] = {}
        self.work: dict[str, float] = {}
        self._last: tuple[list[Held], dict[str, float]] | None = None

    def last(self, most: int) -> tuple[list[Held], dict[str, float]]:
        """The last `most` and the work of those ahead, read once for each change of the row; not to be changed."""
        if self._last is None or len(self._last[0]) != min(most, len(self.places)):
            listed = [self.held[place] for place in self.places[-most:]]
            self._last = (listed, _ahead(self.work, listed) if len(listed) < len(self.places) else {})
        return self._last

    def add(self, one: Held) -> None:
        self._last = None
        bisect.insort(self.places, one.place)
        self.held[one.place] = one
        self._count(one, 1)

    def remove(self, one: Held) -> None:
        if self.held.pop(one.place, None) is None:
            return
        self._last = None
        del self.places[bisect.bisect_left(self.places, one.place)]
        self._count(one, -1)

    def _count(self, one: Held, sign: int) -> None:
        for name, amount in one.demand.items():
            self.work[name] = self.work.get(name, 0.0) + sign * amount * UNKNOWN_S


class Ledger:
    """Thread-safe. `put`, `drop` and `reset` are for the watch; `seen` is told of the Job of each Workload put."""

    def __init__(self) -> None:
        self.seen: Callable[[str], None] = lambda _job: None
        self._lock = threading.Lock()
        self._known: dict[str, Held] = {}
        self._jobs: dict[str, str] = {}
        self._rows: dict[str, Row] = {}
        self._running: dict[str, dict[str, Held]] = {}
        self._listed: dict[str, list[Held]] = {}
        self._left: dict[str, None] = {}

    def put(self, workload: Workload) -> None:
        key = workload.metadata.key
        with self._lock:
            self._remove(key)
            held = _held(workload)
            if self._counts(workload):
                self._add(key, held)
        self.seen(held.job)

    def drop(self, key: str) -> None:
        with self._lock:
            self._remove(key)

    def leave(self, job: str, uid: str) -> None:
        """The Job of this uid was deleted; its Workload may come and stay a while, but waits for nothing any more."""
        with self._lock:
            self._remove(self._jobs.get(job, ""))
            self._left[uid] = None
            if len(self._left) > KEPT_LEFT:
                del self._left[next(iter(self._left))]

    def reset(self, workloads: Iterable[Workload]) -> None:
        with self._lock:
            for books in (self._known, self._jobs, self._rows, self._running, self._listed):
                books.clear()
            for one in workloads:
                if self._counts(one):
                    self._add(one.metadata.key, _held(one))

    def knows(self, job: str) -> bool:
        return job in self._jobs

    def running(self, lane: str) -> list[Held]:
        """The very same list until something changes there; not to be changed."""
        with self._lock:
            found = self._listed.get(lane)
            if found is None:
                found = self._listed[lane] = list(self._running.get(lane, {}).values())
            return found

    def waiting(self, rows: Iterable[str], most: int) -> tuple[list[Held], int, dict[str, float]]:
        """The last `most` of all that waits in these LocalQueues, how many are ahead of them, and their work.

        Of a single row the very same list until something changes there; not to be changed.
        """
        with self._lock:
            found = [self._rows[name] for name in rows if name in self._rows]
            total = sum(len(row.places) for row in found)
            if len(found) == 1:
                listed, ahead = found[0].last(most)
                return listed, total - len(listed), ahead
            listed = [one for row in found for one in row.last(most)[0]]
            work = _summed([row.work for row in found]) if total > most else {}
        listed = sorted(listed, key=lambda one: one.place)[-most:]
        return listed, total - len(listed), _ahead(work, listed) if total > most else {}

    def _counts(self, one: Workload) -> bool:
        gone = any(owner.uid in self._left for owner in one.metadata.owner_references)
        return not gone and not one.has("Finished") and one.spec.active

    def _add(self, key: str, one: Held) -> None:
        self._known[key] = one
        self._jobs[one.job] = key
        if one.reserved_s is None:
            self._rows.setdefault(one.row, Row()).add(one)
        else:
            self._running.setdefault(one.lane, {})[key] = one
            self._listed.pop(one.lane, None)

    def _remove(self, key: str) -> None:
        one = self._known.pop(key, None)
        if one is None:
            return
        if self._jobs.get(one.job) == key:
            del self._jobs[one.job]
        if one.reserved_s is None:
            self._rows[one.row].remove(one)
        else:
            self._running[one.lane].pop(key, None)
            self._listed.pop(one.lane, None)


def _held(workload: Workload) -> Held:
    metadata, spec = workload.metadata, workload.spec
    reserved, created = workload.since("QuotaReserved"), metadata.creation_timestamp
    admission = workload.status.admission
    return Held(
        f"{metadata.namespace}/{workload.job}",
        f"{metadata.namespace}/{spec.queue_name}",
        admission.cluster_queue if admission else "",
        demand(workload),
        created.timestamp() if created else 0.0,
        spec.priority,
        spec.class_name,
        reserved.timestamp() if reserved and admission else None,
    )


def _summed(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part.get(name, 0.0) for part in parts) for name in {name: 0 for part in parts for name in part}}


def _ahead(work: dict[str, float], listed: list[Held]) -> dict[str, float]:
    left = dict(work)
    for one in listed:
        for name, amount in one.demand.items():
            left[name] -= amount * UNKNOWN_S
    return left
