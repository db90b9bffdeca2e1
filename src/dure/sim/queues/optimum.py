"""The shortest makespan that anybody could reach who knew every job ahead: an exact integer program on HiGHS.

Played backwards a schedule has no idle time: seen from its end H, every job is there at once and must be over
`H - arrival` later, so all starts are sums of run times and jobs of one kind are counted, not told apart. Whether
an end H can be reached is then a small time-indexed program; the least H is found by bisection over the only values
it can take (an arrival plus a sum of run times). The order within a queue is free, so no policy can do better.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping, Sequence
from typing import Any

import highspy
import msgspec
import numpy as np

from dure.model.units import Seconds
from dure.sim.queues.mix import Mix

_MS = 1000
_LARGEST = 60_000
_PATIENCE = 3.0
_INFEASIBLE = highspy.HighsModelStatus.kInfeasible
_OPTIMAL = highspy.HighsModelStatus.kOptimal


class Optimum(msgspec.Struct, frozen=True):
    """`makespan_s` is reachable; nothing below `bound_s` is. They are equal when the optimum is proven."""

    makespan_s: Seconds
    bound_s: Seconds

    @property
    def proven(self) -> bool:
        return self.makespan_s - self.bound_s < 1e-6


class _Kind(msgspec.Struct, frozen=True):
    """Jobs with the same run times, their arrivals in order, everything in milliseconds."""

    run: Mapping[str, int]
    arrivals: tuple[int, ...]


def optimum(mix: Mix, reached_s: Seconds, limit_s: Seconds = 20.0) -> Optimum:
    """`reached_s` is the best makespan seen in a run: the search goes below it only.

    A step may take `limit_s`, all of them `_PATIENCE` times that; what is not proven by then is told as not proven.
    """
    kinds = _kinds(mix)
    slots = {name: queue.slots for name, queue in mix.queues.items()}
    ceiling = round(reached_s * _MS)
    floor = max(max(kind.arrivals) + min(kind.run.values()) for kind in kinds)
    sums = {name: _sums(kinds, name, ceiling) for name in slots}
    if sum(len(sums[name]) for kind in kinds for name in kind.run) > _LARGEST:
        return Optimum(reached_s, min(floor, ceiling) / _MS)
    stop_s = time.monotonic() + _PATIENCE * limit_s

    def left_s() -> Seconds:
        return max(0.01, min(limit_s, stop_s - time.monotonic()))

    ends = sorted({end for kind in kinds for at in kind.arrivals for name in slots for end in _after(at, sums[name])})
    ends = [end for end in ends if floor <= end < ceiling]
    lowest = _first(ends, 0, lambda end: _reachable(kinds, slots, sums, end, 0.0, left_s()) is not False)
    refuted = [lowest - 1]

    def possible(end: int) -> bool:
        answer = _reachable(kinds, slots, sums, end, 1.0, left_s())
        if answer is False:
            refuted.append(bisect.bisect_left(ends, end))
        return answer is True

    place = _first(ends, lowest, possible)
    best = ends[place] if place < len(ends) else ceiling
    # An end that was not settled in time says nothing of those below it, which are then not tried.
    unsettled = max(refuted) + 1
    bound = min(best, ends[unsettled]) if unsettled < len(ends) else best
    return Optimum(best / _MS if place < len(ends) else reached_s, bound / _MS)


def _kinds(mix: Mix) -> list[_Kind]:
    first = min(job.arrival_s for job in mix.jobs)
    grouped: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for job in mix.jobs:
        run = tuple(sorted((name, max(1, round(seconds * _MS))) for name, seconds in job.run_s.items()))
        grouped.setdefault(run, []).append(round((job.arrival_s - first) * _MS))
    return [_Kind(dict(run), tuple(sorted(arrivals))) for run, arrivals in sorted(grouped.items())]


def _sums(kinds: Sequence[_Kind], queue: str, ceiling: int) -> list[int]:
    """Every time at which a job can start, seen from the end: sums of run times in this queue; too many end it."""
    found = {0}
    for kind in kinds:
        run = kind.run.get(queue)
        if run is None:
            continue
        for start in sorted(found):
            for count in range(1, len(kind.arrivals) + 1):
                at = start + count * run
                if at >= ceiling:
                    break
                found.add(at)
        if len(found) > _LARGEST:
            break
    return sorted(found)


def _after(arrival: int, sums: Sequence[int]) -> list[int]:
    return [arrival + one for one in sums]


def _first(ends: Sequence[int], start: int, holds: Any) -> int:
    """Bisection: the first place from `start` where `holds`, or one past the end."""
    low, high = start, len(ends)
    while low < high:
        middle = (low + high) // 2
        if holds(ends[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def _reachable(
    kinds: Sequence[_Kind],
    slots: Mapping[str, int],
    sums: Mapping[str, Sequence[int]],
    end: int,
    whole: float,
    limit_s: Seconds,
) -> bool | None:
    """Can all be over by `end`? With `whole` 0 jobs may be split, which only ever answers no. None: out of time."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(limit_s))
    columns = [
        (number, queue, start)
        for number, kind in enumerate(kinds)
        for queue, run in kind.run.items()
        for start in sums[queue]
        if start + run <= end - kind.arrivals[0]
    ]
    if not columns:
        return False
    upper = np.array([float(len(kinds[number].arrivals)) for number, _, _ in columns])
    solver.addVars(len(columns), np.zeros(len(columns)), upper)
    if whole:
        kind_of = np.full(len(columns), highspy.HighsVarType.kInteger)
        solver.changeColsIntegrality(len(columns), np.arange(len(columns), dtype=np.int32), kind_of)
    _all_in_time(solver, kinds, columns, end)
    _within_slots(solver, kinds, columns, slots, sums)
    solver.run()
    status = solver.getModelStatus()
    return True if status == _OPTIMAL else False if status == _INFEASIBLE else None


def _all_in_time(solver: Any, kinds: Sequence[_Kind], columns: Sequence[tuple[int, str, int]], end: int) -> None:
    """By `end - arrival`, counted from the end, as many of a kind must be over as have arrived no earlier."""
    for number, kind in enumerate(kinds):
        own = [
            (start + kind.run[queue], place) for place, (which, queue, start) in enumerate(columns) if which == number
        ]
        own.sort()
        over = [at for at, _ in own]
        places = np.array([place for _, place in own], dtype=np.int32)
        for later, arrival in enumerate(reversed(kind.arrivals), 1):
            count = bisect.bisect_right(over, end - arrival)
            solver.addRow(float(later), highspy.kHighsInf, count, places[:count], np.ones(count))
        total = len(kind.arrivals)
        solver.addRow(float(total), float(total), len(places), places, np.ones(len(places)))


def _within_slots(
    solver: Any,
    kinds: Sequence[_Kind],
    columns: Sequence[tuple[int, str, int]],
    slots: Mapping[str, int],
    sums: Mapping[str, Sequence[int]],
) -> None:
    for queue, count in slots.items():
        own = [
            (place, start, start + kinds[number].run[queue])
            for place, (number, q, start) in enumerate(columns)
            if q == queue
        ]
        if not own:
            continue
        places = np.array([place for place, _, _ in own], dtype=np.int32)
        begins = np.array([start for _, start, _ in own])
        ends = np.array([stop for _, _, stop in own])
        for at in sums[queue]:
            active = places[(begins <= at) & (ends > at)]
            if len(active) > 0:
                solver.addRow(-highspy.kHighsInf, float(count), len(active), active, np.ones(len(active)))
