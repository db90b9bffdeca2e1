"""What is free on devices and nodes, as a mutable scratch copy of one ClusterState.

Kept from one call of `pack` to the next; placing and releasing change only the device and node concerned.
"""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Iterable, Iterator, Sequence

from dure.model.accelerator import AcceleratorProfile, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Device, Node, NodePhase, Pod, Slice, holders
from dure.model.units import WHOLE_MILLI

# Seats, what each costs, and who worked that out.
Ways = tuple[Sequence[tuple[Slice, ...]], Sequence[int], object]


class DeviceRoom:
    """One device: the slot mask in use (MIG, vNPU) and what is left of memory, compute and bandwidth."""

    __slots__ = (
        "bandwidth_milli", "compute_milli", "compute_slices", "device", "instances", "mask", "memory_mib", "mode",
        "profile", "tenants", "walled",
    )  # fmt: skip

    def __init__(self, device: Device, profile: AcceleratorProfile) -> None:
        self.device = device
        self.profile = profile
        self.mode = device.mode
        self.mask = 0
        self.compute_slices = 0
        self.memory_mib = profile.memory_mib
        self.compute_milli = WHOLE_MILLI
        self.bandwidth_milli = WHOLE_MILLI
        self.instances: dict[str, int] = {}
        self.tenants: dict[str, int] = {}
        self.walled = 0

    @property
    def empty(self) -> bool:
        return not self.tenants

    @property
    def clients(self) -> int:
        return sum(self.tenants.values())

    def take(self, part: Slice, pod: Pod) -> None:
        self.mode = part.mode
        self._shift(part, pod, 1)

    def give_back(self, part: Slice, pod: Pod) -> None:
        self._shift(part, pod, -1)

    def admits(self, pod: Pod) -> bool:
        """Whether isolation lets this pod onto the device: a walled tenant shares with nobody else."""
        strangers = self.clients - self.tenants.get(pod.tenant, 0)
        return strangers == 0 or (not pod.isolation.walls_devices and self.walled == 0)

    def _shift(self, part: Slice, pod: Pod, sign: int) -> None:
        self.mask ^= ((1 << part.slots) - 1) << part.start
        self.memory_mib -= sign * part.memory_mib
        self.compute_milli -= sign * part.compute_milli
        self.bandwidth_milli -= sign * part.bandwidth_milli
        if part.profile:
            geometry = self.profile.geometry(part.mode)
            known = geometry.profile(part.profile) if geometry else None
            self.compute_slices += sign * (known.compute_slices if known else 0)
            _count(self.instances, part.profile, sign)
        _count(self.tenants, pod.tenant, sign)
        self.walled += sign * pod.isolation.walls_devices


class NodeRoom:
    """One node: its devices and what is left of host CPU and memory; `fences` are those who keep others away."""

    def __init__(self, node: Node, devices: Iterable[DeviceRoom]) -> None:
        self.node = node
        self.devices = {room.device.id: room for room in devices}
        self.cpu_milli = node.cpu_milli
        self.memory_mib = node.memory_mib
        self.tenants: dict[str, int] = {}
        self.workloads: dict[str, int] = {}
        self.pods: dict[str, Pod] = {}
        self.fences: set[str] = set()
        self.allotted: dict[str, int] = {}
        self.walled = 0
        self.ways: dict[int, Ways] = {}
        """What kinds of pods could do here, as long as nothing changes."""
        self._free_whole: tuple[object, int] | None = None
        self.log: list[NodeRoom] | None = None
        """Where it says that it has changed, if somebody keeps an account of it."""

    @property
    def free_whole(self) -> int:
        """Counted once while nothing changes: then the room has the same `ways`."""
        known = self._free_whole
        if known is None or known[0] is not self.ways:
            free = sum(1 for room in self.devices.values() if room.empty and room.device.healthy)
            known = self._free_whole = self.ways, free
        return known[1]

    def take(self, pod: Pod, parts: Iterable[Slice]) -> None:
        """A device that is no longer there (its owner has cut the node in another way) has nothing to lose."""
        for part in parts:
            if part.device in self.devices:
                self.devices[part.device].take(part, pod)
        self._shift(pod, 1)

    def give_back(self, pod: Pod, parts: Iterable[Slice]) -> None:
        for part in parts:
            if part.device in self.devices:
                self.devices[part.device].give_back(part, pod)
        self._shift(pod, -1)

    @contextlib.contextmanager
    def tried(self, pod: Pod, parts: Sequence[Slice]) -> Iterator[None]:
        """As if the pod sat here; afterwards all is as before, the modes of empty devices too."""
        modes = [(self.devices[part.device], self.devices[part.device].mode) for part in parts]
        ways, log = self.ways, self.log
        self.log = None
        self.take(pod, parts)
        yield
        self.give_back(pod, parts)
        self.ways, self.log = ways, log
        for device, mode in modes:
            device.mode = mode

    def admits(self, pod: Pod) -> bool:
        strangers = sum(self.tenants.values()) - self.tenants.get(pod.tenant, 0)
        return strangers == 0 or (not pod.isolation.walls_nodes and self.walled == 0)

    def _shift(self, pod: Pod, sign: int) -> None:
        # Another one, not an emptied one: a copy of this room may still hold the old.
        self.ways = {}
        if self.log is not None:
            self.log.append(self)
        self.cpu_milli -= sign * pod.demand.cpu_milli
        self.memory_mib -= sign * pod.demand.host_memory_mib
        _count(self.tenants, pod.tenant, sign)
        _count(self.workloads, pod.workload, sign)
        if sign > 0:
            self.pods[pod.name] = pod
        else:
            self.pods.pop(pod.name, None)
        if pod.rules.apart:
            self.fences ^= {pod.name}
        for one in pod.allotted:
            _count(self.allotted, one.device, sign)
        self.walled += sign * pod.isolation.walls_nodes


class KeptRooms:
    """The rooms of one cluster, call after call. A node is built anew when it, or a pod on it, is another object, and
    when somebody has seated or released a pod there: a room that was worked on has other `ways` than before."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, list[Pod], NodeRoom, dict[int, Ways]]] = {}
        self._catalogue: Catalogue | None = None
        self.log: list[NodeRoom] | None = None
        """Rooms that were built or worked on, for who keeps an account of them (`board`); None while nobody does."""

    def of(self, state: ClusterState, catalogue: Catalogue) -> dict[str, NodeRoom]:
        """Every node that is not gone, with its bound pods taken off. O(nodes + pods + devices that changed)."""
        here = holders(state)
        rooms = {
            node.name: self.room(node, here.get(node.name, []), catalogue)
            for node in state.nodes
            if node.phase is not NodePhase.GONE
        }
        if len(self._known) > len(rooms):
            self._known = {name: self._known[name] for name in rooms}
        return rooms

    def account(self) -> list[NodeRoom]:
        """From now on every room that is built or worked on is written down in what this answers."""
        if self.log is None:
            self.log = []
        for _, _, room, _ in self._known.values():
            room.log = self.log
        return self.log

    def forget(self) -> None:
        self._known = {}

    def room(self, node: Node, pods: list[Pod], catalogue: Catalogue) -> NodeRoom:
        """One node with the pods that are bound to it taken off."""
        if self._catalogue is not catalogue:
            self._known, self._catalogue = {}, catalogue
        known = self._known.get(node.name)
        if known is None or not _as_it_was(known, node, pods):
            room = room_of(node, pods, catalogue)
            if self.log is not None:
                self.log.append(room)
                room.log = self.log
            known = self._known[node.name] = node, pods, room, room.ways
        return known[2]


def _as_it_was(before: tuple[Node, list[Pod], NodeRoom, dict[int, Ways]], node: Node, pods: list[Pod]) -> bool:
    was, had, room, ways = before
    return was is node and room.ways is ways and len(had) == len(pods) and all(map(operator.is_, had, pods))


def room_of(node: Node, pods: Iterable[Pod], catalogue: Catalogue) -> NodeRoom:
    """One node with the pods that are bound to it taken off."""
    room = NodeRoom(node, (DeviceRoom(device, catalogue.accelerator(device.class_name)) for device in node.devices))
    for pod in pods:
        room.take(pod, pod.slices)
    return room


def copied(room: NodeRoom) -> NodeRoom:
    """The same room to try things out in."""
    twin = copy.copy(room)
    twin.log = None
    twin.devices = {name: copy.copy(device) for name, device in room.devices.items()}
    for device in twin.devices.values():
        device.instances, device.tenants = dict(device.instances), dict(device.tenants)
    twin.tenants, twin.workloads, twin.pods = dict(room.tenants), dict(room.workloads), dict(room.pods)
    twin.fences, twin.allotted = set(room.fences), dict(room.allotted)
    return twin


def whole_slice(room: DeviceRoom) -> Slice:
    """All of one device."""
    return Slice(
        device=room.device.id,
        mode=ShareMode.EXCLUSIVE,
        memory_mib=room.profile.memory_mib,
        compute_milli=WHOLE_MILLI,
        bandwidth_milli=WHOLE_MILLI,
    )


def _count(counter: dict[str, int], key: str, by: int) -> None:
    left = counter.get(key, 0) + by
    if left:
        counter[key] = left
    else:
        counter.pop(key, None)
