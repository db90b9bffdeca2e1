"""The replica engine of each serving, turned by the plane: what its engines show in, a decision with its reason out.

Called by `bursting` for every serving that it watches. What a replica carries is learnt from the requests that were
late (`watch.risk`). Who steers what and why is left in the store for `dure why`, and it is told when serving metrics
fail and when they are back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dure.model.cluster import VNodePool
from dure.model.decision import ScaleReplicas
from dure.model.event import Event, Level
from dure.model.pulse import Pulse
from dure.model.reason import Reason
from dure.model.report import Observed, Report
from dure.model.units import Instant
from dure.model.workload import Placement, Workload, WorkloadStatus
from dure.ports import StorePort
from dure.scale.bursts import Bursts
from dure.scale.engines import EngineSettings, Look, ReplicaEngine, Verdict

STEERED_SETTING = "scale/steered"


class Steered(msgspec.Struct, frozen=True):
    """Who sets the replicas of one serving, and what was last said about it."""

    tenant: str
    workload: str
    verdict: Verdict
    full: str = ""
    """What keeps it smaller than that, if anything does."""

    @property
    def sentence(self) -> str:
        wanted = f"{self.verdict.replicas} replicas wanted by '{self.verdict.by}': {self.verdict.why}"
        return f"{wanted}; {self.full}" if self.full else wanted


def steered_of(store: StorePort) -> dict[str, Steered]:
    """As the plane that leads left it, by workload."""
    kept = store.fetch_setting(STEERED_SETTING)
    return {one.workload: one for one in msgspec.json.decode(kept, type=tuple[Steered, ...])} if kept else {}


def written(found: Iterable[Steered]) -> str:
    return msgspec.json.encode(tuple(sorted(found, key=lambda one: one.workload))).decode()


class Steering:
    """The lever of one serving."""

    def __init__(self, spec: Workload, bursts: Bursts) -> None:
        self.engine = ReplicaEngine(
            EngineSettings(
                boot_s=bursts.horizon_s,
                scaling=spec.scaling,
                # Three in the time that a replica takes: noise is less, and so is what months of looks cost.
                step_s=max(bursts.sample_s, bursts.horizon_s / 3.0),
                stale_s=max(bursts.quiet_s, 3.0 * bursts.sample_s),
                min_replicas=spec.size,
                max_replicas=max(spec.replicas.max, spec.size),
            )
        )
        self.said: Steered | None = None

    def decide(
        self, spec: Workload, status: WorkloadStatus, pulse: Pulse | None, carries: float | None, now_s: Instant
    ) -> Verdict | None:
        home = status.placement
        assert home is not None
        look = Look(now_s, home.replicas, status.ready, pulse, status.requests, carries)
        verdict = self.engine.decide(look)
        if verdict is not None:
            self.said = Steered(spec.tenant, spec.name, verdict)
        return verdict

    def within(self, spec: Workload, home: Placement, verdict: Verdict, most: int) -> ScaleReplicas | None:
        """The decision, within the workload's bounds and for as many as there is room for; too little of it is said.

        Nothing is given back for want of room: a node that is away may come back.
        """
        wanted = min(max(verdict.replicas, spec.size), spec.replicas.max)
        if wanted > most:
            full = f"{home.cluster}/{home.pool} has room for {most} ({Reason.NO_CAPACITY})"
            self.said = Steered(spec.tenant, spec.name, verdict, full)
        after = min(wanted, max(most, home.replicas))
        return ScaleReplicas(spec.name, home.replicas, after, verdict.why) if after != home.replicas else None


def seen_of(reports: Sequence[Report], home: Placement, uid: str) -> Observed | None:
    """What was last seen of a serving in the home that it has."""
    for report in reports:
        if report.cluster == home.cluster:
            for one in report.observed:
                if one.uid == uid:
                    return one
    return None


def pool_of(reports: Sequence[Report], home: Placement) -> VNodePool | None:
    """The pool of that home as it was last reported."""
    for report in reports:
        if report.cluster == home.cluster:
            return next((pool for pool in report.pools if pool.name == home.pool), None)
    return None


def news(before: Steered | None, now: Steered, cluster: str, now_s: Instant) -> Event | None:
    """Told once when Dure's policy has to let go of a lever, and when it has it back."""
    lacked = before is not None and bool(before.verdict.fallback)
    lacks = now.verdict.fallback
    if bool(lacks) == lacked:
        return None
    said = f"scaled by HPA's rules: {lacks}" if lacks else "scaled by its serving metrics again"
    return Event(
        now_s,
        "ScalingSignals",
        f"{now.workload} is {said}",
        level=Level.WARNING if lacks else Level.INFO,
        tenant=now.tenant,
        workload=now.workload,
        cluster=cluster,
    )
