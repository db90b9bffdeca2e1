"""Room that moves have made is kept for what it was made for; without that the packer might fill it again at once.

Called by the agent's cycle through `tidy`: before packing, the freed node gets a taint in this look at the cluster
alone, which only the pods of the wanted workload tolerate. Nothing of it is written to the cluster.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from dure.model.cluster import ClusterState, Pod, Taint, Toleration
from dure.model.units import Instant, Seconds

KEEP_S: Seconds = 300.0
_TAINT = Taint("dure.dev/kept-free")
_PASS = Toleration(key=_TAINT.key, operator="Exists")


class Keep(msgspec.Struct, frozen=True):
    """This node is for this workload (for nobody if empty) until then."""

    node: str
    workload: str
    until_s: Instant


def holds(keep: Keep | None, state: ClusterState) -> bool:
    """Over when time is up or the workload has come."""
    if keep is None or state.now_s >= keep.until_s:
        return False
    return not keep.workload or not any(pod.workload == keep.workload and pod.holds for pod in state.pods)


def guarded(state: ClusterState, keep: Keep) -> ClusterState:
    """The cluster as the packer should see it while the keep holds."""
    nodes = tuple(
        replace(node, taints=(*node.taints, _TAINT)) if node.name == keep.node else node for node in state.nodes
    )
    return replace(state, nodes=nodes, pods=tuple(_with_pass(pod, keep) for pod in state.pods))


def _with_pass(pod: Pod, keep: Keep) -> Pod:
    wanted = keep.workload and pod.workload == keep.workload and not pod.node
    return replace(pod, tolerations=(*pod.tolerations, _PASS)) if wanted else pod
