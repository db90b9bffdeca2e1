"""When will it start, when will it end: ranges from how long such work really took, and from the queue before it.

Called by `plane.etas` for people and by `dure bench eta`. A duration is an estimate times a ratio whose past values
are known; a running workload's ratio is the middle one of those beyond what it has already used. A waiting one starts
when those before it leave room: the queue is played forward. How wide the ranges are follows from how wrong earlier
forecasts were, early and late apart (split conformal prediction), with a level that gives way when ranges fail too
often (adaptive conformal inference, Gibbs and Candes 2021): nine of ten hold whatever the distribution.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from dure.model.eta import Eta, Range
from dure.model.units import Instant, Seconds
from dure.place.instance import Floats

# Errors (logs) and ratios before anything is known: log-normal with this spread around one.
_SPREAD = 0.5
_PRIOR = tuple(_SPREAD * z for z in (-2.0, -1.2, -0.8, -0.5, -0.2, 0.0, 0.2, 0.5, 0.8, 1.2, 2.0))
# Beyond the longest that was ever seen, what is left grows with what was used.
_TAIL = (0.05, 0.3, 1.0, 3.0, 10.0)
KEPT = 512
_REMEMBERED = 200
_PACE = 0.05
# A minute more or less is no error.
_SOON_S = 60.0


class Errors:
    """How wrong forecasts of one kind were: log of real over expected time to go, newest last."""

    def __init__(self, known: Sequence[float] = ()) -> None:
        self._newest: deque[float] = deque(known, maxlen=_REMEMBERED)
        self._sorted: Floats | None = None
        self._inner, self._outer = 0.25, 0.05

    def add(self, said: Range, came_s: Instant, now_s: Instant) -> None:
        """One outcome of a forecast made at `now_s`; one that was `overdue` has counted against it already."""
        self._newest.append(math.log((came_s - now_s + _SOON_S) / (max(0.0, said.middle_s - now_s) + _SOON_S)))
        self._sorted = None
        if came_s > said.highest_s:
            return
        self._inner += _PACE * (0.5 - (not said.holds_half(came_s)))
        self._outer += _PACE * (0.1 - (not said.holds(came_s)))
        self._inner, self._outer = min(max(self._inner, -0.3), 0.45), min(max(self._outer, -0.3), 0.1)

    def overdue(self, said: Range, asked_s: Instant, now_s: Instant) -> None:
        """A range has failed although the outcome is still to come: those that take long must not be learned late."""
        self._newest.append(math.log((now_s - asked_s + _SOON_S) / (max(0.0, said.middle_s - asked_s) + _SOON_S)))
        self._sorted = None
        self._inner = max(self._inner - 0.5 * _PACE, -0.3)
        self._outer = max(self._outer - 0.9 * _PACE, -0.3)

    def around(self, middle_s: Instant, now_s: Instant) -> Range:
        """The ranges of a forecast made at `now_s`."""
        if self._sorted is None:
            self._sorted = np.sort(np.array([*self._newest, *(_PRIOR if len(self._newest) < 50 else ())]))
        edges = (self._outer, self._inner, 1 - self._inner, 1 - self._outer)
        low, lower, higher, high = (self._moved(middle_s, now_s, edge) for edge in edges)
        return Range(low, min(lower, middle_s), middle_s, max(higher, middle_s), high)

    def _moved(self, middle_s: Instant, now_s: Instant, edge: float) -> Instant:
        assert self._sorted is not None
        error = _at(self._sorted, 0, edge)
        # Beyond everything that was seen: wider still.
        error += 10.0 * (max(0.0, edge - 1.0) - max(0.0, -edge))
        return max(now_s, now_s + (max(0.0, middle_s - now_s) + _SOON_S) * math.exp(error) - _SOON_S)


class Book(msgspec.Struct, frozen=True):
    """The errors of each kind of forecast."""

    start: Errors
    finish: Errors
    running: Errors


def fresh_book() -> Book:
    return Book(Errors(), Errors(), Errors())


class Going(msgspec.Struct, frozen=True):
    """A running workload: `estimate_s` in all, `used_s` so far, the devices that it holds."""

    name: str
    estimate_s: Seconds
    used_s: Seconds
    devices: int
    pool: str = ""


class Coming(msgspec.Struct, frozen=True):
    """A waiting one, in the order of the queue, with the pools that could take it."""

    name: str
    estimate_s: Seconds
    devices: int
    pools: tuple[str, ...] = ("",)


def ratios_of(known: Sequence[float]) -> Floats:
    """The newest ratios, sorted; the prior fades as real ones come in."""
    newest = [max(one, 1e-6) for one in known[-KEPT:]]
    return np.sort(np.array([*newest, *(math.exp(one) for one in _PRIOR if len(newest) < 50)]))


def left(going: Going, ratios: Floats) -> Seconds:
    """What a running workload still needs: the middle of those that took at least as long."""
    estimate_s = max(going.estimate_s, 1.0)
    used = going.used_s / estimate_s
    first = int(np.searchsorted(ratios, used, side="right"))
    if len(ratios) - first >= 5:
        return max(0.0, _at(ratios, first, 0.5) - used) * estimate_s
    beyond = np.sort(np.concatenate([ratios[first:], used * (1.0 + np.array(_TAIL))]))
    return max(0.0, _at(beyond, 0, 0.5) - used) * estimate_s


def whole(estimate_s: Seconds, ratios: Floats) -> Seconds:
    return max(estimate_s, 1.0) * _at(ratios, 0, 0.5)


def _at(values: Floats, first: int, quantile: float) -> float:
    """A quantile of sorted values from the `first` on, between neighbours in proportion."""
    place = first + min(1.0, max(0.0, quantile)) * (len(values) - 1 - first)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return float(values[below] + (place - below) * (values[above] - values[below]))


def etas(
    running: Sequence[Going], waiting: Sequence[Coming], capacity: dict[str, int], ratios: Floats, now_s: Instant,
    book: Book,
) -> dict[str, Eta]:  # fmt: skip
    """Start and finish of all who run or wait. `capacity` is the devices of each pool, free or not."""
    played = _played(running, waiting, capacity, ratios, now_s)
    found: dict[str, Eta] = {}
    for going in running:
        start_s, end_s = played[going.name]
        found[going.name] = Eta(Range(*(start_s,) * 5), book.running.around(end_s, now_s))
    for coming in waiting:
        start_s, end_s = played[coming.name]
        if math.isfinite(start_s):
            found[coming.name] = Eta(book.start.around(start_s, now_s), book.finish.around(end_s, now_s))
    return found


def _played(
    running: Sequence[Going], waiting: Sequence[Coming], capacity: dict[str, int], ratios: Floats, now_s: Instant
) -> dict[str, tuple[Instant, Instant]]:
    """(start, end) of each when everything takes its middle time: the queue in its order."""
    free = dict(capacity)
    ends: list[tuple[Instant, str, int]] = []
    answer: dict[str, tuple[Instant, Instant]] = {}
    for one in running:
        end_s = now_s + left(one, ratios)
        answer[one.name] = (now_s - one.used_s, end_s)
        free[one.pool] = free.get(one.pool, 0) - one.devices
        heapq.heappush(ends, (end_s, one.pool, one.devices))
    at_s = now_s
    for coming in waiting:
        pool = _with_room(coming, free)
        while pool is None and ends:
            end_s, freed, devices = heapq.heappop(ends)
            at_s = max(at_s, end_s)
            free[freed] += devices
            pool = _with_room(coming, free)
        if pool is None:
            answer[coming.name] = (math.inf, math.inf)
            continue
        free[pool] -= coming.devices
        end_s = at_s + whole(coming.estimate_s, ratios)
        answer[coming.name] = (at_s, end_s)
        heapq.heappush(ends, (end_s, pool, coming.devices))
    return answer


def _with_room(coming: Coming, free: dict[str, int]) -> str | None:
    return next((pool for pool in coming.pools if free.get(pool, 0) >= coming.devices), None)
