"""What a cluster's state looks like from outside: devices with their holders, models loaded by pool."""

from __future__ import annotations

from dure.model.cluster import ClusterState, PodPhase
from dure.model.report import DeviceView, Held


def devices_of(state: ClusterState) -> tuple[DeviceView, ...]:
    """Every device with who holds what of it, in the order of nodes and devices."""
    held: dict[str, list[Held]] = {}
    for pod in state.pods:
        if pod.holds:
            for part in pod.slices:
                held.setdefault(part.device, []).append(Held(part, pod.name, pod.workload, pod.tenant))
    return tuple(
        DeviceView(
            id=device.id,
            node=node.name,
            pool=node.pool,
            class_name=device.class_name,
            mode=device.mode,
            healthy=device.healthy,
            node_phase=node.phase,
            held=tuple(sorted(held.get(device.id, ()), key=lambda one: (one.slice.start, one.pod))),
        )
        for node in sorted(state.nodes, key=lambda node: node.name)
        for device in node.devices
    )


def warm_models(state: ClusterState) -> dict[str, dict[str, int]]:
    """How many running replicas of each model there are in each pool."""
    pool_of = {node.name: node.pool for node in state.nodes}
    warm: dict[str, dict[str, int]] = {}
    for pod in state.pods:
        if pod.model and pod.phase is PodPhase.RUNNING and pod.node in pool_of:
            models = warm.setdefault(pool_of[pod.node], {})
            models[pod.model] = models.get(pod.model, 0) + 1
    return {pool: dict(sorted(models.items())) for pool, models in sorted(warm.items())}
