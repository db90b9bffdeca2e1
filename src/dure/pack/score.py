"""What a seat costs on a live node: the same prices as the array code, read off a `NodeRoom`. Called by `packer`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.cluster import Pod, Slice
from dure.model.units import WHOLE_MILLI
from dure.pack.codes import CUT0, ISOLATION_PRICE, SWITCH_PRICE, WHOLE
from dure.pack.plain import PlainNode, PlainTables, potential, pull
from dure.pack.room import DeviceRoom, NodeRoom

_CUT = (ShareMode.MIG, ShareMode.VNPU)


class Scorer(msgspec.Struct, frozen=True):
    """Prices and the order of classes they were made for."""

    tables: PlainTables
    classes: tuple[str, ...]

    def costs(self, pod: Pod, room: NodeRoom, seats: Sequence[tuple[Slice, ...]]) -> list[int]:
        """Millionths of a device for each seat on one node; smaller is better. The room is as before on return."""
        before = potential(self.tables, self.node(room))
        found = []
        for parts in seats:
            changes = sum(self._upkeep(pod, room.devices[part.device], part) for part in parts)
            with room.tried(pod, parts):
                after = self.node(room)
            found.append(potential(self.tables, after) - before + pull(self.tables, after) + changes)
        return found

    def node(self, room: NodeRoom) -> PlainNode:
        devices = tuple(room.devices.values())
        name = devices[0].device.class_name if devices else ""
        typ = self.classes.index(name) if name in self.classes else 0
        widest = len(self.tables.rates[0][0]) - 2
        codes = tuple(code_of(device) for device in devices[:widest])
        return PlainNode(room.cpu_milli, room.memory_mib, typ, codes)

    def _upkeep(self, pod: Pod, device: DeviceRoom, part: Slice) -> int:
        """A change of mode costs a drain and a restart of the sharing; a fence costs the neighbours."""
        scal = self.tables.scal
        cost = 0
        if device.mode is not part.mode and ShareMode.EXCLUSIVE not in (device.mode, part.mode):
            cost += scal[SWITCH_PRICE]
        elif device.mode is not part.mode:
            cost += scal[SWITCH_PRICE] // 4
        if pod.isolation.walls_devices and device.empty:
            cost += scal[ISOLATION_PRICE]
        return cost


def code_of(room: DeviceRoom) -> int:
    """The device's state as one number; see `kernels`. A device that is ill has nothing to give."""
    if not room.device.healthy:
        return 0
    if room.empty:
        return WHOLE
    geometry = room.profile.geometry(room.mode) if room.mode in _CUT else None
    if geometry is not None and geometry.slots <= 8:
        return CUT0 + room.mask
    if room.mode is ShareMode.EXCLUSIVE:
        return 0
    memory = room.memory_mib * WHOLE_MILLI // max(1, room.profile.memory_mib)
    return max(0, min(room.compute_milli, memory, WHOLE))
