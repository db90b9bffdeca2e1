"""What the embedded cluster shows of its world: the state that `pack` takes, the progress that the plane takes."""

from __future__ import annotations

from collections import Counter

from dure.adapters.memory import serving
from dure.adapters.memory.world import Work, World
from dure.model.cluster import ClusterState, PodPhase
from dure.model.report import Observed


def state(world: World) -> ClusterState:
    return ClusterState(
        cluster=world.cluster,
        now_s=world.now_s,
        version=str(world.version),
        nodes=tuple(world.nodes[name] for name in sorted(world.nodes)),
        pods=tuple(world.pods[name] for name in sorted(world.pods)),
    )


def observed(world: World, work: Work) -> Observed:
    serving.count(world, work)
    here = [world.pods[name] for name in work.pods]
    phases = Counter(pod.phase for pod in here)
    waiting = next((pod.message for pod in here if pod.phase is PodPhase.PENDING and pod.message), "")
    return Observed(
        uid=work.desired.uid,
        workload=work.desired.spec.name,
        generation=work.desired.placement.generation,
        pods=len(here),
        bound=sum(pod.holds for pod in here),
        ready=phases[PodPhase.RUNNING],
        succeeded=phases[PodPhase.SUCCEEDED],
        failed=phases[PodPhase.FAILED],
        started_s=work.started_s,
        finished_s=work.finished_s,
        done_s=work.safe_s(world.now_s),
        requests=int(work.requests),
        requests_good=int(work.requests_good),
        lost=work.lost,
        message=waiting or work.message,
    )
