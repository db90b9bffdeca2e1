"""A fleet of regions in quarter-hour slots: jobs arrive, a policy reserves room for them, money and carbon count.

Used by `bench place`. All policies book in the same reservation table and know the same lengths, so that only their
choice differs. A job that cannot start before its latest start still runs, late, as early as its policy finds room.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numba import njit

from dure.bench.demand import assembled, running_sum
from dure.place.instance import Floats, Ints, Longs
from dure.place.ruin import improve
from dure.place.solver import Search

SLOTS_PER_HOUR = 4
REPLAN_EVERY = SLOTS_PER_HOUR
HOLD_FACTOR = 20.0
# A job that would come late is worth this many times the usual search for room among those who wait.
RESCUE = 15


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
    money: float
    grams: float
    missed: int
    waited_slots: float
    region: Longs
    start: Longs


# (job, slot, earliest start of each region, devices free in each region now) -> region
Pick = Callable[[int, int, Longs, Ints], int]


def by_rule(jobs: Jobs, fleet: Fleet, pick: Pick) -> Outcome:
    """A policy that names a region when a job arrives; the job starts there as soon as there is room."""
    free = np.full(fleet.price.shape, fleet.devices, np.int32)
    region, start = np.empty(len(jobs.arrival), np.int64), np.empty(len(jobs.arrival), np.int64)
    for j in range(len(jobs.arrival)):
        slot, length, width = int(jobs.arrival[j]), int(jobs.length[j]), int(jobs.width[j])
        earliest = _earliest_all(free, slot, length, width)
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


def jointly(jobs: Jobs, fleet: Fleet, usd_per_gram: float, iterations: int, seed: int) -> Outcome:
    """Ours: region and start together, by price + carbon price; those who still wait are planned anew every hour."""
    # Ties in price go to the greener slot: a gram always weighs something.
    steer = fleet.price + max(usd_per_gram, 1e-9) * fleet.grams
    return _Planner(jobs, fleet, running_sum(steer), iterations, seed).run()


class _Planner:
    def __init__(self, jobs: Jobs, fleet: Fleet, running: Floats, iterations: int, seed: int) -> None:
        self.jobs, self.fleet, self.running, self.iterations, self.seed = jobs, fleet, running, iterations, seed
        self.free = np.full(fleet.price.shape, fleet.devices, np.int32)
        self.region = np.full(len(jobs.arrival), -1, np.int64)
        self.start = np.full(len(jobs.arrival), -1, np.int64)
        self.waiting: list[int] = []
        self.dearest = float(np.diff(running, axis=1).max())

    def run(self) -> Outcome:
        planned_at = 0
        for j in range(len(self.jobs.arrival)):
            slot = int(self.jobs.arrival[j])
            if slot - planned_at >= REPLAN_EVERY:
                self._replan(slot, [])
                planned_at = slot
            if not self._insert(j, slot) and not self._replan(slot, [j]):
                self._insert_late(j, slot)
            if self.start[j] > slot:
                self.waiting.append(j)
        return outcome(self.jobs, self.fleet, self.region, self.start)

    def _insert(self, j: int, slot: int) -> bool:
        jobs = self.jobs
        region, start = _cheapest(
            self.free, self.running, slot, int(jobs.latest[j]), int(jobs.length[j]), int(jobs.width[j])
        )
        if region < 0:
            return False
        self._book(j, region, start)
        return True

    def _insert_late(self, j: int, slot: int) -> None:
        earliest = _earliest_all(self.free, slot, int(self.jobs.length[j]), int(self.jobs.width[j]))
        self._book(j, int(np.argmin(earliest)), int(earliest.min()))

    def _book(self, j: int, region: int, start: int) -> None:
        self.region[j], self.start[j] = region, start
        self.free[region, start : start + self.jobs.length[j]] -= self.jobs.width[j]

    def _unbook(self, j: int) -> None:
        self.free[self.region[j], self.start[j] : self.start[j] + self.jobs.length[j]] += self.jobs.width[j]

    def _replan(self, slot: int, fresh: list[int]) -> bool:
        """Plan anew all that have not started and still have a choice; True if the fresh ones got in."""
        jobs = self.jobs
        self.waiting = [j for j in self.waiting if self.start[j] > slot]
        moving = np.array([j for j in self.waiting if jobs.latest[j] >= self.start[j]] + fresh, np.int64)
        if len(moving) < 2:
            return False
        for j in moving:
            if self.start[j] >= 0:
                self._unbook(j)
        chosen, region, start = self._improved(moving, slot, RESCUE if fresh else 1)
        for at, j in enumerate(moving):
            if chosen[at] >= 0:
                self._book(j, int(region[at]), int(start[at]))
        return bool((chosen >= 0).all())

    def _improved(self, moving: Longs, slot: int, effort: int) -> tuple[Longs, Longs, Longs]:
        jobs = self.jobs
        length, width = jobs.length[moving], jobs.width[moving]
        slack = jobs.latest[moving] - slot
        last = int((slack + length).max()) + 1
        running = self.running[:, slot : slot + last + 1]
        capacity = np.ascontiguousarray(self.free[:, slot : slot + last, None])
        hold = (HOLD_FACTOR * self.dearest * width * length).astype(np.float64)
        inst = assembled(np.zeros_like(slack), length, width, slack, running - running[:, :1], capacity, hold)
        begin = np.full(len(moving), -1, np.int64)
        for at, j in enumerate(moving):
            if self.start[j] >= 0:
                begin[at] = inst.first[at] + self.region[j] * (slack[at] + 1) + self.start[j] - slot
        search = Search(iterations_per_job=effort * self.iterations)
        chosen = improve(inst, begin, np.zeros(inst.options), search, self.seed)
        placed = np.maximum(chosen, 0)
        return chosen, inst.option[placed, 0].astype(np.int64), inst.option[placed, 2].astype(np.int64) + slot


def outcome(jobs: Jobs, fleet: Fleet, region: Longs, start: Longs) -> Outcome:
    money, grams = running_sum(fleet.price), running_sum(fleet.grams)
    end = start + jobs.length
    return Outcome(
        money=float((jobs.width * (money[region, end] - money[region, start])).sum()),
        grams=float((jobs.width * (grams[region, end] - grams[region, start])).sum()),
        missed=int((start > jobs.latest).sum()),
        waited_slots=float((start - jobs.arrival).mean()),
        region=region,
        start=start,
    )


@njit(cache=True)
def _earliest(free, region, slot, length, width):  # type: ignore[no-untyped-def]
    """First slot from which `width` devices stay free for `length` slots."""
    start = slot
    at = slot
    while at < start + length:
        if free[region, at] < width:
            start = at + 1
        at += 1
    return start


@njit(cache=True)
def _earliest_all(free, slot, length, width):  # type: ignore[no-untyped-def]
    found = np.empty(free.shape[0], np.int64)
    for region in range(free.shape[0]):
        found[region] = _earliest(free, region, slot, length, width)
    return found


@njit(cache=True)
def _cheapest(free, running, slot, latest, length, width):  # type: ignore[no-untyped-def]
    best, at_region, at_start = np.inf, -1, -1
    for region in range(free.shape[0]):
        start = _earliest(free, region, slot, length, width)
        while start <= latest:
            cost = running[region, start + length] - running[region, start]
            if cost < best - 1e-12:
                best, at_region, at_start = cost, region, start
            start = _earliest(free, region, start + 1, length, width)
    return at_region, at_start


@njit(cache=True)
def _shifted(free, running, arrival, length, width, latest):  # type: ignore[no-untyped-def]
    region, start = np.zeros(len(arrival), np.int64), np.zeros(len(arrival), np.int64)
    for j in range(len(arrival)):
        region[j], start[j] = _cheapest(free, running, arrival[j], latest[j], length[j], width[j])
        if region[j] < 0:
            region[j], start[j] = 0, _earliest(free, 0, arrival[j], length[j], width[j])
        for at in range(start[j], start[j] + length[j]):
            free[region[j], at] -= width[j]
    return region, start
