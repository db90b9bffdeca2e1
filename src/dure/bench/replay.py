"""A fleet of regions in quarter-hour slots: jobs arrive, a policy reserves room for them, money and carbon count.

Used by `bench place`. All policies book in the same reservation table and know the same lengths, so that only their
choice differs. A job that cannot start before its latest start still runs, late, as early as its policy finds room.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numba import njit

from dure.bench.demand import running_sum
from dure.place.instance import Bools, Floats, Ints, Longs

SLOTS_PER_HOUR = 4


class Jobs(msgspec.Struct, frozen=True):
    """Sorted by arrival; all in slots. `latest` is the last start that keeps the deadline."""

    arrival: Longs
    length: Longs
    width: Longs
    latest: Longs


class Fleet(msgspec.Struct, frozen=True):
    """Price (USD) and grams of one device-slot, by region and slot; devices of each region."""

    price: Floats
    grams: Floats
    devices: int

    @property
    def regions(self) -> int:
        return len(self.price)


class Outcome(msgspec.Struct, frozen=True):
    """`start` is when each job began first, `region` where it ended; `paid` is each job's part of the money."""

    money: float
    grams: float
    missed: int
    waited_slots: float
    region: Longs
    start: Longs
    paid: Floats
    late: Bools
    moves: int = 0
    pauses: int = 0


# (job, slot, earliest start of each region, devices free in each region now) -> region
Pick = Callable[[int, int, Longs, Ints], int]


def by_rule(jobs: Jobs, fleet: Fleet, pick: Pick) -> Outcome:
    """A policy that names a region when a job arrives; the job starts there as soon as there is room."""
    free = np.full(fleet.price.shape, fleet.devices, np.int32)
    region, start = np.empty(len(jobs.arrival), np.int64), np.empty(len(jobs.arrival), np.int64)
    for j in range(len(jobs.arrival)):
        slot, length, width = int(jobs.arrival[j]), int(jobs.length[j]), int(jobs.width[j])
        earliest = earliest_all(free, slot, length, width)
        region[j] = pick(j, slot, earliest, free[:, slot])
        start[j] = earliest[region[j]]
        free[region[j], start[j] : start[j] + length] -= width
    return outcome(jobs, fleet, region, start)


def greenest_wait(jobs: Jobs, fleet: Fleet, home: int) -> Outcome:
    """Wait awhile: stay at home, start in the greenest slot before the latest start."""
    free = np.full(fleet.price.shape, fleet.devices, np.int32)
    running = running_sum(fleet.grams)[home : home + 1]
    start = _shifted(free[home : home + 1], running, jobs.arrival, jobs.length, jobs.width, jobs.latest)[1]
    return outcome(jobs, fleet, np.full(len(start), home), start)


def outcome(jobs: Jobs, fleet: Fleet, region: Longs, start: Longs) -> Outcome:
    money, grams = running_sum(fleet.price), running_sum(fleet.grams)
    end, late = start + jobs.length, start > jobs.latest
    paid = jobs.width * (money[region, end] - money[region, start])
    return Outcome(
        money=float(paid.sum()),
        grams=float((jobs.width * (grams[region, end] - grams[region, start])).sum()),
        missed=int(late.sum()),
        waited_slots=float((start - jobs.arrival).mean()),
        region=region,
        start=start,
        paid=paid,
        late=late,
    )


@njit(cache=True)
def first_room(free, region, slot, length, width):  # type: ignore[no-untyped-def]
    """First slot from which `width` devices stay free for `length` slots."""
    start = slot
    at = slot
    while at < start + length and at < free.shape[1]:
        if free[region, at] < width:
            start = at + 1
        at += 1
    return start


@njit(cache=True)
def earliest_all(free, slot, length, width):  # type: ignore[no-untyped-def]
    found = np.empty(free.shape[0], np.int64)
    for region in range(free.shape[0]):
        found[region] = first_room(free, region, slot, length, width)
    return found


@njit(cache=True)
def _cheapest(free, running, slot, latest, length, width):  # type: ignore[no-untyped-def]
    best, at_region, at_start = np.inf, -1, -1
    for region in range(free.shape[0]):
        start = first_room(free, region, slot, length, width)
        while start <= latest:
            cost = running[region, start + length] - running[region, start]
            if cost < best - 1e-12:
                best, at_region, at_start = cost, region, start
            start = first_room(free, region, start + 1, length, width)
    return at_region, at_start


@njit(cache=True)
def _shifted(free, running, arrival, length, width, latest):  # type: ignore[no-untyped-def]
    region, start = np.zeros(len(arrival), np.int64), np.zeros(len(arrival), np.int64)
    for j in range(len(arrival)):
        region[j], start[j] = _cheapest(free, running, arrival[j], latest[j], length[j], width[j])
        if region[j] < 0:
            region[j], start[j] = 0, first_room(free, 0, arrival[j], length[j], width[j])
        for at in range(start[j], start[j] + length[j]):
            free[region[j], at] -= width[j]
    return region, start
