"""One room as rows of the arrays: what `board` writes whenever a room has changed. O(devices of the node)."""

from __future__ import annotations

from typing import NamedTuple

from dure.model.units import WHOLE_MILLI
from dure.pack.asking import CODES, regular
from dure.pack.codes import CUT, EXCLUSIVE, WHOLE
from dure.pack.room import DeviceRoom, NodeRoom
from dure.pack.score import code_of
from dure.pack.slots import MEDIA

# Nobody has this number, so nobody shares a device on which a fence and strangers are found together.
NOBODY = 1 << 30
# Slices of a cut device are counted by their slots alone.
_NO_LIMIT = 1 << 14
_MOST_LINKS = 256


class Written(NamedTuple):
    """Rows of the devices; `odd` if the arrays cannot tell what fits here, so that it has to be looked at itself."""

    devices: list[tuple[int, ...]]
    odd: bool


class Tenants:
    """Numbers of tenants, from 2 on; 1 is everybody who never asked for a device of their own."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._walling: set[str] = set()

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 2)

    def walls(self, name: str) -> None:
        self._walling.add(name)

    def asking(self, name: str) -> int:
        return self.number(name) if name in self._walling else 1


def written(room: NodeRoom, tenants: Tenants) -> Written:
    links: dict[int, int] = {}
    rows = []
    devices = tuple(room.devices.values())
    odd = room.walled > 0 or any(one.device.class_name != devices[0].device.class_name for one in devices)
    offered = 0
    for mode in room.node.share:
        offered |= 1 << CODES[mode]
        odd = odd or any(not regular(one.profile, mode) for one in devices[:1])
    for one in devices:
        link = links.setdefault(one.device.link_group, len(links))
        rows.append(_row(one, offered, link, tenants))
        odd = odd or (not one.empty and _strange(one))
    return Written(rows, odd or len(links) > _MOST_LINKS)


def _strange(one: DeviceRoom) -> bool:
    """Shared in a way that the arrays have no column for."""
    if not regular(one.profile, one.mode):
        return True
    geometry = one.profile.geometry(one.mode)
    if geometry is None:
        return False
    return any(MEDIA in name or geometry.profile(name) is None for name in one.instances)


def _row(one: DeviceRoom, offered: int, link: int, tenants: Tenants) -> tuple[int, ...]:
    """In the order of `codes.D_CODE..D_BLANK`; a device that is ill offers nothing."""
    mode, clients, total = CODES[one.mode], one.clients, one.profile.memory_mib
    limit = _NO_LIMIT if mode == CUT else one.profile.clients(one.mode)
    left = one.memory_mib, one.bandwidth_milli, one.compute_milli
    shade = 0
    if clients and mode in (CUT, EXCLUSIVE):
        # As `commit.change` leaves them; what tells such devices apart besides their slots is only compared.
        shade = hash(left) & 0x7FFFFFFF
        left = total, WHOLE_MILLI, WHOLE_MILLI
    return (
        code_of(one), left[0], left[1], clients, limit, mode, mode, offered if one.device.healthy else 0,
        _owner(one, tenants), shade, link, left[2], total, WHOLE,
    )  # fmt: skip


def _owner(one: DeviceRoom, tenants: Tenants) -> int:
    if not one.tenants:
        return 0
    if len(one.tenants) > 1:
        return -NOBODY if one.walled else 0
    name = next(iter(one.tenants))
    if one.walled:
        tenants.walls(name)
    return -tenants.number(name) if one.walled else tenants.number(name)
