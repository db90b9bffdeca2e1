"""Which free units a container should get: near each other, and so that large groups stay whole for others.

Called when the kubelet asks for a preference. Units of one device come first, then of one link group (devices with a
fast connection between them); among those that suffice the fullest is taken (best fit). O(n log n).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dure.device.plugin.node import Unit


def preferred(
    known: Mapping[str, Unit], available: Sequence[str], must_include: Sequence[str], size: int
) -> tuple[str, ...]:
    """`size` ids, with all of `must_include`; ids this node does not know are never preferred."""
    chosen = [one for one in dict.fromkeys(must_include) if one in known][:size]
    free = sorted({one for one in available if one in known} - set(chosen), key=lambda one: _order(known[one]))
    while len(chosen) < size and free:
        taken = _next(known, free, chosen, size - len(chosen))
        chosen += taken
        free = [one for one in free if one not in taken]
    return tuple(chosen)


def _next(known: Mapping[str, Unit], free: Sequence[str], chosen: Sequence[str], missing: int) -> list[str]:
    groups = _groups(known, free, _group)
    near = {_group(known[one]) for one in chosen}
    beside = {_device(known[one]) for one in chosen}

    def rank(members: list[str]) -> tuple[bool, bool, int, int]:
        unit = known[members[0]]
        return _device(unit) not in beside, _group(unit) not in near, len(groups[_group(unit)]), len(members)

    for found in (_groups(known, free, _device), groups):
        enough = [members for members in found.values() if len(members) >= missing]
        if enough and (not near or any(_group(known[members[0]]) in near for members in enough)):
            return min(enough, key=rank)[:missing]
    # No group suffices: empty the one that is joined already, or that has most.
    return max(groups.values(), key=lambda members: (_group(known[members[0]]) in near, len(members)))[:missing]


def _groups(
    known: Mapping[str, Unit], free: Sequence[str], key: Callable[[Unit], str | int]
) -> dict[str | int, list[str]]:
    found: dict[str | int, list[str]] = {}
    for one in free:
        found.setdefault(key(known[one]), []).append(one)
    return found


def _device(unit: Unit) -> str:
    return unit.device.name


def _group(unit: Unit) -> int:
    return unit.device.link_group


def _order(unit: Unit) -> tuple[int, str, int]:
    return unit.device.link_group, unit.device.name, unit.index
