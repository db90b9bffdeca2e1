"""The fleet as it was: what ran where and what waited at a moment, from the journal and the records. Pure.

`Journey` takes journal entries in order, once each; the API keeps one and feeds it what is new. `fleet_at` then
answers any moment in O(workloads), `held_by` the timeline of one device in O(its binds).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping

import msgspec

from dure.model.decision import (
    Bind,
    Evict,
    Hold,
    JournalEntry,
    Move,
    Place,
    Reallocate,
    Reclaim,
    ScaleNodes,
    ScaleReplicas,
)
from dure.model.units import Instant
from dure.model.workload import Placement, WorkloadRecord


class Was(msgspec.Struct, frozen=True, omit_defaults=True):
    """One workload at that moment. `where` is empty while it waited; `reason` then says why."""

    workload: str
    tenant: str
    type: str
    where: str = ""
    class_name: str = ""
    device_milli: int = 0
    since_s: Instant = 0.0
    reason: str = ""


class PoolWas(msgspec.Struct, frozen=True):
    cluster: str
    pool: str
    used_milli: int
    workloads: int


class FleetWas(msgspec.Struct, frozen=True):
    at_s: Instant
    first_s: Instant
    pools: tuple[PoolWas, ...]
    running: tuple[Was, ...]
    waiting: tuple[Was, ...]


class Stretch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload held this part of a device from then to then; `until_s` None: it still does, as far as is known."""

    workload: str
    tenant: str
    since_s: Instant
    until_s: Instant | None
    milli: int
    profile: str = ""


class Change(msgspec.Struct, frozen=True):
    """One decision about sizes: nodes, replicas, devices that change hands."""

    at_s: Instant
    kind: str
    cluster: str
    what: str
    before: int
    after: int
    reason: str


class _Step(msgspec.Struct, frozen=True):
    at_s: Instant
    home: Placement | None
    reason: str = ""


class _Bound(msgspec.Struct, frozen=True):
    at_s: Instant
    workload: str
    pod: str
    milli: int
    profile: str


class Journey:
    """What the journal says about homes, devices and sizes, indexed. Entries come in the order of their `seq`."""

    def __init__(self) -> None:
        self.seq = 0
        self.first_s: Instant | None = None
        self.changes: list[Change] = []
        self._steps: dict[str, list[_Step]] = {}
        self._bound: dict[tuple[str, str], list[_Bound]] = {}
        self._gone: dict[str, list[Instant]] = {}

    def take(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            self.seq = max(self.seq, entry.seq)
            if self.first_s is None:
                self.first_s = entry.at_s
            self._take(entry)

    def _take(self, entry: JournalEntry) -> None:
        decision, at_s = entry.decision, entry.at_s
        match decision:
            case Place(workload=name, placement=home) | Move(workload=name, placement=home):
                self._steps.setdefault(name, []).append(_Step(at_s, home))
            case Hold(workload=name, verdicts=verdicts):
                reason = next((str(one.reason) for one in verdicts if one.reason), "")
                self._steps.setdefault(name, []).append(_Step(at_s, None, reason))
            case Reclaim(workload=name):
                self._steps.setdefault(name, []).append(_Step(at_s, None, "FairShare"))
            case Bind(pod=pod, slices=slices, workload=name):
                for cut in slices:
                    key = (entry.cluster, cut.device)
                    milli = cut.compute_milli or 1000
                    self._bound.setdefault(key, []).append(_Bound(at_s, name, pod, milli, cut.profile))
            case Evict(pod=pod):
                self._gone.setdefault(pod, []).append(at_s)
            case ScaleNodes(cluster=cluster, pool=pool, before=before, after=after, reason=reason):
                self.changes.append(Change(at_s, "nodes", cluster, pool, before, after, reason))
            case ScaleReplicas(workload=name, before=before, after=after, reason=reason):
                self.changes.append(Change(at_s, "replicas", entry.cluster, name, before, after, reason))
            case Reallocate(workload=name, replicas=replicas, reason=reason):
                self.changes.append(Change(at_s, "reallocation", entry.cluster, name, 0, replicas, reason))
            case _:
                pass

    def fleet_at(self, records: Iterable[WorkloadRecord], at_s: Instant) -> FleetWas:
        running, waiting = [], []
        for record in records:
            status, spec = record.status, record.spec
            ended = status.phase.ended and status.finished_s is not None and status.finished_s <= at_s
            if status.submitted_s > at_s or ended:
                continue
            step = self._step(spec.name, at_s)
            if step is None or step.home is None:
                reason = step.reason if step else ""
                waiting.append(
                    Was(spec.name, spec.tenant, spec.type.value, since_s=status.submitted_s, reason=reason)
                )
                continue
            home = step.home
            running.append(
                Was(
                    spec.name, spec.tenant, spec.type.value, f"{home.cluster}/{home.pool}", home.class_name,
                    spec.demand.device_milli * home.replicas, step.at_s,
                )
            )  # fmt: skip
        return FleetWas(at_s, self.first_s or at_s, _pools(running), tuple(running), tuple(waiting))

    def held_by(self, cluster: str, device: str, records: Mapping[str, WorkloadRecord]) -> tuple[Stretch, ...]:
        """Oldest first. A stretch ends when the pod was evicted, the workload ended or left, or it was bound anew."""
        found = []
        bound = self._bound.get((cluster, device), [])
        for index, one in enumerate(bound):
            record = records.get(one.workload)
            again = (later.at_s for later in bound[index + 1 :] if later.pod == one.pod)
            gone = (at_s for at_s in self._gone.get(one.pod, ()) if at_s > one.at_s)
            left = (
                step.at_s for step in self._steps.get(one.workload, ()) if step.at_s > one.at_s and step.home is None
            )
            ended = record.status.finished_s if record is not None and record.status.phase.ended else None
            ends = [*again, *gone, *left, *([ended] if ended is not None and ended > one.at_s else [])]
            tenant = record.spec.tenant if record else ""
            found.append(Stretch(one.workload, tenant, one.at_s, min(ends, default=None), one.milli, one.profile))
        return tuple(found)

    def homes(self, name: str, since_s: Instant, until_s: Instant) -> Iterable[tuple[Instant, bool]]:
        """When this workload was given a home and when it was said to have none, in order."""
        steps = self._steps.get(name, [])
        begin = bisect.bisect_left(steps, since_s, key=lambda step: step.at_s)
        for step in steps[begin:]:
            if step.at_s > until_s:
                return
            yield step.at_s, step.home is not None

    def _step(self, name: str, at_s: Instant) -> _Step | None:
        steps = self._steps.get(name, [])
        index = bisect.bisect_right(steps, at_s, key=lambda step: step.at_s)
        return steps[index - 1] if index else None


def _pools(running: Iterable[Was]) -> tuple[PoolWas, ...]:
    sums: dict[str, tuple[int, int]] = {}
    for one in running:
        used, count = sums.get(one.where, (0, 0))
        sums[one.where] = (used + one.device_milli, count + 1)
    made = []
    for where, (used, count) in sorted(sums.items()):
        cluster, _, pool = where.partition("/")
        made.append(PoolWas(cluster, pool, used, count))
    return tuple(made)
