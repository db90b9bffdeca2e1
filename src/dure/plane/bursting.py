"""Extra replicas for a serving whose answers will soon be late, taken back in steps when it is calm.

Called by the loop in every cycle; `pack.burst` decides. Clusters tell how many requests came and how many were
answered in time, not how long each took, so the trend is that of the late share against the twentieth that a p95
target allows. Only in embedded clusters: real ones have an autoscaler of their own (`scale`), and two would fight.
What is granted is in the record (its replicas beyond the smallest number), so a restart loses no more than a trend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.report import Report
from dure.model.units import Instant, Seconds
from dure.model.workload import Phase, Workload, WorkloadType
from dure.pack.burst import BurstSettings, BurstState, LatencySample, burst, trend
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.observe import Observer

# What a p95 target allows to be late.
LATE = 0.05
# Counters are read about once a minute; fewer requests than this say little about a share.
SAMPLE_S: Seconds = 60.0
LEAST_REQUESTS = 50
# How long a granted replica may take to load before the trend is asked without it.
WARM_S: Seconds = 600.0
LONGEST_CALM_S: Seconds = 4 * 3600.0
SETTINGS = BurstSettings(window_s=600.0, horizon_s=300.0, calm_s=900.0)


class Bursting:
    """One memory for each serving: its last counters, its trend, and how long calm must last for it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._clusters = {spec.info.name for spec in observer.fleet.clusters if spec.connect.embedded}
        self._watched: dict[str, _Watch] = {}

    def act(self, drafts: Iterable[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        """Change the drafts of those that need another size; what ran so far is billed before that."""
        found = self._look(drafts, reports, now_s)
        if found:
            billed([draft for draft, _ in found], self._observer.snapshot(now_s, (), reports), every_s=0.0)
        for draft, decision in found:
            _scale(draft, decision, now_s)

    def _look(
        self, drafts: Iterable[Draft], reports: Sequence[Report], now_s: Instant
    ) -> list[tuple[Draft, ScaleReplicas]]:
        pools = {(pool.cluster, pool.name): pool for report in reports for pool in report.pools}
        seen, self._watched = self._watched, {}
        found = []
        for draft in drafts:
            home = draft.status.placement
            if home is None or home.cluster not in self._clusters or not _elastic(draft):
                continue
            watch = self._watched[draft.before.uid] = seen.get(draft.before.uid) or _Watch(now_s)
            decision = watch.decide(draft, pools.get((home.cluster, home.pool)), now_s)
            if decision is not None:
                found.append((draft, decision))
        return found


def _scale(draft: Draft, decision: ScaleReplicas, now_s: Instant) -> None:
    """The same home with another number of replicas, as a new generation for its agent."""
    home = draft.status.placement
    assert home is not None
    generation = draft.status.generation + 1
    placement = replace(home, replicas=decision.after, generation=generation)
    draft.status = replace(draft.status, placement=placement, generation=generation)
    draft.entries.append(JournalEntry(0, now_s, "", decision, draft.before.spec.tenant, home.cluster))


class _Watch:
    def __init__(self, now_s: Instant) -> None:
        self._at_s = self._since_s = now_s
        self._counted: tuple[int, int] | None = None
        self._samples: list[LatencySample] = []
        self._calm_s = SETTINGS.calm_s
        self._returned_s: Instant | None = None

    def decide(self, draft: Draft, pool: VNodePool | None, now_s: Instant) -> ScaleReplicas | None:
        spec, status = draft.before.spec, draft.status
        home = status.placement
        assert home is not None
        if not self._sample(status.requests or 0, status.requests_good or 0, now_s) or pool is None:
            return None
        if status.ready < home.replicas and now_s - self._since_s < WARM_S:
            return None
        extra = home.replicas - spec.size
        free = min(spec.replicas.max - home.replicas, _room(pool, spec))
        settings = replace(SETTINGS, calm_s=self._calm_s)
        after = burst(BurstState(extra, self._since_s), self._samples, now_s, LATE, free, settings)
        self._since_s = after.since_s
        if after.extra == extra:
            return None
        why = self._why(after.extra > extra, now_s)
        self._change(after.extra > extra, now_s)
        return ScaleReplicas(spec.name, home.replicas, spec.size + after.extra, why)

    def _sample(self, requests: int, good: int, now_s: Instant) -> bool:
        """Whether there is a new point of the trend."""
        if self._counted is None or requests < self._counted[0]:
            self._at_s, self._counted = now_s, (requests, good)
            return False
        asked = requests - self._counted[0]
        if now_s - self._at_s < SAMPLE_S or asked < LEAST_REQUESTS:
            return False
        late = 1.0 - (good - self._counted[1]) / asked
        begin_s = now_s - SETTINGS.window_s
        self._samples = [one for one in self._samples if one.at_s >= begin_s] + [LatencySample(now_s, late)]
        self._at_s, self._counted = now_s, (requests, good)
        return True

    def _change(self, granted: bool, now_s: Instant) -> None:
        """The trend was that of another size: it begins anew. A return that is regretted makes calm last longer."""
        self._samples = []
        if not granted:
            self._returned_s = now_s
            return
        regretted = self._returned_s is not None and now_s - self._returned_s <= self._calm_s
        self._calm_s = min(2 * self._calm_s, LONGEST_CALM_S) if regretted else SETTINGS.calm_s
        self._returned_s = None

    def _why(self, granted: bool, now_s: Instant) -> str:
        level, slope = trend(self._samples, now_s)
        ahead = max(0.0, level + slope * SETTINGS.horizon_s)
        if granted:
            return f"{ahead:.1%} of requests will be late in {SETTINGS.horizon_s:.0f} s, {LATE:.0%} may be"
        return f"{max(0.0, level):.1%} of requests are late, calm for {self._calm_s:.0f} s"


def _elastic(draft: Draft) -> bool:
    """A serving that runs, has a latency target, may have more replicas, and whose requests somebody counts."""
    spec, status = draft.before.spec, draft.status
    if spec.type is not WorkloadType.SERVING or status.phase is not Phase.RUNNING or status.leaving_s is not None:
        return False
    return spec.slo.latency_p95_ms is not None and spec.replicas.max > spec.size and status.requests is not None


def _room(pool: VNodePool, spec: Workload) -> int:
    """How many more replicas the pool has room for."""
    demand = spec.demand
    if demand.whole:
        return sum(free // demand.devices for free in pool.free_whole)
    return pool.free_milli // max(1, demand.device_milli)
