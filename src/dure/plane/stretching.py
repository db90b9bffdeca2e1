"""Elastic gangs: training that declares its speed by size grows into free devices and shrinks when others need them.

Called by the loop in every cycle; `place.elastic` shares each pool's devices among its elastic gangs now and then. A
gang takes another size just after a checkpoint: a new generation of the same home, begun again from there. Only in
embedded clusters; sizes are never below the gang. What others wait for on the pool's class is not grown into.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.report import Report
from dure.model.units import Instant, Seconds
from dure.model.workload import Phase, SpeedUp, WorkloadType
from dure.place.bill import run_time
from dure.place.elastic import Choice, Wish, disturbed_s, shares
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.observe import Observer

LOOK_S: Seconds = 600.0


class Stretching:
    """Plans are kept in memory alone; a new leader plans anew."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._clusters = {spec.info.name for spec in observer.fleet.clusters if spec.connect.embedded}
        self._plans: dict[str, int] = {}
        self._looked_s: Instant | None = None

    def act(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        elastic = [draft for draft in drafts if self._stretches(draft)]
        if not elastic:
            return
        if self._looked_s is None or now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._plans = self._planned(elastic, drafts, reports, now_s)
        ready = [
            draft
            for draft in elastic
            if draft.before.name in self._plans and draft.status.done_s > draft.before.status.done_s
        ]
        if ready:
            billed(ready, self._observer.snapshot(now_s, (), reports), every_s=0.0)
        for draft in ready:
            _resize(draft, self._plans.pop(draft.before.name), now_s)

    def _stretches(self, draft: Draft) -> bool:
        spec, status = draft.before.spec, draft.status
        if not spec.speedups or spec.type is WorkloadType.SERVING or spec.checkpoint_s <= 0:
            return False
        runs = status.phase is Phase.RUNNING and status.leaving_s is None and not status.moving_to
        return runs and status.placement is not None and status.placement.cluster in self._clusters

    def _planned(
        self, elastic: Sequence[Draft], drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant
    ) -> dict[str, int]:
        pools = {(pool.cluster, pool.name): pool for report in reports for pool in report.pools}
        wanted = {one.name for draft in drafts if draft.status.phase.waits for one in draft.before.spec.classes}
        plans: dict[str, int] = {}
        for key, pool in pools.items():
            here = [draft for draft in elastic if _where(draft) == key]
            if here:
                plans |= self._shared(here, pool, contested=pool.class_name in wanted, now_s=now_s)
        return plans

    def _shared(self, here: Sequence[Draft], pool: VNodePool, *, contested: bool, now_s: Instant) -> dict[str, int]:
        """Another size for those of one pool that should have one. While others wait, nothing free is used."""
        held = sum(_devices(draft, _size(draft)) for draft in here)
        free = 0 if contested else sum(pool.free_whole)
        sizes = [_sizes(draft) for draft in here]
        wishes = [
            Wish(tuple(self._choice(draft, step, now_s) for step in steps), least=0)
            for draft, steps in zip(here, sizes, strict=True)
        ]
        chosen = shares(wishes, [held + free])
        return {
            draft.before.name: steps[at].replicas
            for draft, steps, at in zip(here, sizes, chosen, strict=True)
            if at >= 0 and steps[at].replicas != _size(draft)
        }

    def _choice(self, draft: Draft, step: SpeedUp, now_s: Instant) -> Choice:
        """A size that is another costs a start from the checkpoint."""
        left_s, devices = _left_s(draft) / step.speed, _devices(draft, step.replicas)
        if step.replicas == _size(draft):
            return Choice(0, devices, left_s)
        status = draft.status
        load_s = self._observer.catalogue.load_s(draft.before.spec.model)
        age_s = now_s - (now_s if status.started_s is None else status.started_s)
        return Choice(0, devices, disturbed_s(left_s, load_s, age_s, status.restarts))


def _sizes(draft: Draft) -> list[SpeedUp]:
    """The gang itself, then every larger size that was measured."""
    gang = draft.before.spec.gang
    larger = sorted((one for one in draft.before.spec.speedups if one.replicas > gang), key=lambda one: one.replicas)
    return [SpeedUp(gang, 1.0), *larger]


def _size(draft: Draft) -> int:
    home = draft.status.placement
    return home.replicas if home is not None else draft.before.spec.gang


def _devices(draft: Draft, replicas: int) -> int:
    return replicas * max(1, draft.before.spec.demand.devices)


def _left_s(draft: Draft) -> Seconds:
    home = draft.status.placement
    speed = (draft.before.spec.speed_on(home.class_name) if home else None) or 1.0
    return run_time(draft.before.spec, speed, draft.status.done_s)


def _where(draft: Draft) -> tuple[str, str] | None:
    home = draft.status.placement
    return (home.cluster, home.pool) if home is not None else None


def _resize(draft: Draft, replicas: int, now_s: Instant) -> None:
    home, status = draft.status.placement, draft.status
    assert home is not None
    grows = replicas > home.replicas
    why = "devices of its pool are free" if grows else "others on its pool gain more by them"
    decision = ScaleReplicas(draft.before.name, home.replicas, replicas, why)
    generation = status.generation + 1
    placement = replace(home, replicas=replicas, generation=generation)
    draft.status = replace(status, placement=placement, generation=generation)
    draft.entries += (JournalEntry(0, now_s, "", decision, draft.before.spec.tenant, home.cluster),)
