"""How many MIG devices a set of services needs: few slices for each rate, packed by MIG's own geometry.

For each service the best throughput of every slice size within its latency is known by measurement. The fewest slices
that reach its rate are an unbounded knapsack, O(S x sizes); instances are then packed largest first into the first
device where they still fit, tried over all legal placements. Three slices hold four of eight memory slots, so the
fewest slices are not always the fewest devices: other sizes are tried service by service while devices are saved.
Held against ParvaGPU's published plans by a test. Called by `dure advise mig`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

STARTS: dict[int, tuple[tuple[int, ...], int]] = {
    7: ((0,), 8),
    4: ((0,), 4),
    3: ((0, 4), 4),
    2: ((0, 2, 4), 2),
    1: ((0, 1, 2, 3, 4, 5, 6), 1),
}
"""Where an instance of so many slices may begin on an A100's or H100's eight memory slots, and how many it takes."""
SLICES = 7
SUBSETS = tuple(left_out for many in (1, 2, 3, 4) for left_out in combinations(STARTS, many))


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One instance of so many slices reached this rate at this latency, with some batch and number of processes."""

    slices: int
    rate: float
    latency_ms: float


class Service(msgspec.Struct, frozen=True):
    """`rates` is the best rate of one instance by its number of slices, within the latency that was promised."""

    name: str
    rate: float
    rates: dict[int, float]


class Seat(msgspec.Struct, frozen=True):
    """An instance of a service on a device."""

    service: str
    slices: int


def best_rates(measured: Iterable[Measured], limit_ms: float) -> dict[int, float]:
    """By slices: the best rate of all that was measured within `limit_ms`."""
    found: dict[int, float] = {}
    for one in measured:
        if one.latency_ms <= limit_ms and one.rate > found.get(one.slices, 0.0):
            found[one.slices] = one.rate
    return found


def fewest(service: Service) -> tuple[int, ...]:
    """Sizes of the instances that reach the rate with the fewest slices, largest first.

    Raises `ValueError` when no size can answer in time.
    """
    if not service.rates:
        raise ValueError(f"no instance answers {service.name} in time")
    most = max(rate / size for size, rate in service.rates.items())
    reach: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for total in range(1, math.ceil(service.rate / most) + 2 * SLICES + 1):
        options = [
            (reach[total - size][0] + rate, (*reach[total - size][1], size))
            for size, rate in sorted(service.rates.items())
            if size <= total
        ]
        reach.append(max([reach[-1], *options], key=lambda option: option[0]))
        if reach[-1][0] >= service.rate:
            return tuple(sorted(reach[-1][1], reverse=True))
    raise AssertionError("unreachable: the best size alone reaches the rate")


def devices(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The instances of each device: first fit, largest first."""
    packed: list[tuple[int, ...]] = []
    for size in sorted(sizes, reverse=True):
        for at, held in enumerate(packed):
            if fits((*held, size)):
                packed[at] = (*held, size)
                break
        else:
            packed.append((size,))
    return packed


def fits(sizes: Sequence[int], taken: int = 0) -> bool:
    """Whether some legal placement holds all of them on one device."""
    if sum(sizes) > SLICES:
        return False
    if not sizes:
        return True
    starts, width = STARTS[sizes[0]]
    for start in starts:
        mask = ((1 << width) - 1) << start
        if not taken & mask and fits(sizes[1:], taken | mask):
            return True
    return False


def plan(services: Sequence[Service]) -> tuple[tuple[Seat, ...], ...]:
    """Devices for all services: few of them, and of equal plans the one that takes and wastes the fewest slices."""
    choices = [_choices(service) for service in services]
    chosen = [options[0] for options in choices]
    best = _pack(chosen)
    improved = True
    while improved:
        improved = False
        for at, options in enumerate(choices):
            for option in options:
                tried = _pack([*chosen[:at], option, *chosen[at + 1 :]])
                if _size(tried) < _size(best):
                    chosen[at], best, improved = option, tried, True
    return _seated(services, chosen, best)


def _seated(
    services: Sequence[Service], chosen: Sequence[tuple[int, ...]], packed: Sequence[tuple[int, ...]]
) -> tuple[tuple[Seat, ...], ...]:
    """Instances of one size are alike: each seat goes to the next service that wants its size."""
    wanting = {
        size: [s.name for s, sizes in zip(services, chosen, strict=True) for one in sizes if one == size]
        for size in STARTS
    }
    return tuple(tuple(Seat(wanting[size].pop(0), size) for size in held) for held in packed)


def _choices(service: Service) -> list[tuple[int, ...]]:
    """Ways to reach the rate, each the best within some of the sizes; the best of all comes first."""
    found = [fewest(service)]
    for left_out in SUBSETS:
        rates = {size: rate for size, rate in service.rates.items() if size not in left_out}
        if rates:
            found.append(fewest(msgspec.structs.replace(service, rates=rates)))
    return list(dict.fromkeys(found))


def _pack(chosen: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return devices([size for sizes in chosen for size in sizes])


def _size(packed: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    wasted = sum(held.count(3) == 2 for held in packed)
    return len(packed), sum(map(sum, packed)) + wasted
