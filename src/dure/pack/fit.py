"""What a demand would take of one node: slices, or the verdict that says which two numbers clash.

One function per share mode; all count memory, compute and bandwidth.
"""

from __future__ import annotations

from dure.model.accelerator import Geometry, ShareMode, SliceProfile
from dure.model.catalogue import Catalogue
from dure.model.cluster import Node, NodePhase, Pod, Slice
from dure.model.demand import Demand, on_class
from dure.model.reason import Reason, Verdict
from dure.model.units import WHOLE_MILLI, gib, percent
from dure.pack.allot import allot
from dure.pack.neighbours import Gate
from dure.pack.room import DeviceRoom, NodeRoom, whole_slice
from dure.pack.slots import best_start, covering, free_starts

_SHARED_FIRST = (ShareMode.MIG, ShareMode.VNPU, ShareMode.MPS, ShareMode.TIMESLICE, ShareMode.EXCLUSIVE)


Seats = list[tuple[Slice, ...]]


def fits_node(pod: Pod, room: NodeRoom, catalogue: Catalogue, gate: Gate | None = None) -> Seats | Verdict:
    """Every way in which `pod` could sit on this node, or the first clash, in the order a person would ask.

    `gate` knows what the pods that are there say about it; None when nobody has a rule.
    """
    node = room.node
    clash = _host_clash(pod, room) or (gate.clash(room) if gate is not None else None)
    if clash is not None:
        return clash
    if pod.claims:
        given = allot(pod, room)
        if isinstance(given, Verdict):
            return given
        if not pod.classes:
            return [()]
    here = [part for part in room.devices.values() if part.device.healthy]
    accepted = [part for part in here if part.device.class_name in pod.classes]
    if not accepted and here:
        found = f"{node.name} has {here[0].device.class_name}"
        return Verdict(node.name, Reason.CLASS_NOT_ACCEPTED, "/".join(pod.classes), found)
    if pod.demand.whole:
        return _whole(pod, room, accepted)
    return _shared(pod, room, accepted, catalogue)


def _host_clash(pod: Pod, room: NodeRoom) -> Verdict | None:
    node = room.node
    clash = node_clash(pod, node)
    if clash is not None:
        return clash
    if not room.admits(pod):
        return Verdict(node.name, Reason.ISOLATION_TIER, "a node of its own", f"{node.name} holds other tenants")
    if pod.demand.cpu_milli > room.cpu_milli:
        free = f"{node.name} has {room.cpu_milli / 1000:g} left"
        return Verdict(node.name, Reason.HOST_TOO_SMALL, f"{pod.demand.cpu_milli / 1000:g} cores", free)
    if pod.demand.host_memory_mib > room.memory_mib:
        free = f"{node.name} has {gib(room.memory_mib)} left"
        return Verdict(node.name, Reason.HOST_TOO_SMALL, f"{gib(pod.demand.host_memory_mib)} of host memory", free)
    return None


def node_clash(pod: Pod, node: Node) -> Verdict | None:
    """What the node itself says, whoever sits on it."""
    if node.phase is not NodePhase.READY:
        return Verdict(node.name, Reason.NO_CAPACITY, "a ready node", f"{node.name} is {node.phase}")
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not any(one.tolerates(taint) for one in pod.tolerations):
            return Verdict(node.name, Reason.TAINT_NOT_TOLERATED, f"a toleration of {taint.key}", "none is given")
    for key, value in sorted(pod.selector.items()):
        if node.labels.get(key) != value:
            found = f"{node.name} has {node.labels.get(key, 'none')}"
            return Verdict(node.name, Reason.SELECTOR_MISMATCH, f"{key}={value}", found)
    if pod.rules.unknown:
        wanted = f"{', '.join(pod.rules.unknown)} to be judged"
        return Verdict(node.name, Reason.NOT_SUPPORTED, wanted, "Dure does not know how")
    if not pod.rules.admit(node.name, node.labels):
        wanted = " or ".join(str(term) for term in pod.rules.nodes or ()) or "a node that cannot exist"
        return Verdict(node.name, Reason.SELECTOR_MISMATCH, wanted, f"{node.name} is another")
    return None


def _whole(pod: Pod, node: NodeRoom, devices: list[DeviceRoom]) -> Seats | Verdict:
    where = node.node.name
    big = [room for room in devices if room.profile.memory_mib >= pod.demand.memory_mib]
    if not big:
        largest = max((room.profile.memory_mib for room in devices), default=0)
        found = f"largest device on {where} has {gib(largest)}"
        return Verdict(where, Reason.MEMORY_TOO_SMALL, f"{gib(pod.demand.memory_mib)} per device", found)
    free = [room for room in big if room.empty]
    if len(free) < pod.demand.devices:
        wanted = f"{pod.demand.devices} whole devices on one node"
        return Verdict(where, Reason.NO_CAPACITY, wanted, f"{where} has {len(free)} free")
    order = {name: at for at, name in enumerate(node.devices)}
    return [tuple(whole_slice(room) for room in linked(free, pod.demand.devices, order))]


def linked(free: list[DeviceRoom], count: int, order: dict[str, int]) -> list[DeviceRoom]:
    """Neighbours in one link group if there is such a run (the tightest), else one group, else few groups.

    `order` is where a device stands in its node.
    """
    groups: dict[int, list[DeviceRoom]] = {}
    for room in free:
        groups.setdefault(room.device.link_group, []).append(room)
    runs = [run for group in groups.values() for run in _runs(group, order) if len(run) >= count]
    if runs:
        return min(runs, key=lambda run: (len(run), order[run[0].device.id]))[:count]
    taken: list[DeviceRoom] = []
    while len(taken) < count:
        missing = count - len(taken)
        enough = [link for link, group in groups.items() if len(group) >= missing]
        if enough:
            chosen = min(enough, key=lambda link: len(groups[link]))
        else:
            chosen = max(groups, key=lambda link: len(groups[link]))
        taken += groups.pop(chosen)[:missing]
    return taken


def _runs(group: list[DeviceRoom], order: dict[str, int]) -> list[list[DeviceRoom]]:
    runs: list[list[DeviceRoom]] = []
    for room in group:
        if runs and order[room.device.id] == order[runs[-1][-1].device.id] + 1:
            runs[-1].append(room)
        else:
            runs.append([room])
    return runs


def _shared(pod: Pod, node: NodeRoom, devices: list[DeviceRoom], catalogue: Catalogue) -> Seats | Verdict:
    """One seat for each device that can take the pod; of devices in the same state the first."""
    seats: Seats = []
    nearest: Verdict | None = None
    blank: set[tuple[str, ShareMode]] = set()
    for room in devices:
        if room.empty:
            if (room.device.class_name, room.mode) in blank:
                continue
            blank.add((room.device.class_name, room.mode))
        reference = catalogue.accelerator(pod.classes[0])
        demand = on_class(pod.demand, room.profile, reference)
        answer = fits_device(pod, demand, room, node.node.share)
        if isinstance(answer, Slice):
            seats.append((answer,))
        else:
            nearest = nearest or answer
    where = node.node.name
    return seats or nearest or Verdict(where, Reason.NO_CAPACITY, "a healthy device", f"{where} has none")


def fits_device(pod: Pod, demand: Demand, room: DeviceRoom, offered: tuple[ShareMode, ...]) -> Slice | Verdict:
    """The first mode that works: the device's present one before any change of mode."""
    where = room.device.id
    if not room.admits(pod):
        return Verdict(where, Reason.ISOLATION_TIER, "a device of its own", f"{where} holds other tenants")
    modes = [mode for mode in _SHARED_FIRST if mode in offered and (not pod.share or mode in pod.share)]
    if not room.empty:
        modes = [mode for mode in modes if mode is room.mode]
    if not modes:
        wanted = "/".join(pod.share) or "a share of a device"
        return Verdict(where, Reason.SHARE_MODE_NOT_OFFERED, wanted, f"{where} is {room.mode} now")
    modes.sort(key=lambda mode: mode is not room.mode)
    answers = [_in_mode(demand, room, mode) for mode in modes]
    return next((answer for answer in answers if isinstance(answer, Slice)), answers[0])


def _in_mode(demand: Demand, room: DeviceRoom, mode: ShareMode) -> Slice | Verdict:
    geometry = room.profile.geometry(mode)
    if geometry is not None:
        return _geometric(demand, room, mode, geometry)
    if mode is ShareMode.EXCLUSIVE:
        return _exclusive(demand, room)
    return _fractional(demand, room, mode)


def _exclusive(demand: Demand, room: DeviceRoom) -> Slice | Verdict:
    where = room.device.id
    if not room.empty:
        return Verdict(where, Reason.NO_CAPACITY, "a free device", f"{where} is taken")
    if demand.memory_mib > room.profile.memory_mib:
        found = f"{where} has {gib(room.profile.memory_mib)}"
        return Verdict(where, Reason.MEMORY_TOO_SMALL, gib(demand.memory_mib), found)
    if max(demand.compute_milli, demand.bandwidth_milli) > WHOLE_MILLI:
        worst = max(demand.compute_milli, demand.bandwidth_milli)
        return Verdict(where, Reason.COMPUTE_TOO_SMALL, f"{percent(worst)} of {where}", "one device is 100 %")
    return whole_slice(room)


def _fractional(demand: Demand, room: DeviceRoom, mode: ShareMode) -> Slice | Verdict:
    """MPS and time slices: free shares, memory and bandwidth counted, a limited number of clients."""
    where = room.device.id
    if room.clients >= room.profile.clients(mode):
        return Verdict(where, Reason.NO_CAPACITY, f"one more {mode} client", f"{where} has {room.clients}")
    if demand.memory_mib > room.memory_mib:
        found = f"{where} has {gib(room.memory_mib)} left"
        return Verdict(where, Reason.MEMORY_TOO_SMALL, gib(demand.memory_mib), found)
    if demand.compute_milli > room.compute_milli:
        found = f"{where} has {percent(room.compute_milli)} left"
        return Verdict(where, Reason.COMPUTE_TOO_SMALL, percent(demand.compute_milli), found)
    if demand.bandwidth_milli > room.bandwidth_milli:
        found = f"{where} has {percent(room.bandwidth_milli)} left"
        return Verdict(where, Reason.BANDWIDTH_TOO_SMALL, percent(demand.bandwidth_milli), found)
    return Slice(
        device=room.device.id,
        mode=mode,
        memory_mib=demand.memory_mib,
        compute_milli=demand.compute_milli,
        bandwidth_milli=demand.bandwidth_milli,
    )


def _geometric(demand: Demand, room: DeviceRoom, mode: ShareMode, geometry: Geometry) -> Slice | Verdict:
    """MIG and vNPU: the smallest profile that covers the demand, at the start that spoils the least."""
    where = room.device.id
    share = max(demand.compute_milli, demand.bandwidth_milli)
    enough = [geometry.profiles[index] for index in covering(geometry, demand.memory_mib, share)]
    if not enough:
        largest = max(profile.memory_mib for profile in geometry.profiles)
        wanted = f"{gib(demand.memory_mib)} and {percent(demand.compute_milli)}"
        return Verdict(where, Reason.MEMORY_TOO_SMALL, wanted, f"largest slice is {gib(largest)}")
    for profile in enough:
        start = _start(profile, room, geometry)
        if start is not None:
            return Slice(
                device=where,
                mode=mode,
                profile=profile.name,
                start=start,
                slots=profile.slots,
                memory_mib=profile.memory_mib,
                compute_milli=profile.compute_milli,
                bandwidth_milli=profile.slots * WHOLE_MILLI // geometry.slots,
            )
    wanted = f"a slice of {gib(demand.memory_mib)}"
    return Verdict(
        where, Reason.FRAGMENTED, wanted, f"largest free slice of {where} is {gib(largest_free(room, mode))}"
    )


def _start(profile: SliceProfile, room: DeviceRoom, geometry: Geometry) -> int | None:
    """The best of the legal free starts, if the device may hold one more of this profile."""
    return best_start(geometry, profile, room.mask) if _free_starts(profile, room, geometry) else None


def _free_starts(profile: SliceProfile, room: DeviceRoom, geometry: Geometry) -> list[int]:
    left = geometry.compute_slices - room.compute_slices
    if profile.compute_slices > left or room.instances.get(profile.name, 0) >= profile.max_instances:
        return []
    return free_starts(profile, room.mask)


def largest_free(room: DeviceRoom, mode: ShareMode) -> int:
    """Memory of the largest slice that this device could still give in `mode`, in MiB."""
    geometry = room.profile.geometry(mode)
    if geometry is None:
        return room.memory_mib if mode is not ShareMode.EXCLUSIVE or room.empty else 0
    if room.empty:
        return max(profile.memory_mib for profile in geometry.profiles)
    return max((one.memory_mib for one in geometry.profiles if _free_starts(one, room, geometry)), default=0)
