"""When would each job of a queue start and end: Kueue's BestEffortFIFO played forward.

A waiting job starts as soon as it fits, in order; one that does not fit is passed by those behind it that do. Jobs
that ask for the same are served in order, so only the heads of the distinct shapes are looked at:
O((running + waiting) x shapes x log running).
"""

from __future__ import annotations

import bisect
import heapq
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from dure.model.units import Instant
from dure.route.amounts import Amounts, fits
from dure.route.situation import Lane, Waiting

NEVER = float("inf")


class Span:
    """When a job starts and ends, as far as can be foreseen."""

    __slots__ = ("finish_s", "start_s")

    def __init__(self, start_s: Instant, finish_s: Instant) -> None:
        self.start_s = start_s
        self.finish_s = finish_s


def insert(lane: Lane, job: Waiting) -> Lane:
    """The lane with one more waiting job at the place its rank gives it; equal ranks keep their order."""
    place, rank = len(lane.waiting), lane.rank
    while place and rank(lane.waiting[place - 1]) > rank(job):
        place -= 1
    return replace(lane, waiting=(*lane.waiting[:place], job, *lane.waiting[place:]))


def without(lane: Lane, name: str) -> Lane:
    return replace(lane, waiting=tuple(job for job in lane.waiting if job.name != name))


def span_of(lane: Lane, job: Waiting, now_s: Instant) -> Span:
    """When this one would start and end if it entered now; only those ahead of it are played."""
    slots = slots_of(lane, (job.demand,))
    if not slots:
        return forecast(insert(lane, job), now_s, job.name)[job.name]
    rank = lane.rank
    ahead = bisect.bisect_right(lane.waiting, rank(job), key=rank)
    slower, begin = crowding(lane, len(lane.waiting) + 1), now_s + lane.hidden_s
    free = [max(begin, held.until_s(now_s, slower)) for held in lane.running]
    free += [begin] * (slots - len(free))
    heapq.heapify(free)
    for one in lane.waiting[:ahead]:
        heapq.heapreplace(free, free[0] + one.run_s * slower)
    return Span(free[0], free[0] + job.run_s * slower)


def forecast(lane: Lane, now_s: Instant, until: str = "") -> dict[str, Span]:
    """A span for every waiting job; `until` stops once that job is known. A job that can never fit ends never."""
    return play(lane, now_s, lane.waiting, until)


def play(lane: Lane, now_s: Instant, waiting: Iterable[Waiting], until: str = "") -> dict[str, Span]:
    spans: dict[str, Span] = {}
    waiting = tuple(waiting)
    shapes, heads = _by_shape(waiting)
    slower = crowding(lane, len(waiting))
    free = dict(lane.capacity)
    ends: list[tuple[Instant, int, Amounts]] = []
    for number, held in enumerate(lane.running):
        for name, amount in held.demand.items():
            free[name] = free.get(name, 0) - amount
        ends.append((held.until_s(now_s, slower), number, held.demand))
    heapq.heapify(ends)
    number = len(ends)
    clock = now_s + lane.hidden_s
    _release(ends, free, clock)
    while heads:
        place = _next(shapes, heads, free)
        if place is None:
            if not ends:
                break
            clock = max(clock, ends[0][0])
            _release(ends, free, clock)
            continue
        job = shapes[place].popleft()[1]
        if not shapes[place]:
            heads.remove(place)
        span = Span(clock, clock + job.run_s * slower)
        spans[job.name] = span
        if job.name == until:
            return spans
        for name, amount in job.demand.items():
            free[name] -= amount
        heapq.heappush(ends, (span.finish_s, number, job.demand))
        number += 1
    for place in heads:
        for _, job in shapes[place]:
            spans[job.name] = Span(NEVER, NEVER)
    return spans


def crowding(lane: Lane, waiting: int) -> float:
    """How much longer everything takes when so many wait: nobody knows who will share a node with whom, so all do."""
    return lane.slowdown if lane.quiet and len(lane.running) + waiting > lane.quiet else 1.0


def slots_of(lane: Lane, entering: Iterable[Amounts]) -> int:
    """How many jobs run at once, if all ask for the same; else 0."""
    demands = [one.demand for one in lane.running]
    demands += [one.demand for one in lane.waiting]
    demands += entering
    # A backlog of hundreds mostly asks for the very same; only what differs as it is written is looked at closely.
    shape = _asked(demands[0]) if demands else {}
    first = demands[0] if demands else {}
    if any(demand is not first and demand != first and _asked(demand) != shape for demand in demands):
        return 0
    if not shape:
        return 0
    slots = min(lane.capacity.get(name, 0) // amount for name, amount in shape.items())
    return slots if len(lane.running) <= slots else 0


def _asked(demand: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in demand.items() if amount}


def _by_shape(waiting: Iterable[Waiting]) -> tuple[list[deque[tuple[int, Waiting]]], list[int]]:
    known: dict[tuple[tuple[str, int], ...], int] = {}
    shapes: list[deque[tuple[int, Waiting]]] = []
    for order, job in enumerate(waiting):
        shape = tuple(job.demand.items())
        if shape not in known:
            known[shape] = len(shapes)
            shapes.append(deque())
        shapes[known[shape]].append((order, job))
    return shapes, list(range(len(shapes)))


def _next(shapes: list[deque[tuple[int, Waiting]]], heads: list[int], free: Amounts) -> int | None:
    """The shape whose head is first in the queue among those that fit now."""
    best: int | None = None
    for place in heads:
        order, job = shapes[place][0]
        if (best is None or order < shapes[best][0][0]) and fits(job.demand, free):
            best = place
    return best


def _release(ends: list[tuple[Instant, int, Amounts]], free: dict[str, int], clock: Instant) -> None:
    while ends and ends[0][0] <= clock:
        for name, amount in heapq.heappop(ends)[2].items():
            free[name] = free.get(name, 0) + amount
