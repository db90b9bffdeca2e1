"""Whether a set of binds may be made: a cluster's own check of every rule, on the embedded one and on a real one.

Deliberately not the code that `pack` decides with: a wrong decision must meet a second opinion, as it would at a real
kubelet and device plugin. Raises `Conflict` with the two numbers that clash; changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from dure.adapters.neighbourhood import check_neighbours
from dure.model.accelerator import AcceleratorProfile, Geometry, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Device, Node, NodePhase, Pod, PodPhase, Slice
from dure.model.decision import Bind
from dure.model.errors import Conflict
from dure.model.reason import Reason
from dure.model.units import WHOLE_MILLI, MiB, gib

_CUT = (ShareMode.MIG, ShareMode.VNPU)


class Holdings(Protocol):
    """Who is where: what the check needs to know of a cluster."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...

    @property
    def pods(self) -> Mapping[str, Pod]: ...

    def holding(self, node: str) -> Sequence[Pod]: ...


def check_binds(world: Holdings, catalogue: Catalogue, binds: Sequence[Bind]) -> None:
    """All of `binds` together, on top of what is held already."""
    twice = [pod for pod, times in Counter(bind.pod for bind in binds).items() if times > 1]
    if twice:
        raise Conflict(f"pod {twice[0]} is bound twice in one call")
    pods = [_pending(world, bind) for bind in binds]
    _check_gangs(pods)
    for node_name in sorted({bind.node for bind in binds}):
        here = [(pod, bind) for pod, bind in zip(pods, binds, strict=True) if bind.node == node_name]
        node = _ready(world, node_name)
        for pod, bind in here:
            _check_admission(node, pod)
            _check_shape(node, pod, bind)
        _check_host(node, world.holding(node_name), [pod for pod, _ in here])
        _check_devices(node, catalogue, world.holding(node_name), here)
        _check_claims(node, world.holding(node_name), here)
    check_neighbours(
        world.nodes, world.pods, [(pod, world.nodes[bind.node]) for pod, bind in zip(pods, binds, strict=True)]
    )


def check_mode(node: Node, device: Device, mode: ShareMode, held: Sequence[Pod]) -> None:
    """A device changes its mode only while nobody of another mode is on it, and only to a mode that is offered."""
    if mode not in node.share:
        offered = ", ".join(node.share)
        raise Conflict(f"{device.id} does not offer {mode}, only {offered}", reason=Reason.SHARE_MODE_NOT_OFFERED)
    others = [pod.name for pod in held for part in pod.slices if part.device == device.id and part.mode is not mode]
    if others:
        raise Conflict(f"{device.id} is {device.mode} and held by {others[0]}; {mode} must wait", where=node.name)


def _pending(world: Holdings, bind: Bind) -> Pod:
    pod = world.pods.get(bind.pod)
    if pod is None or pod.uid != bind.uid:
        raise Conflict(f"pod {bind.pod} of {bind.uid} is gone")
    if pod.node or pod.phase is not PodPhase.PENDING:
        raise Conflict(f"pod {bind.pod} is bound already, to {pod.node or pod.phase}")
    return pod


def _ready(world: Holdings, name: str) -> Node:
    node = world.nodes.get(name)
    if node is None or node.phase is not NodePhase.READY:
        raise Conflict(f"node {name} is {node.phase if node else 'gone'}, not ready", reason=Reason.NO_CAPACITY)
    return node


def _check_gangs(pods: Sequence[Pod]) -> None:
    members = Counter(pod.uid for pod in pods)
    for pod in pods:
        if members[pod.uid] < pod.gang:
            raise Conflict(
                f"{pod.workload} is a gang of {pod.gang}, only {members[pod.uid]} bound together",
                reason=Reason.GANG_INCOMPLETE,
            )


def _check_admission(node: Node, pod: Pod) -> None:
    if pod.pool and pod.pool != node.pool:
        raise Conflict(f"pod {pod.name} belongs in pool {pod.pool}, node {node.name} is in {node.pool}")
    for key, value in pod.selector.items():
        if node.labels.get(key) != value:
            raise Conflict(f"pod {pod.name} selects {key}={value}", reason=Reason.SELECTOR_MISMATCH)
    if pod.rules.unknown:
        raise Conflict(f"pod {pod.name} asks for {pod.rules.unknown[0]}", reason=Reason.NOT_SUPPORTED)
    if not pod.rules.admit(node.name, node.labels):
        raise Conflict(f"pod {pod.name} does not want {node.name}", reason=Reason.SELECTOR_MISMATCH)
    for taint in node.taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(toleration.tolerates(taint) for toleration in pod.tolerations):
            raise Conflict(f"pod {pod.name} does not tolerate {taint.key}", reason=Reason.TAINT_NOT_TOLERATED)


def _check_shape(node: Node, pod: Pod, bind: Bind) -> None:
    """As many slices as asked for, of devices that are here, healthy and of an accepted class."""
    devices = {device.id: device for device in node.devices}
    named = [part.device for part in bind.slices]
    if len(set(named)) != len(named):
        raise Conflict(f"pod {pod.name} names a device of {node.name} twice")
    wanted = pod.demand.devices if pod.demand.whole else 0 if pod.claims and not pod.classes else 1
    if len(named) != wanted:
        raise Conflict(f"pod {pod.name} asks for {wanted} devices, {len(named)} given")
    for part in bind.slices:
        device = devices.get(part.device)
        if device is None or not device.healthy:
            raise Conflict(f"device {part.device} of {node.name} is {'failed' if device else 'not there'}")
        if pod.classes and device.class_name not in pod.classes:
            raise Conflict(f"pod {pod.name} does not accept {device.class_name}", reason=Reason.CLASS_NOT_ACCEPTED)
        if pod.demand.whole and part.mode is not ShareMode.EXCLUSIVE:
            raise Conflict(f"pod {pod.name} asks for whole devices, {part.mode} given")


def _check_host(node: Node, held: Sequence[Pod], added: Sequence[Pod]) -> None:
    cpu = sum(pod.demand.cpu_milli for pod in (*held, *added))
    memory = sum(pod.demand.host_memory_mib for pod in (*held, *added))
    if cpu > node.cpu_milli:
        raise Conflict(f"{node.name}: {cpu} of {node.cpu_milli} milli CPU", reason=Reason.HOST_TOO_SMALL)
    if memory > node.memory_mib:
        text = f"{node.name}: {gib(memory)} of {gib(node.memory_mib)} host memory"
        raise Conflict(text, reason=Reason.HOST_TOO_SMALL)


def _check_claims(node: Node, held: Sequence[Pod], added: Sequence[tuple[Pod, Bind]]) -> None:
    """Every device that is given is offered here and belongs to one claim only."""
    owner = {one.device: one.claim for pod in held for one in pod.allotted}
    for pod, bind in added:
        asked = sum(request.count for claim in pod.claims if not claim.allotted for request in claim.requests)
        if len(bind.claims) < asked:
            raise Conflict(f"pod {pod.name} claims {asked} devices, {len(bind.claims)} given")
        known = {one for claim in pod.claims for one in claim.allotted}
        for one in bind.claims:
            if one not in known and one.device not in node.offers:
                raise Conflict(f"{node.name} does not offer {one.device}", reason=Reason.CLAIM_NOT_MET)
            if owner.setdefault(one.device, one.claim) != one.claim:
                raise Conflict(f"{one.device} belongs to {owner[one.device]}", reason=Reason.CLAIM_NOT_MET)


def _check_devices(node: Node, catalogue: Catalogue, held: Sequence[Pod], added: Sequence[tuple[Pod, Bind]]) -> None:
    needs = {bind.pod: pod.demand.memory_mib for pod, bind in added}
    new = [(part, needs[bind.pod]) for _, bind in added for part in bind.slices]
    for device in node.devices:
        mine = [(part, memory) for part, memory in new if part.device == device.id]
        if not mine:
            continue
        profile = catalogue.accelerator(device.class_name)
        for part, memory in mine:
            check_mode(node, device, part.mode, held)
            _check_memory(device, profile, part, memory)
        old = [part for pod in held for part in pod.slices if part.device == device.id]
        _check_device(device, profile, (*old, *(part for part, _ in mine)))


def _check_memory(device: Device, profile: AcceleratorProfile, part: Slice, wanted: MiB) -> None:
    geometry = profile.geometry(part.mode)
    cut = geometry.profile(part.profile) if geometry else None
    whole = part.mode is ShareMode.EXCLUSIVE
    given = cut.memory_mib if cut else profile.memory_mib if whole else part.memory_mib
    if wanted > given:
        text = f"{device.id}: needs {gib(wanted)}, the slice has {gib(given)}"
        raise Conflict(text, reason=Reason.MEMORY_TOO_SMALL)


def _check_device(device: Device, profile: AcceleratorProfile, parts: Sequence[Slice]) -> None:
    modes = {part.mode for part in parts}
    if len(modes) > 1:
        raise Conflict(f"{device.id}: {' and '.join(sorted(modes))} at once")
    mode = parts[0].mode
    if mode is ShareMode.EXCLUSIVE:
        if len(parts) > 1:
            raise Conflict(f"{device.id} is held whole already", reason=Reason.NO_CAPACITY)
    elif mode in _CUT:
        geometry = profile.geometry(mode)
        if geometry is None:
            raise Conflict(f"{device.class_name} has no {mode} profiles", reason=Reason.SHARE_MODE_NOT_OFFERED)
        _check_cut(device, geometry, parts)
    else:
        _check_shares(device, profile, parts, profile.clients(mode))


def _check_cut(device: Device, geometry: Geometry, parts: Sequence[Slice]) -> None:
    taken = compute = 0
    for part in parts:
        cut = geometry.profile(part.profile)
        if cut is None or part.start not in cut.starts or part.slots != cut.slots:
            raise Conflict(f"{device.id}: '{part.profile}' at {part.start} over {part.slots} slots is not legal")
        mask = ((1 << cut.slots) - 1) << part.start
        if taken & mask:
            raise Conflict(f"{device.id}: '{part.profile}' at {part.start} overlaps", reason=Reason.NO_CAPACITY)
        taken |= mask
        compute += cut.compute_slices
        if sum(other.profile == part.profile for other in parts) > cut.max_instances:
            raise Conflict(f"{device.id}: more than {cut.max_instances} of '{part.profile}'")
    if compute > geometry.compute_slices:
        text = f"{device.id}: {compute} of {geometry.compute_slices} compute slices"
        raise Conflict(text, reason=Reason.COMPUTE_TOO_SMALL)


def _check_shares(device: Device, profile: AcceleratorProfile, parts: Sequence[Slice], clients: int) -> None:
    if len(parts) > clients:
        raise Conflict(f"{device.id}: {len(parts)} of {clients} clients", reason=Reason.NO_CAPACITY)
    used = {
        Reason.MEMORY_TOO_SMALL: (sum(part.memory_mib for part in parts), profile.memory_mib),
        Reason.COMPUTE_TOO_SMALL: (sum(part.compute_milli for part in parts), WHOLE_MILLI),
        Reason.BANDWIDTH_TOO_SMALL: (sum(part.bandwidth_milli for part in parts), WHOLE_MILLI),
    }
    for reason, (found, limit) in used.items():
        if found > limit:
            raise Conflict(f"{device.id}: {found} of {limit} taken", reason=reason)
