"""How wide ranges must be so that they hold as often as they say: learned from what came of earlier forecasts.

Called by `eta`. A forecast is a middle and how far its 5 and 95 % points lie off, in logarithms of the time to go.
What came is a score on that scale: -1 and 1 are the two points. The ranges given are quantiles of the scores of
earlier forecasts of the same kind (conformal prediction), among them thirty of a prior that takes the forecast wider
than it is. Outcomes of one jam are one lesson, not hundreds: each weighs less the more came while it was awaited.
The level itself gives way where ranges fail too often, each side for itself (adaptive conformal
inference, Gibbs and Candes 2021). A range that has failed counts at once, not only when its outcome comes. All this
for each e-fold of the time to go by itself (Mondrian, Vovk 2003): what quiet hours teach does not hold in a jam.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from dure.model.eta import Range, Spread
from dure.model.units import Instant

_KEPT = 2000
_PACE = 0.005
_NORMAL = NormalDist()
_PRIOR_WIDER, _PRIOR_COUNT = 1.4, 30
_PRIOR = tuple(
    (_PRIOR_WIDER * _NORMAL.inv_cdf((i + 0.5) / _PRIOR_COUNT) / _NORMAL.inv_cdf(0.95), 1.0)
    for i in range(_PRIOR_COUNT)
)
# A minute more or less is no error, nor is a tenth of what was said.
_SOON_S = 60.0
_NARROWEST = 0.1
# Scores beyond everything that was seen: so many for a level of one too much.
_BEYOND = 10.0
_LOWEST = -0.05
_LEVELS = (0.05, 0.25, 0.25, 0.05)
# Ranges that hold too often give way as far as those that fail too often: the wide one down to half of all cases,
# that to the middle. With less room a prior that is too wide for a kind of forecast would never be unlearned.
_HIGHEST = (0.25, 0.5, 0.5, 0.25)


class Said(msgspec.Struct, frozen=True):
    """A forecast that was given: what was known of it, and the range it became."""

    asked_s: Instant
    spread: Spread
    range: Range


class Came(NamedTuple):
    """An outcome: when it was asked for and came, and where it lay on its forecast."""

    asked_s: Instant
    came_s: Instant
    score: float


class Told(NamedTuple):
    """A forecast of the past without the range it got, and what came of it if that is known."""

    asked_s: Instant
    spread: Spread
    came_s: Instant | None


def score(spread: Spread, came_s: Instant, asked_s: Instant) -> float:
    """Where the outcome lies: -1 and 1 are the 5 and the 95 % point, 0 the middle."""
    error = math.log((max(0.0, came_s - asked_s) + _SOON_S) / _to_go(spread.middle_s, asked_s))
    below, above = _widths(spread, asked_s)
    return error / (above if error > 0 else below)


def regime(spread: Spread, asked_s: Instant) -> int:
    """How far off the middle is, in whole e-folds."""
    return math.floor(math.log(_to_go(spread.middle_s, asked_s)))


class Regimes:
    """Scores of one kind of forecast, those of each regime by themselves."""

    def __init__(self) -> None:
        self._scores: dict[int, Scores] = {}

    @property
    def learned(self) -> int:
        """How many outcomes it knows."""
        return sum(one.learned for one in self._scores.values())

    def add(self, said: Said, came_s: Instant) -> None:
        self._of(said.spread, said.asked_s).add(said, came_s)

    def overdue(self, said: Said) -> None:
        self._of(said.spread, said.asked_s).overdue()

    def around(self, spread: Spread, asked_s: Instant) -> Range:
        return self._of(spread, asked_s).around(spread, asked_s)

    def _of(self, spread: Spread, asked_s: Instant) -> Scores:
        return self._scores.setdefault(regime(spread, asked_s), Scores())


def taught(told: Iterable[Told], now_s: Instant) -> Regimes:
    """What these forecasts teach by now: each gets the range that those before it had taught, as if told anew.

    So whoever keeps only forecasts and outcomes learns as one who was there all the time.
    """
    found, every = Regimes(), list(told)
    awaited: dict[int, Said] = {}
    until: list[tuple[Instant, int]] = []
    moments = [(one.asked_s, False, number) for number, one in enumerate(every)]
    moments += [(one.came_s, True, number) for number, one in enumerate(every) if one.came_s is not None]
    for at_s, came, number in (*sorted(moments), (now_s, True, -1)):
        while until and until[0][0] < at_s:
            late = awaited.get(heappop(until)[1])
            if late is not None:
                found.overdue(late)
        if not came:
            one = every[number]
            said = Said(one.asked_s, one.spread, found.around(one.spread, one.asked_s))
            awaited[number] = said
            heappush(until, (said.range.highest_s, number))
        elif number in awaited:
            found.add(awaited.pop(number), at_s)
    return found


class Scores:
    """Of one kind of forecast in one regime."""

    def __init__(self) -> None:
        self._newest: deque[tuple[Instant, float, float]] = deque()
        self._sorted = list(_PRIOR)
        self._summed: list[float] = []
        self._levels = list(_LEVELS)

    @property
    def learned(self) -> int:
        """How many outcomes it knows."""
        return len(self._newest)

    def add(self, said: Said, came_s: Instant) -> None:
        """An outcome; one beyond its range has counted against the level already when it was overdue."""
        self.learn(Came(said.asked_s, came_s, score(said.spread, came_s, said.asked_s)))
        edges = said.range
        failed = (came_s < edges.lowest_s, came_s < edges.low_s, came_s > edges.high_s, False)
        for side, target in enumerate(_LEVELS):
            if side < 3 or came_s <= edges.highest_s:
                self._shift(side, target - failed[side])

    def overdue(self) -> None:
        """A range has failed although the outcome is still to come."""
        self._shift(3, _LEVELS[3] - 1.0)

    def around(self, spread: Spread, asked_s: Instant) -> Range:
        """The ranges of a forecast made at `asked_s`."""
        lowest, low, high, highest = (
            self._edge(spread, asked_s, level)
            for level in (self._levels[0], self._levels[1], 1 - self._levels[2], 1 - self._levels[3])
        )
        low, high = min(low, spread.middle_s), max(high, spread.middle_s)
        return Range(min(lowest, low), low, spread.middle_s, high, max(highest, high))

    def _edge(self, spread: Spread, asked_s: Instant, level: float) -> Instant:
        found = self._quantile(level) + _BEYOND * (max(0.0, level - 1.0) - max(0.0, -level))
        below, above = _widths(spread, asked_s)
        grown = min(found * (above if found > 0 else below), 50.0)
        return asked_s + max(0.0, _to_go(spread.middle_s, asked_s) * math.exp(grown) - _SOON_S)

    def _quantile(self, level: float) -> float:
        if not self._summed:
            self._summed = list(accumulate(weight for _, weight in self._sorted))
        wanted = min(1.0, max(0.0, level)) * self._summed[-1]
        return self._sorted[min(bisect_left(self._summed, wanted), len(self._sorted) - 1)][0]

    def learn(self, one: Came) -> None:
        """Outcomes are told in the order in which they come."""
        meanwhile = len(self._newest) - bisect_left(self._newest, one.asked_s, key=lambda kept: kept[0])
        weight = 1.0 / (1 + meanwhile)
        self._newest.append((one.came_s, one.score, weight))
        insort(self._sorted, (one.score, weight))
        if len(self._newest) > _KEPT:
            _, *oldest = self._newest.popleft()
            del self._sorted[bisect_left(self._sorted, tuple(oldest))]
        self._summed = []

    def _shift(self, side: int, by: float) -> None:
        self._levels[side] = min(max(self._levels[side] + _PACE * by, _LOWEST), _HIGHEST[side])


def _to_go(at_s: Instant, asked_s: Instant) -> float:
    return max(0.0, at_s - asked_s) + _SOON_S


def _widths(spread: Spread, asked_s: Instant) -> tuple[float, float]:
    middle = _to_go(spread.middle_s, asked_s)
    below = math.log(middle / _to_go(spread.low_s, asked_s))
    return max(_NARROWEST, below), max(_NARROWEST, math.log(_to_go(spread.high_s, asked_s) / middle))
