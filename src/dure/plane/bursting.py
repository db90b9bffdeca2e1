"""Another number of replicas for a serving: by what its engines show, else by how many of its answers are late.

Called by the loop in every cycle. Where engines show tokens and waiting requests, or its owner chose a way of
scaling, `steering` decides; else `pack.burst` does: extra replicas when answers will soon be late, taken back in
steps when it is calm. Clusters tell how many requests came and how many were
answered in time, not how long each took, so the trend is that of the late share against the twentieth that a p95
target allows. A queue in which the last one is late by waiting alone comes first: it gets as many replicas as work it
off (`backlog`), since its late answers are counted only when they are given. Then what is foreseen (`watch.risk`):
when the load that is coming would break the promise, replicas are granted while all is still well, and none is given
back that would be missed within the horizon. In real clusters only where a policy asks for it (`scale.bursts`): they
may have an autoscaler of their own, and two would fight. What is granted is in the record (its replicas beyond the
smallest number), so a restart loses no more than a trend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.errors import InvalidInput
from dure.model.event import Event
from dure.model.policy import Policy, Verb
from dure.model.pulse import Scaling
from dure.model.report import Observed, Report
from dure.model.units import Instant, Seconds
from dure.model.workload import MEANT, Phase, Placement, Workload, WorkloadStatus, WorkloadType
from dure.pack.burst import Backlog, BurstSettings, BurstState, LatencySample, QueueSample, backlog, burst, trend
from dure.place.room import PoolRoom
from dure.plane.adapting import Learned
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.observe import Observer
from dure.plane.steering import STEERED_SETTING, Steering, news, pool_of, seen_of, written
from dure.ports import StorePort
from dure.scale.bursts import Bursts, bursts_of
from dure.share.feedback import Said, target_ms
from dure.watch.risk import Foreseen, RiskBook, RiskSettings

# What a p95 target allows to be late.
LATE = 0.05
# What people said is read this often, and what is foreseen told.
TELL_S: Seconds = 60.0
# A calm that was regretted becomes longer, up to so many times what was asked for.
LONGEST_CALM = 16
# Replicas are granted at this risk of a broken promise, and kept while one fewer would have that one.
RISKY, CAREFUL = 0.5, 0.2
# Where a device's people leave what they say, and where the plane leaves what it foresees.
FEEDBACK_SETTING, RISKS_SETTING = "share/feedback", "watch/risks"


class Risk(msgspec.Struct, frozen=True):
    """What is foreseen for one serving with the replicas that it has."""

    tenant: str
    workload: str
    rate_per_s: float
    late: float
    risk: float


def risks_of(store: StorePort) -> tuple[Risk, ...]:
    """What the plane that leads foresees, as it left it in the store."""
    kept = store.fetch_setting(RISKS_SETTING)
    return msgspec.json.decode(kept, type=tuple[Risk, ...]) if kept else ()


class Sight(NamedTuple):
    """What is seen beyond the counters: whether to look ahead at all, slower devices, stricter people."""

    foresees: bool = True
    slowness: float = 1.0
    strictness: float = 1.0


class Bursting:
    """One memory for each serving: its last counters, its trend, and how long calm must last for it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.foresees = True
        """False leaves the trend of the late share alone to decide, as a measure of what foresight is worth."""
        self.slowness: Callable[[str], float] = lambda _: 1.0
        """From hardware counters: by how much a workload's devices are slower than they should be."""
        self._embedded = {spec.info.name for spec in observer.fleet.clusters if spec.connect.embedded}
        self._bursts = Bursts()
        self._watched: dict[str, _Watch] = {}
        self._said: tuple[Instant, tuple[Said, ...]] | None = None
        self._told: tuple[Risk, ...] = ()
        self._told_s: Instant = -math.inf
        self._steered = "[]"
        self._events: tuple[Event, ...] = ()

    def act(
        self, drafts: Iterable[Draft], reports: Sequence[Report], policies: Iterable[Policy], now_s: Instant
    ) -> None:
        """Change the drafts of those that need another size; what ran so far is billed before that."""
        self._events = ()
        found = self._look(drafts, reports, now_s) if self._asked(policies) else []
        self._tell(now_s)
        if found:
            billed([draft for draft, _ in found], self._observer.snapshot(now_s, (), reports), every_s=0.0)
        for draft, decision in found:
            _scale(draft, decision, now_s)

    def told(self, other: Learned) -> Learned:
        """What this cycle has to write beside the drafts, together with what somebody else has."""
        return other._replace(events=(*other.events, *self._events)) if self._events else other

    def _look(
        self, drafts: Iterable[Draft], reports: Sequence[Report], now_s: Instant
    ) -> list[tuple[Draft, ScaleReplicas]]:
        seen, self._watched = self._watched, {}
        found, events = [], []
        for draft in drafts:
            if draft.before.spec.type is not WorkloadType.SERVING:
                continue
            home = draft.status.placement
            if home is None or not _may_scale(draft):
                continue
            there = seen_of(reports, home, draft.before.uid)
            showing = there is not None and there.pulse is not None
            if not (_counted(draft) or showing or draft.before.spec.scaling is not Scaling.AUTO):
                continue
            if not (self._bursts.real_clusters or home.cluster in self._embedded):
                continue
            known = seen.get(draft.before.uid)
            # Points that were taken by other rules say nothing under these.
            same = known is not None and known.bursts == self._bursts
            watch = known if same and known is not None else _Watch(now_s, self._bursts, draft.before.spec)
            self._watched[draft.before.uid] = watch
            name = draft.before.spec.name
            sight = Sight(self.foresees, self.slowness(name), self._strictness(name, now_s))
            before = watch.steering.said
            decision = watch.decide(draft, reports, now_s, sight, there)
            if decision is not None:
                found.append((draft, decision))
            if (said := watch.steering.said) is not None and said is not before:
                event = news(before, said, home.cluster, now_s)
                events += [event] if event is not None else []
        self._events = tuple(events)
        return found

    def _asked(self, policies: Iterable[Policy]) -> bool:
        """Whether anybody bursts at all; those that were watched until then are forgotten."""
        policy = next((one for one in policies if one.verb is Verb.SCALE), None)
        if policy is not None and policy.paused:
            self._watched = {}
            return False
        try:
            self._bursts = bursts_of(policy) if policy is not None else Bursts()
        except InvalidInput:
            # Kept by an earlier version that did not check: the loop must not stand still for it.
            self._bursts = Bursts()
        return True

    def _strictness(self, workload: str, now_s: Instant) -> float:
        """From what people said: a target that was tightened by a fifth is as a load that is a quarter higher."""
        if self._said is None or now_s - self._said[0] >= TELL_S:
            kept = self._observer.store.fetch_setting(FEEDBACK_SETTING)
            self._said = now_s, msgspec.json.decode(kept, type=tuple[Said, ...]) if kept else ()
        said = self._said[1]
        return 1.0 / target_ms(1.0, said, workload, now_s * 1000.0) if said else 1.0

    def _tell(self, now_s: Instant) -> None:
        """Leave what is foreseen where metrics and people find it."""
        if now_s - self._told_s < TELL_S:
            return
        risks = tuple(watch.risk for _, watch in sorted(self._watched.items()) if watch.risk is not None)
        if risks != self._told:
            self._observer.store.write_setting(RISKS_SETTING, msgspec.json.encode(risks).decode())
        steered = written(watch.steering.said for watch in self._watched.values() if watch.steering.said is not None)
        if steered != self._steered:
            self._observer.store.write_setting(STEERED_SETTING, steered)
        self._told, self._steered, self._told_s = risks, steered, now_s


def _scale(draft: Draft, decision: ScaleReplicas, now_s: Instant) -> None:
    """The same home with another number of replicas, as a new generation for its agent."""
    home = draft.status.placement
    assert home is not None
    generation = draft.status.generation + 1
    placement = replace(home, replicas=decision.after, generation=generation)
    draft.status = replace(draft.status, placement=placement, generation=generation)
    draft.entries += (JournalEntry(0, now_s, "", decision, draft.before.spec.tenant, home.cluster),)


class _Watch:
    def __init__(self, now_s: Instant, bursts: Bursts, spec: Workload) -> None:
        self.bursts = bursts
        self.steering = Steering(spec, bursts)
        self._at_s = self._since_s = now_s
        self._counted: tuple[int, int] | None = None
        self._samples: list[LatencySample] = []
        self._queue: list[QueueSample] = []
        self._answered = 0
        self._calm_s = bursts.calm_s
        self._returned_s: Instant | None = None
        self._book = RiskBook(_risk(bursts))
        self._carries: float | None = None
        self.risk: Risk | None = None

    def decide(
        self, draft: Draft, reports: Sequence[Report], now_s: Instant, sight: Sight, there: Observed | None = None
    ) -> ScaleReplicas | None:
        spec, status = draft.before.spec, draft.status
        home = status.placement
        assert home is not None
        queued = self._look(status, now_s)
        sampled = _counted(draft) and self._sample(draft, now_s, sight.slowness)
        pool = pool_of(reports, home)
        if self._carries is None or (sampled and self.steering.engine.steers):
            self._carries = self._carried(spec, home)
        carries = self._carries / (sight.slowness * sight.strictness) if self._carries else None
        pulse = there.pulse if there is not None else None
        verdict = self.steering.decide(spec, status, pulse, carries, now_s)
        foreseen = self._foresee(spec, home, now_s, sight) if sampled else None
        if self.steering.engine.steers:
            if verdict is None or pool is None:
                return None
            return self.steering.within(spec, home, verdict, _most(pool, spec, home, there))
        if pool is None or not (queued or sampled):
            return None
        if status.ready < home.replicas and now_s - self._since_s < self.bursts.warm_s:
            return None
        free = max(0, min(spec.replicas.max, _most(pool, spec, home, there)) - home.replicas)
        queue = self._late_queue(spec, now_s, sight)
        after = min(queue.replicas, home.replicas + min(free, self.bursts.most_at_once)) if queue else 0
        if queue is not None and after > home.replicas:
            self._change(True, now_s)
            return ScaleReplicas(spec.name, home.replicas, after, _why_queue(queue, spec))
        if not sampled:
            return None
        foresees = sight.foresees and self.bursts.foresee
        if foresees and foreseen is not None and foreseen.risk >= RISKY and free > 0:
            return self._ahead(foreseen, spec.name, home.replicas, free, now_s, sight)
        return self._follow(spec, home.replicas, free, now_s, sight, keeps=queue is not None)

    def _follow(
        self, spec: Workload, replicas: int, free: int, now_s: Instant, sight: Sight, *, keeps: bool
    ) -> ScaleReplicas | None:
        """What the trend of the late share asks for. Nobody gives back what its queue or the future needs."""
        extra = replicas - spec.size
        settings = _trend(self.bursts, self._calm_s)
        after = burst(BurstState(extra, self._since_s), self._samples, now_s, LATE, free, settings)
        foresees = sight.foresees and self.bursts.foresee
        if after.extra < extra and (keeps or (foresees and self._missed(replicas - 1, now_s, sight))):
            return None
        self._since_s = after.since_s
        if after.extra == extra:
            return None
        why = self._why(after.extra > extra, now_s)
        self._change(after.extra > extra, now_s)
        return ScaleReplicas(spec.name, replicas, spec.size + after.extra, why)

    def _late_queue(self, spec: Workload, now_s: Instant, sight: Sight) -> Backlog | None:
        """The queue, if who is last in it is late by waiting alone."""
        found = backlog(self._queue, now_s, _trend(self.bursts, self._calm_s))
        promise_s = (spec.slo.latency_p95_ms or math.inf) / 1000.0 / sight.strictness
        return found if found is not None and found.wait_s > promise_s else None

    def _foresee(self, spec: Workload, home: Placement, now_s: Instant, sight: Sight) -> Foreseen | None:
        found = self._book.foresee(now_s, home.replicas, LATE, sight.slowness, sight.strictness)
        if found is not None:
            self.risk = Risk(spec.tenant, spec.name, found.rate_per_s, found.late, found.risk)
        return found

    def _carried(self, spec: Workload, home: Placement) -> float:
        """Requests per second that one replica answers in time; 0 when nobody knows."""
        speed = (spec.speed_on(home.class_name) or 1.0) / spec.classes[0].speed
        meant = MEANT * speed * spec.rate_per_s / max(spec.size, 1)
        return self._book.carries(LATE, meant) or meant

    def _ahead(
        self, foreseen: Foreseen, name: str, replicas: int, free: int, now_s: Instant, sight: Sight
    ) -> ScaleReplicas:
        """As many as the coming load needs, at once: they take time to load."""
        most = replicas + min(free, self.bursts.most_at_once)
        wanted = self._book.replicas(foreseen.rate_per_s * sight.strictness, LATE, most, sight.slowness)
        self._change(True, now_s)
        why = (
            f"{foreseen.rate_per_s:.3g} requests/s foreseen in {self.bursts.horizon_s:.0f} s: {foreseen.late:.1%} "
            f"would be late, {LATE:.0%} may be (risk {foreseen.risk:.0%})"
        )
        return ScaleReplicas(name, replicas, max(replicas + 1, wanted), why)

    def _missed(self, replicas: int, now_s: Instant, sight: Sight) -> bool:
        """Whether one replica fewer would be regretted soon."""
        fewer = self._book.foresee(now_s, replicas, LATE, sight.slowness, sight.strictness)
        return fewer is not None and fewer.risk >= CAREFUL

    def _look(self, status: WorkloadStatus, now_s: Instant) -> bool:
        """Whether there is a new point of the queue. Without one the points that were are those of another time."""
        requests = status.requests or 0
        if status.waiting is None or requests < self._answered:
            self._queue = []
        if status.waiting is None:
            return False
        took_s = now_s - self._queue[-1].at_s if self._queue else math.inf
        if took_s < self.bursts.sample_s:
            return False
        since = (requests - self._answered, took_s * status.ready) if self._queue else (0, 0.0)
        _forget(self._queue, now_s - self.bursts.window_s)
        self._queue.append(QueueSample(now_s, status.waiting, *since))
        self._answered = requests
        return True

    def _sample(self, draft: Draft, now_s: Instant, slowness: float) -> bool:
        """Whether there is a new point of the trend. Whoever was granted more is also looked at when few ask."""
        status, home = draft.status, draft.status.placement
        granted = home is not None and home.replicas > draft.before.spec.size
        requests, good = status.requests or 0, status.requests_good or 0
        if self._counted is None or requests < self._counted[0]:
            self._at_s, self._counted = now_s, (requests, good)
            return False
        asked = requests - self._counted[0]
        least, took_s = self.bursts.least_requests, now_s - self._at_s
        # Where nobody is answered although somebody waits it is not quiet.
        quiet = granted and took_s >= self.bursts.quiet_s and not status.waiting
        if took_s < self.bursts.sample_s or (asked < least and not quiet):
            return False
        # Of a handful, one that was late says little: what is missing to enough counts as in time.
        late = (asked - (good - self._counted[1])) / max(asked, least)
        self._book.feed(now_s, asked / took_s, late, status.ready, slowness)
        _forget(self._samples, now_s - self.bursts.window_s)
        self._samples.append(LatencySample(now_s, late))
        self._at_s, self._counted = now_s, (requests, good)
        return True

    def _change(self, granted: bool, now_s: Instant) -> None:
        """The trend was that of another size: it begins anew. A return that is regretted makes calm last longer."""
        self._samples, self._queue = [], []
        self._since_s = now_s
        if not granted:
            self._returned_s = now_s
            return
        regretted = self._returned_s is not None and now_s - self._returned_s <= self._calm_s
        longest_s = LONGEST_CALM * self.bursts.calm_s
        self._calm_s = min(2 * self._calm_s, longest_s) if regretted else self.bursts.calm_s
        self._returned_s = None

    def _why(self, granted: bool, now_s: Instant) -> str:
        level, slope = trend(self._samples, now_s)
        horizon_s = self.bursts.horizon_s
        ahead = min(1.0, max(0.0, level + slope * horizon_s))
        if granted:
            return f"{ahead:.1%} of requests will be late in {horizon_s:.0f} s, {LATE:.0%} may be"
        return f"{max(0.0, level):.1%} of requests are late, calm for {self._calm_s:.0f} s"


def _forget(points: list[LatencySample] | list[QueueSample], before_s: Instant) -> None:
    """What was seen before that; points come in order of time."""
    while points and points[0].at_s < before_s:
        del points[0]


def _why_queue(queue: Backlog, spec: Workload) -> str:
    return (
        f"{queue.waiting} requests wait, {queue.wait_s:.3g} s for the last of them where "
        f"{(spec.slo.latency_p95_ms or 0.0) / 1000:g} s are promised: {queue.rate_per_s:.3g}/s come, a replica "
        f"answers {queue.each_per_s:.3g}/s"
    )


def _trend(bursts: Bursts, calm_s: Seconds) -> BurstSettings:
    return BurstSettings(
        window_s=bursts.window_s,
        horizon_s=bursts.horizon_s,
        least_samples=bursts.least_samples,
        calm_s=calm_s,
        most_at_once=bursts.most_at_once,
    )


def _risk(bursts: Bursts) -> RiskSettings:
    return RiskSettings(horizon_s=bursts.horizon_s, span_s=3 * bursts.horizon_s, trend_s=1.5 * bursts.window_s)


def _may_scale(draft: Draft) -> bool:
    """Whether a serving runs and may have more replicas."""
    spec, status = draft.before.spec, draft.status
    if status.phase is not Phase.RUNNING or status.leaving_s is not None:
        return False
    # While it moves, its next home gets as many as it has now; whether that is enough is asked there.
    return status.incoming is None and spec.replicas.max > spec.size


def _counted(draft: Draft) -> bool:
    """Whether it has a latency target, and somebody counts its requests and those in time."""
    spec, status = draft.before.spec, draft.status
    return spec.slo.latency_p95_ms is not None and status.requests is not None and status.requests_good is not None


def _most(pool: VNodePool, spec: Workload, home: Placement, there: Observed | None) -> int:
    """How many replicas there is room for: those that have a seat, and more on nodes that are free or could boot."""
    seated = there.bound if there is not None else home.replicas
    return seated + PoolRoom(pool).fitting(spec.demand)
