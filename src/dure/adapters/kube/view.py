"""The cluster as `pack` takes it, put together from the mirrors and from what is promised but not yet seen.

Rebuilt when something has changed; only objects that are new are translated again. `version` moves only when a node
or pod is another one for the packing: explanations are for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from dure.adapters.kube import names
from dure.adapters.kube.budgets import under_budgets
from dure.adapters.kube.dra import Devices, with_claims
from dure.adapters.kube.nodes import node_of
from dure.adapters.kube.objects import KubeBudget, KubeNode, KubePlacement, KubePod
from dure.adapters.kube.pods import classes_by_resource, pod_of
from dure.adapters.kube.seats import Seat, reserved_of
from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Device, Node, Pod, PodPhase, Slice
from dure.model.fleet import PoolSpec
from dure.model.units import WHOLE_MILLI


class View:
    """`nodes` and `pods` by name. `Holdings` for the legality check."""

    def __init__(self, pools: Sequence[PoolSpec], catalogue: Catalogue) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.budgets: dict[str, int] = {}
        self.version = 0
        self._pools = pools
        self._catalogue = catalogue
        self._holders: dict[str, list[Pod]] = {}
        self._node_of: dict[str, tuple[KubeNode, Node]] = {}
        self._pod_of: dict[str, tuple[KubePod, bool, Pod]] = {}
        self._staying: dict[str, list[Pod]] | None = None
        self._resources: dict[str, tuple[str, ...]] = {}

    def holding(self, node: str) -> Sequence[Pod]:
        return self._holders.get(node, ())

    def staying(self) -> dict[str, list[Pod]]:
        """By workload, those that nobody has told to go."""
        if self._staying is None:
            self._staying = {}
            for name, pod in self.pods.items():
                if not self._pod_of[name][0].leaving:
                    self._staying.setdefault(pod.uid, []).append(pod)
        return self._staying

    def seat(self, name: str, seat: Seat) -> None:
        """A pod got a seat just now."""
        pod = self.pods[name] = _seated(self.pods[name], seat)
        self._holders.setdefault(seat.node, []).append(pod)
        self.nodes[seat.node] = _as_held(self.nodes[seat.node], [pod])
        self._staying = None
        self.version += 1

    def rebuild(
        self,
        nodes: Mapping[str, KubeNode],
        pods: Mapping[str, KubePod],
        placements: Mapping[str, KubePlacement],
        promised: Mapping[str, Seat],
        budgets: Mapping[str, KubeBudget],
        devices: Devices,
    ) -> None:
        """`placements` by workload uid, `promised` seats by pod name."""
        plain = self._translate_nodes(nodes)
        known = self._translate_pods(pods, placements, plain.values())
        plain, known = with_claims(plain, known, pods, devices)
        reserved = {uid: reserved_of(one) for uid, one in placements.items() if one.status.get("reserved")}
        new_pods = {}
        for name, pod in sorted(under_budgets(known, budgets).items()):
            new_pods[name] = _seated(pod, promised.get(name) or reserved.get(pod.uid, {}).get(pod.index))
        holders: dict[str, list[Pod]] = {}
        for pod in new_pods.values():
            if pod.holds:
                holders.setdefault(pod.node, []).append(pod)
        new_nodes = {name: _as_held(node, holders.get(name, ())) for name, node in plain.items()}
        for name, node in new_nodes.items():
            self._give_devices(node, holders.get(name, []), new_pods)
        allowed = {name: one.status.disruptions_allowed for name, one in sorted(budgets.items())}
        same = new_nodes == self.nodes and allowed == self.budgets
        if not same or _quiet(new_pods) != _quiet(self.pods):
            self.version += 1
        self.budgets = allowed
        self.nodes, self.pods, self._holders, self._staying = new_nodes, new_pods, holders, None

    def _translate_nodes(self, found: Mapping[str, KubeNode]) -> dict[str, Node]:
        fresh = {}
        for name, one in sorted(found.items()):
            before = self._node_of.get(name)
            fresh[name] = before if before and before[0] is one else (one, node_of(one, self._pools, self._catalogue))
        self._node_of = fresh
        return {name: node for name, (_, node) in fresh.items()}

    def _translate_pods(
        self, found: Mapping[str, KubePod], placements: Mapping[str, KubePlacement], nodes: Iterable[Node]
    ) -> dict[str, Pod]:
        resources = classes_by_resource(self._catalogue, nodes)
        if resources != self._resources:
            self._resources, self._pod_of = resources, {}
        fresh = {}
        for name, one in found.items():
            if not _matters(one):
                continue
            placement = placements.get(one.metadata.labels.get(names.UID, ""))
            ours = placement is not None and placement.metadata.namespace == one.metadata.namespace
            before = self._pod_of.get(name)
            if before is not None and before[0] is one and before[1] == ours:
                fresh[name] = before
                continue
            fresh[name] = (one, ours, pod_of(one, resources, ours=ours))
        self._pod_of = fresh
        going = {uid for uid, one in placements.items() if one.status.get("remake")}
        saved = {
            (uid, int(one.status["savedGeneration"])): float(one.status["savedSeconds"])
            for uid, one in placements.items()
            if "savedGeneration" in one.status
        }
        known = {name: pod for name, (_, _, pod) in fresh.items()}
        for name, (_, ours, pod) in fresh.items() if going or saved else ():
            if ours and pod.uid in going:
                known[name] = replace(known[name], leaving=True)
            if ours and (pod.uid, pod.generation) in saved:
                known[name] = replace(known[name], saved_s=saved[pod.uid, pod.generation])
        return known

    def _give_devices(self, node: Node, holders: list[Pod], pods: dict[str, Pod]) -> None:
        """Pods that somebody else bound hold devices too; which ones is not told, so take the first free ones."""
        taken = {part.device for pod in holders for part in pod.slices}
        for position, pod in enumerate(holders):
            if pod.slices or not pod.demand.devices:
                continue
            free = [one for one in node.devices if one.id not in taken and one.class_name in pod.classes]
            parts = tuple(self._whole(one) for one in free[: pod.demand.devices])
            taken.update(part.device for part in parts)
            holders[position] = pods[pod.name] = replace(pod, slices=parts)

    def _whole(self, device: Device) -> Slice:
        memory_mib = self._catalogue.accelerator(device.class_name).memory_mib
        return Slice(
            device=device.id,
            mode=ShareMode.EXCLUSIVE,
            memory_mib=memory_mib,
            compute_milli=WHOLE_MILLI,
            bandwidth_milli=WHOLE_MILLI,
        )


def _matters(found: KubePod) -> bool:
    """Pods that wait for us, and all that hold something or are a workload's own."""
    mine = found.spec.scheduler_name == names.SCHEDULER
    if found.spec.node_name:
        return mine or not found.ended
    return mine and not found.leaving and not found.spec.scheduling_gates


def _seated(pod: Pod, seat: Seat | None) -> Pod:
    if seat is None or pod.node or pod.phase is not PodPhase.PENDING:
        return pod
    return replace(pod, node=seat.node, slices=seat.slices, allotted=seat.claims, phase=PodPhase.STARTING, message="")


def _as_held(node: Node, holders: Sequence[Pod]) -> Node:
    """A device is cut as those who hold it have it."""
    modes = {part.device: part.mode for pod in holders for part in pod.slices}
    devices = tuple(
        replace(device, mode=modes[device.id]) if modes.get(device.id, device.mode) is not device.mode else device
        for device in node.devices
    )
    return node if devices == node.devices else replace(node, devices=devices)


def _quiet(pods: Mapping[str, Pod]) -> list[Pod]:
    return [replace(pod, message="") if pod.message else pod for pod in pods.values()]
