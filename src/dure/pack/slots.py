"""Slices on the memory axis of one device (MIG, vNPU): which start to take, what a layout is still worth.

Read by `fit` (live) and by the tables of the array code, so that both cut a device the same way. Invariant: every
layout reached from an empty device is legal by the class's placement table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from dure.model.accelerator import Geometry, SliceProfile

MEDIA = "+me"


def free_starts(profile: SliceProfile, mask: int) -> list[int]:
    """Legal starts of the profile whose slots are all free."""
    return [start for start, bits in zip(profile.starts, profile.masks(), strict=True) if not mask & bits]


@lru_cache(maxsize=4096)
def best_start(geometry: Geometry, profile: SliceProfile, mask: int) -> int | None:
    """The start that keeps the largest other profile possible, then the most placements, then the lowest one."""
    width = (1 << profile.slots) - 1
    return max(
        free_starts(profile, mask),
        key=lambda start: (*prospects(geometry, mask | width << start), -start),
        default=None,
    )


@lru_cache(maxsize=4096)
def prospects(geometry: Geometry, mask: int) -> tuple[int, int]:
    """Compute slices of the largest profile that still has a place, and the slots of all placements still open."""
    largest, reach = 0, 0
    for profile in geometry.profiles:
        places = len(free_starts(profile, mask))
        if places:
            largest = max(largest, profile.compute_slices)
            reach += places * profile.slots
    return largest, reach


def steps(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    """For each profile and each occupied mask: the mask after the best start, -1 where there is none."""
    table = []
    for profile in geometry.profiles:
        width = (1 << profile.slots) - 1
        row = []
        for mask in range(1 << geometry.slots):
            start = best_start(geometry, profile, mask)
            row.append(-1 if start is None else mask | width << start)
        table.append(tuple(row))
    return tuple(table)


@lru_cache(maxsize=64)
def coverings(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    """Every list of profiles that may serve some demand, each from the smallest on; media engines are for nobody."""
    found = {
        covering(geometry, memory.memory_mib, compute.compute_milli)
        for memory in geometry.profiles
        for compute in geometry.profiles
    }
    return tuple(sorted(found - {()}))


@lru_cache(maxsize=4096)
def covering(geometry: Geometry, memory_mib: int, compute_milli: int) -> tuple[int, ...]:
    """The profiles that are large enough, by their numbers, the smallest first."""
    enough = [
        (profile.slots, profile.compute_slices, profile.name, index)
        for index, profile in enumerate(geometry.profiles)
        if profile.memory_mib >= memory_mib and profile.compute_milli >= compute_milli and MEDIA not in profile.name
    ]
    return tuple(index for *_, index in sorted(enough))


def cover_steps(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    """The same as `steps` for each of the `coverings`: the first profile of the list that has a place."""
    single, masks = steps(geometry), range(1 << geometry.slots)
    return tuple(
        tuple(next((single[i][mask] for i in cover if single[i][mask] >= 0), -1) for mask in masks)
        for cover in coverings(geometry)
    )


@lru_cache(maxsize=64)
def told_by_mask(geometry: Geometry) -> bool:
    """Whether the occupied slots alone say what still has a place: no count of slices forbids what they allow."""
    plain = {profile.name: profile for profile in geometry.profiles if MEDIA not in profile.name}
    for layout in layouts(geometry):
        if any(name not in plain for name, _ in layout):
            continue
        mask = sum(((1 << plain[name].slots) - 1) << start for name, start in layout)
        left = geometry.compute_slices - sum(plain[name].compute_slices for name, _ in layout)
        for profile in plain.values():
            count = sum(name == profile.name for name, _ in layout)
            if free_starts(profile, mask) and (profile.compute_slices > left or count >= profile.max_instances):
                return False
    return True


def layout_values(geometry: Geometry, demand: Mapping[int, float]) -> list[float]:
    """What each occupied mask is still worth, from 1 (empty) to 0: the best further placements, each profile weighed
    by the slots it takes and how much of the demand asks for it. An exact search over all layouts of one device."""
    total = sum(demand.values())
    weights = [
        profile.slots * (0.05 + (demand.get(index, 0.0) / total if total else 1.0))
        for index, profile in enumerate(geometry.profiles)
    ]
    values = [0.0] * (1 << geometry.slots)
    for mask in range((1 << geometry.slots) - 1, -1, -1):
        for profile, weight in zip(geometry.profiles, weights, strict=True):
            for bits in profile.masks():
                if not mask & bits:
                    values[mask] = max(values[mask], weight + values[mask | bits])
    full = values[0] or 1.0
    return [value / full for value in values]


def layouts(geometry: Geometry) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every legal layout as sorted (profile, start) pairs; at most one media-engine profile."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    stack: list[tuple[int, tuple[tuple[str, int], ...]]] = [(0, ())]
    while stack:
        mask, layout = stack.pop()
        if layout in seen:
            continue
        seen.add(layout)
        yield layout
        media = any(MEDIA in name for name, _ in layout)
        for profile in geometry.profiles:
            if media and MEDIA in profile.name:
                continue
            for start, bits in zip(profile.starts, profile.masks(), strict=True):
                if not mask & bits:
                    stack.append((mask | bits, tuple(sorted((*layout, (profile.name, start))))))
