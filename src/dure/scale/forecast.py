"""Forecast of a service's demand one boot time ahead, with a margin from the errors that it really made.

Called by `serving` once per control interval with the demand of that interval. What is expected is the last hour's
level and what its deviations now, over five minutes and over half an hour have meant one boot time later, which a
regression learns as it goes (`regression`). A second law needs no such weights: the level's trend and that part of
the present deviation which has lasted one boot time in the past (its correlation with itself). A third is the first
with yesterday's hours. They are judged by what following them would have cost; the cheapest speaks. As far as
deviations do not last a boot time, nothing is foreseen: usual demand and how it spreads (`spread`) take its place.
Cost: O(laws) per step. Not before one horizon and five minutes of history: it then says that it is not trusted.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.scale.regression import Regression
from dure.scale.rolling import Highest, Rolling, forget
from dure.scale.spread import Spread

Floats = NDArray[np.float64]
Pair = tuple[float, float]


class ForecastSettings(msgspec.Struct, frozen=True):
    """`step_s` is the interval of the series, `horizon_s` how far ahead, `short_s` what "now" is a mean over.
    What is usual is told by the last `recent_s` and by `memory_s`, in equal parts.

    A law is charged for what it provides and `shortfall` times for what it lacks. Another than the first speaks only
    where it would have been cheaper by `handicap`, in the last hours and, once there is a day, around this hour of
    yesterday: yesterday's hours can only show their worth at the hour that they are about.
    A margin is in parts of the level, so that in a dip as much is there as before it; for "as now" in parts of now.
    It ends at the highest demand of a day, or at `beyond` of the level where that is more: in the middle of a
    surge it would be provided for a second one on top.
    """

    horizon_s: float
    step_s: float = 5.0
    short_s: float = 30.0
    middle_s: float = 300.0
    recent_s: float = 600.0
    long_s: float = 1800.0
    level_s: float = 3600.0
    memory_s: float = 6 * 3600.0
    day_s: float = 86_400.0
    season_s: float = 600.0
    shortfall: float = 20.0
    handicap: float = 1.05
    beyond: float = 1.5
    least_errors: int = 60


class Law(msgspec.Struct, frozen=True):
    """One way to foresee: with the level's trend or not, with yesterday's hours or not."""

    name: str
    trend: bool
    season: bool


LAWS = (Law("means", False, False), Law("trend", True, False), Law("yesterday", False, True))
# Every law is judged with each of these margins and counts with its best.
MARGINS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# What every step is judged by, in one row: the errors of the laws and, last, of "as now", whether the floor held, and
# what each would have cost with each margin.
_SAYERS = len(LAWS) + 1
_HELD, _LOSSES = _SAYERS, _SAYERS + 1
# What is supposed of a service of which nothing is known yet: a deviation of five minutes remains by that part, and
# the sooner the horizon the more the last moments say. Chosen on streams that no published figure is about.
USUAL, SOON_S = 0.7, 60.0
# The level of a service that nobody has asked for anything: what comes then is no part of it, and nothing is learnt.
NOTHING = 1e-9


class Forecast(msgspec.Struct, frozen=True):
    """Expected demand at the horizon, its standard error and the floor so many errors above, by the law of that name.

    `followed` is present demand as far as it is worth following: the usual, and of a deviation the part `lasts`: all
    of it where at least half has lasted one horizon in the past, less in proportion. `error_ratio` is what the law
    would have cost over what "as now" would have cost; `as_now` is that one's floor.
    `held` is the share of past floors that demand stayed below, the quantile that the floor really is. Not `trusted`
    while too little is known.
    """

    mean: float
    followed: float
    lasts: float
    error: float
    floor: float
    trusted: bool
    error_ratio: float
    as_now: float
    held: float
    law: str


class _Said(msgspec.Struct, frozen=True):
    """What the laws (and, last, "as now") said at one step, to be judged one horizon later."""

    means: list[float]
    margins: list[float]
    floor: float
    level: float
    features: Floats


class Forecaster:
    """Keeps the series and its sums; mutable, but a pure function of what was fed to it.

    Of levels, deviations and what lasts of them there are two: without the trend and with it.
    """

    def __init__(self, settings: ForecastSettings) -> None:
        self.settings = settings
        self.ahead = self._steps(settings.horizon_s)
        self.short, self.middle = self._steps(settings.short_s), self._steps(settings.middle_s)
        self.long, self.hour = self._steps(settings.long_s), self._steps(settings.level_s)
        self.season, self.day = self._steps(settings.season_s), self._steps(settings.day_s)
        self.sums: list[float] = [0.0]
        self.deviations: list[Pair] = []
        self.said: list[_Said] = []
        memory = self._steps(settings.memory_s)
        self.echoes, self.spreads = ([Rolling(memory, 0.0) for _ in range(2)] for _ in range(2))
        self.judged = Rolling(memory, np.zeros(_LOSSES + len(MARGINS) * _SAYERS))
        self.judged.keep = max(memory, self._steps(settings.day_s + settings.level_s))
        spans_s = settings.day_s + settings.level_s + settings.season_s
        self.longest = self._steps(spans_s) + self.ahead + 2
        self.highest = Highest(self._steps(settings.day_s + settings.level_s))
        self.spread = Spread((self._steps(settings.recent_s), memory))
        at_once = math.exp(-settings.horizon_s / SOON_S)
        self.regression = Regression((at_once, USUAL * (1.0 - at_once), 0.0, 0.0), settings.memory_s)

    def feed(self, value: float, safety: float) -> Forecast:
        """Add one interval's demand; forecast the demand at the horizon."""
        self.sums.append(self.sums[-1] + value)
        forget(self.sums, self.longest)
        forget(self.deviations, self.ahead + 1)
        forget(self.said, self.ahead + 1)
        now, levels = self._mean(0, self.short), self._levels()
        self._learn(((now - levels[0]) / levels[0], (now - levels[1]) / levels[1]))
        self._judge(now)
        features, lasting = self._features(now, levels[0]), self._lasting()
        self._regress(now)
        lasts = min(2.0 * lasting[0], 1.0)
        usual, deviation = self.spread.add(now)
        means = self._means(now, levels, features, lasting[1], (lasts, usual))
        judged: list[float] = self.judged.mean.tolist()
        own = (1.0 - lasts) * deviation
        margins = [lasts * levels[0] * math.sqrt(error) + own for error in judged[: len(LAWS)]]
        margins.append(now * math.sqrt(judged[len(LAWS)]))
        regrets = self._regrets(judged)
        best = min(range(len(LAWS)), key=lambda law: regrets[law] * (self.settings.handicap if law else 1.0))
        self.highest.add(now)
        limit = max(self.highest.value, self.settings.beyond * levels[0])
        floor, as_now = (
            max(min(mean + safety * margin, limit), mean)
            for mean, margin in ((means[best], margins[best]), (means[-1], margins[-1]))
        )
        self.said.append(_Said(means, margins, floor, levels[0], features))
        return Forecast(
            mean=means[best],
            followed=usual + lasts * (now - usual),
            lasts=lasts,
            error=margins[best],
            floor=floor,
            trusted=self.judged.count >= self.settings.least_errors,
            error_ratio=regrets[best] / regrets[-1] if regrets[-1] > 0.0 else 1.0,
            as_now=as_now,
            held=judged[_HELD],
            law=LAWS[best].name,
        )

    def _steps(self, seconds: float) -> int:
        return max(1, round(seconds / self.settings.step_s))

    def _mean(self, ago: int, count: int) -> float:
        """Mean of `count` steps that ended `ago` steps ago; of fewer at the beginning."""
        end = max(len(self.sums) - 1 - ago, 1)
        start = max(0, end - count)
        return (self.sums[end] - self.sums[start]) / (end - start)

    def _levels(self) -> Pair:
        """The last hour's mean, and the same moved on by how far its second half is from its first."""
        half = max(self.hour // 2, 1)
        mean = self._mean(0, self.hour)
        moved = self._mean(0, half) - self._mean(half, half) if len(self.sums) > self.hour else 0.0
        return max(mean, NOTHING), max(mean + moved, 0.3 * mean, NOTHING)

    def _learn(self, deviation: Pair) -> None:
        self.deviations.append(deviation)
        then = self.deviations[-1 - self.ahead] if len(self.deviations) > self.ahead else None
        for number, found in enumerate(deviation):
            self.spreads[number].add(found * found)
            if then is not None:
                self.echoes[number].add(found * then[number])

    def _features(self, now: float, level: float) -> Floats:
        """Deviations of the last moments, minutes and half hour from the level, in parts of it, and a constant."""
        minutes, half_hour = self._mean(0, self.middle), self._mean(0, self.long)
        return np.array([now / level - 1.0, minutes / level - 1.0, half_hour / level - 1.0, 1.0])

    def _regress(self, truth: float) -> None:
        """Learn what the features of one horizon ago have come to."""
        then = self.said[-self.ahead] if len(self.said) >= self.ahead else None
        if then is not None and then.level > NOTHING:
            self.regression.learn(then.features, truth / then.level - 1.0, self.settings.step_s)

    def _means(self, now: float, levels: Pair, features: Floats, lasting: float, usually: Pair) -> list[float]:
        """What each law expects, and "as now"; `usually` is the part that lasts and what is usual instead."""
        lasts, usual = usually
        regressed = max(levels[0] * (1.0 + self.regression.expected(features)), 0.0)
        foreseen = (regressed, levels[1] + lasting * (now - levels[1]))
        expected, yesterday = [lasts * one + (1.0 - lasts) * usual for one in foreseen], self._yesterday()
        return [*(expected[law.trend] * (yesterday if law.season else 1.0) for law in LAWS), now]

    def _lasting(self) -> Pair:
        """The part of a deviation that was still there one horizon later; never an opposite one."""
        plain, trend = (
            min(max(echo.mean / max(spread.mean, 1e-12), 0.0), 1.0)
            for echo, spread in zip(self.echoes, self.spreads, strict=True)
        )
        return plain, trend

    def _judge(self, truth: float) -> None:
        """Score what was said one horizon ago."""
        if len(self.said) < self.ahead or self.said[-self.ahead].level <= NOTHING:
            return
        said, shortfall = self.said[-self.ahead], self.settings.shortfall
        level, least = said.level, 0.05 * said.level
        errors = [(truth - mean) / max(mean, least) for mean in said.means]
        losses = [
            (floor if floor >= truth else floor + shortfall * (truth - floor)) / level
            for factor in MARGINS
            for mean, margin in zip(said.means, said.margins, strict=True)
            for floor in (max(mean + factor * margin, 0.0),)
        ]
        self.judged.add(np.array([*(error * error for error in errors), truth <= said.floor, *losses]))

    def _regrets(self, judged: list[float]) -> list[float]:
        """What each law would have cost with its best margin, of late and around this hour of yesterday."""
        there, least = self.judged.around(self.day, self.hour), _least(judged)
        if there is None:
            return least
        return [(late + then) / 2.0 for late, then in zip(least, _least(there.tolist()), strict=True)]

    def _yesterday(self) -> float:
        """How demand at the horizon stood to its level a day ago; one without a day of history."""
        if len(self.sums) <= self.day + self.hour:
            return 1.0
        then = self._mean(self.day - self.ahead - self.season // 2, self.season)
        return min(max(then / max(self._mean(self.day, self.hour), 1e-9), 0.5), 2.0)


def _least(judged: list[float]) -> list[float]:
    """What each would have cost with its best margin."""
    return [min(judged[_LOSSES + sayer :: _SAYERS]) for sayer in range(_SAYERS)]
