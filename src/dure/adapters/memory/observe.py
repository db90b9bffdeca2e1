"""What the embedded cluster shows of its world: the state that `pack` takes, the progress that the plane takes."""

from __future__ import annotations

import math

from dure.adapters.memory import serving
from dure.adapters.memory.world import Work, World
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, PodPhase
from dure.model.report import Observed
from dure.model.units import Instant
from dure.model.workload import WorkloadType


def state(world: World) -> ClusterState:
    return ClusterState(
        cluster=world.cluster,
        now_s=world.now_s,
        version=str(world.version),
        nodes=tuple(world.nodes[name] for name in sorted(world.nodes)),
        pods=tuple(world.pods[name] for name in sorted(world.pods)),
    )


_SCRAPE_S = 60.0


class Progress:
    """The progress of every workload; what cannot have changed since the last look is not computed again."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._seen: dict[str, tuple[int, Instant, Observed]] = {}
        self._all: tuple[int, Instant, tuple[Observed, ...]] = (-1, 0.0, ())

    def of(self, world: World) -> tuple[Observed, ...]:
        if self._all[0] == world.touches and world.now_s < self._all[1]:
            return self._all[2]
        seen = {uid: self._look(world, world.works[uid], self._seen.get(uid)) for uid in sorted(world.works)}
        fresh_until_s = min((entry[1] for entry in seen.values()), default=math.inf)
        self._seen = seen
        self._all = (world.touches, fresh_until_s, tuple(entry[2] for entry in seen.values()))
        return self._all[2]

    def _look(
        self, world: World, work: Work, before: tuple[int, Instant, Observed] | None
    ) -> tuple[int, Instant, Observed]:
        if before is not None and before[0] == work.touched and world.now_s < before[1]:
            return before
        return work.touched, _fresh_until_s(world, work), observed(world, work, self._catalogue)


def _fresh_until_s(world: World, work: Work) -> Instant:
    """Requests are read once a minute, as a scraper would; safe work grows at checkpoints; all else with the pods."""
    if work.counted_s is not None:
        return world.now_s + _SCRAPE_S
    every_s = work.desired.spec.checkpoint_s
    if work.since_s is None or every_s <= 0:
        return math.inf
    return work.since_s + ((world.now_s - work.since_s) // every_s + 1) * every_s


def observed(world: World, work: Work, catalogue: Catalogue) -> Observed:
    serving.count(world, work)
    here = [world.pods[name] for name in work.pods]
    phases = [pod.phase for pod in here]
    waiting = next((pod.message for pod in here if pod.phase is PodPhase.PENDING and pod.message), "")
    answers = work.desired.spec.type is WorkloadType.SERVING
    return Observed(
        uid=work.desired.uid,
        workload=work.desired.spec.name,
        generation=work.desired.placement.generation,
        pods=len(here),
        bound=sum(pod.holds for pod in here),
        ready=phases.count(PodPhase.RUNNING),
        succeeded=phases.count(PodPhase.SUCCEEDED),
        failed=phases.count(PodPhase.FAILED),
        started_s=work.started_s,
        finished_s=work.finished_s,
        done_s=work.safe_s(world.now_s),
        saved_s=work.saved_s(world.now_s),
        requests=int(work.requests) if answers else None,
        requests_good=int(work.requests_good) if answers else None,
        waiting=round(work.waiting) if answers else None,
        lost=work.lost,
        message=waiting or work.message,
        pulse=serving.pulse(world, work, catalogue) if answers else None,
    )
