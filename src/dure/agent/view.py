"""What a cluster's state looks like from outside: devices with their holders, models loaded by pool."""

from __future__ import annotations

import operator

from dure.model.cluster import ClusterState, Node, Pod, PodPhase, holders
from dure.model.report import DeviceView, Held


class Views:
    """Looks at every device of a cluster again and again; a node where nothing has changed is not described anew."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, list[Pod], tuple[DeviceView, ...]]] = {}

    def devices(self, state: ClusterState) -> tuple[DeviceView, ...]:
        """Every device with who holds what of it, in the order of nodes and devices."""
        here_by_node = holders(state)
        known, self._known = self._known, {}
        for node in sorted(state.nodes, key=lambda node: node.name):
            here = here_by_node.get(node.name, [])
            before = known.get(node.name)
            same = before is not None and before[0] is node and _same(before[1], here)
            self._known[node.name] = before if before and same else (node, here, _described(node, here))
        return tuple(view for _, _, views in self._known.values() for view in views)


def _same(before: list[Pod], after: list[Pod]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))


def _described(node: Node, pods: list[Pod]) -> tuple[DeviceView, ...]:
    held: dict[str, list[Held]] = {}
    for pod in pods:
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
