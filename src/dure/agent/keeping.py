"""Nodes that are kept for somebody; without that the packer might fill them again at once.

Called by the agent's cycle through `tidy`: before packing, kept nodes get a taint in this look at the cluster alone,
which only the pods of the wanted workload tolerate. Nothing of it is written to the cluster. A node is kept because
moves have freed it (`Keep`), or because it is somebody's turn in a torn pool and it has the fewest to go (`chosen`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dure.model.cluster import ClusterState, Node, NodePhase, Pod, Taint, Toleration, holders
from dure.model.defrag import WantedRoom
from dure.model.units import Instant, Seconds
from dure.model.workload import WorkloadType

KEEP_S: Seconds = 300.0
_KEY = "dure.dev/kept-free"
PASS = Toleration(_KEY, "Exists")


class Keep(msgspec.Struct, frozen=True):
    """These nodes are for this workload (for nobody if empty) until then."""

    nodes: tuple[str, ...]
    workload: str
    until_s: Instant


def holds(keep: Keep, state: ClusterState) -> bool:
    """Over when time is up or the workload has come."""
    if state.now_s >= keep.until_s:
        return False
    return not keep.workload or not any(pod.workload == keep.workload and pod.holds for pod in state.pods)


def guarded(state: ClusterState, keeps: Sequence[Keep]) -> ClusterState:
    """The cluster as the packer should see it while the keeps hold; the very same where there are none."""
    if not keeps:
        return state
    kept = {node: keep.workload for keep in keeps for node in keep.nodes}
    wanted = {keep.workload for keep in keeps} - {""}
    nodes = tuple(
        replace(node, taints=(*node.taints, Taint(_KEY, kept[node.name]))) if node.name in kept else node
        for node in state.nodes
    )
    pods = tuple(_with_pass(pod) if pod.workload in wanted and not pod.node else pod for pod in state.pods)
    return replace(state, nodes=nodes, pods=pods)


def chosen(wanted: WantedRoom, state: ClusterState, before: Sequence[str]) -> tuple[str, ...]:
    """The nodes to keep for it: those of before while they will do, else those with the least to leave them first.

    Services stay, so a node with one is taken last. Fewer than are wanted if no more are large enough.
    """
    here = holders(state)
    able = [node for node in state.nodes if node.pool == wanted.pool and _able(node, wanted.devices)]

    def dearness(node: Node) -> tuple[bool, bool, int, str]:
        pods = here.get(node.name, [])
        stays = any(pod.type is WorkloadType.SERVING for pod in pods)
        return stays, node.name not in before, len(busy(node, pods)), node.name

    return tuple(node.name for node in sorted(able, key=dearness)[: wanted.nodes])


def busy(node: Node, pods: Sequence[Pod]) -> set[str]:
    """Devices of the node that somebody holds something of."""
    mine = {device.id for device in node.devices}
    return {part.device for pod in pods for part in pod.slices} & mine


def _able(node: Node, devices: int) -> bool:
    sound = sum(device.healthy for device in node.devices)
    return node.phase is NodePhase.READY and sound >= devices and node.reclaim_at_s is None


def _with_pass(pod: Pod) -> Pod:
    """It may sit where nodes are kept for its workload, and nowhere where they are kept for another."""
    return replace(pod, tolerations=(*pod.tolerations, Toleration(_KEY, value=pod.workload)))
