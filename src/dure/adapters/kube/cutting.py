"""Cutting a device in another way: what Dure writes on a node, and the vendor's operators that answer.

A node with a MIG manager is cut as a whole: its label names a layout and the manager's state label says when it is
done. A node whose device plugin takes its configuration from a label is shared as a whole (MPS, time slices): feature
discovery and the plugin say when. Elsewhere the wish is an annotation, which Dure's own device plugin follows.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dure.adapters.kube import names
from dure.adapters.kube.nodes import has_mig_manager
from dure.adapters.kube.objects import KubeNode
from dure.adapters.kube.rest import Api
from dure.model.accelerator import ShareMode
from dure.model.decision import Resize
from dure.model.errors import Conflict
from dure.model.quantity import count
from dure.ports import Clock

WHOLE_LAYOUT = "all-disabled"
MIG_LAYOUT = "all-balanced"
WAIT_S = 120.0
POLL_S = 0.2
# What feature discovery calls the ways in which the device plugin shares.
_STRATEGY = {ShareMode.MPS: "mps", ShareMode.TIMESLICE: "time-slicing"}
_GPU = "nvidia.com/gpu"


def cut_node(api: Api, node: KubeNode | None, wish: Resize, busy: bool, clock: Clock) -> KubeNode:
    """The node as it is afterwards. `busy`: somebody holds a device of it."""
    if node is None:
        raise Conflict(f"node {wish.node} is gone")
    path = f"/api/v1/nodes/{wish.node}"
    labels = node.metadata.labels
    if has_mig_manager(labels) and wish.mode in (ShareMode.MIG, ShareMode.EXCLUSIVE):
        if busy:
            raise Conflict(f"{wish.node}: its MIG manager cuts all devices at once, and some are held")
        layout = labels.get(names.MIG_LAYOUT, MIG_LAYOUT) if wish.mode is ShareMode.MIG else WHOLE_LAYOUT
        return _with_layout(api, path, layout, clock)
    if names.PLUGIN_CONFIG in labels and wish.mode in _STRATEGY:
        if busy:
            raise Conflict(f"{wish.node}: its device plugin shares all devices at once, and some are held")
        config = labels.get(f"{names.PLUGIN_CONFIG_OF}{wish.mode}", str(wish.mode))
        return _with_config(api, path, config, _STRATEGY[wish.mode], clock)
    modes = msgspec.json.decode(node.metadata.annotations.get(names.MODES, "{}"), type=dict[str, str])
    metadata: dict[str, dict[str, str]] = {
        "annotations": {names.MODES: msgspec.json.encode({**modes, wish.device: str(wish.mode)}).decode()}
    }
    return api.patch(path, {"metadata": metadata}, KubeNode)


def _with_layout(api: Api, path: str, layout: str, clock: Clock) -> KubeNode:
    """Ask for a layout and wait for the manager's word. A state that stood there before is not an answer."""
    if (now := api.get(path, KubeNode)).metadata.labels.get(names.MIG_STATE) == "pending":
        # Its word on what it is doing would be taken for one on this wish.
        raise Conflict(f"{now.metadata.name}: its MIG manager is still at work on another layout")
    before = {"metadata": {"labels": {names.MIG_CONFIG: layout, names.MIG_STATE: "pending"}}}
    api.patch(path, before, KubeNode)

    def made(node: KubeNode) -> bool:
        state = node.metadata.labels.get(names.MIG_STATE, "")
        if state == "failed":
            raise Conflict(f"{node.metadata.name}: the MIG manager cannot make the layout '{layout}'")
        return state == "success"

    return _waited(api, path, made, f"layout '{layout}'", clock)


def _with_config(api: Api, path: str, config: str, strategy: str, clock: Clock) -> KubeNode:
    """Ask for a configuration and wait until labels and resources show it; the plugin has no state of its own."""
    api.patch(path, {"metadata": {"labels": {names.PLUGIN_CONFIG: config}}}, KubeNode)

    def shared(node: KubeNode) -> bool:
        labels = node.metadata.labels
        replicas, devices = int(labels.get(names.GPU_REPLICAS, "1")), int(labels.get(names.GPU_COUNT, "0"))
        offered = count(node.status.allocatable.get(_GPU, "0"))
        return labels.get(names.GPU_STRATEGY) == strategy and replicas > 1 and offered == replicas * devices

    return _waited(api, path, shared, f"sharing by '{config}'", clock)


def _waited(api: Api, path: str, reached: Callable[[KubeNode], bool], what: str, clock: Clock) -> KubeNode:
    deadline_s = clock.now() + WAIT_S
    while clock.now() < deadline_s:
        node = api.get(path, KubeNode)
        if reached(node):
            return node
        if not clock.wait(POLL_S):
            break
    raise Conflict(f"{path.rpartition('/')[2]}: no {what} after {WAIT_S:g} s")
