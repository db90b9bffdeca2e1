"""Machines that several services share: how many there should be, and who runs replicas on them.

Called by `dure scale replicas` for services that share machines (`agent.warm`), and by the simulator. A replica on a
machine that is there is ready after `warm_s`, on one that must be booted after `boot_s`; `asleep` has the settings
for machines on which the engines of all services are loaded and all but one sleep. So two questions are asked apart.
How many machines: what all services together are expected to need one boot from now, and `safety` standard errors of
that common forecast, which are fewer than those of each alone. Whose they are: whoever is nearest to being short gets
the next one, in standard errors of what it needs one warm start from now; none idles beside who is short, and nobody
gives what it needs itself.
Invariant: no more replicas are given than there are machines. Cost: O(machines x services) and the forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from dure.scale.demand import Meter, Seen, WorkModel
from dure.scale.forecast import Forecast, Forecaster, ForecastSettings
from dure.scale.rolling import Highest, Rolling
from dure.scale.serving import ServingSettings


class WarmSettings(msgspec.Struct, frozen=True):
    """A machine changes hands where its new service has less than `keen` standard errors in reserve and `apart`
    fewer than the old one keeps, which keeps at least `kept`: moves cost a drain and a start, and who gives what it
    needs itself is late with all that it has. The work of a request is a mean over `sudden_s` where machines are
    divided, over `slow_s` where they are foreseen.

    Machines are divided every `step_s`; how many there should be is asked every `plan_s`, or as often where that is
    longer. What waits is worked off in `backlog_s` by who has it; machines are booted for what has waited for all
    of `lasting_s`, to work it off in `patient_s`. After `drain_s` the requests of a replica that was given away are
    sent again to others of its service; None lets them finish where they are."""

    boot_s: float
    warm_s: float = 20.0
    safety: float = 2.0
    keen: float = 3.0
    apart: float = 0.5
    kept: float = 1.0
    sudden_s: float = 60.0
    slow_s: float = 6 * 3600.0
    backlog_s: float = 60.0
    step_s: float = 5.0
    most: int = 1000
    plan_s: float = 5.0
    lasting_s: float = 0.0
    patient_s: float = 60.0
    drain_s: float | None = None

    @property
    def plan_steps(self) -> int:
        """Divisions from one question of how many machines to the next."""
        return max(1, round(self.plan_s / self.step_s))


def asleep(
    boot_s: float, safety: float = 2.0, step_s: float = 2.0, most: int = 1000, *, loading_s: float = 0.0,
    warm_s: float | None = None,
) -> WarmSettings:  # fmt: skip
    """Machines with the engines of all services, one awake and the others asleep with their weights in host memory.

    To change hands is to put one to sleep and to wake another, in `warm_s`. A machine that has just booted must load
    them all before it serves, one after the other, because each needs the device to load: `loading_s` for those
    behind the first, where they are not in `boot_s`.
    """
    return WarmSettings(
        boot_s + loading_s,
        SLEEP_S + WAKE_S if warm_s is None else warm_s,
        safety,
        keen=2.0,
        apart=1.5,
        backlog_s=20.0,
        step_s=step_s,
        most=most,
        plan_s=6.0,
        lasting_s=60.0,
        patient_s=boot_s,
        drain_s=2.0,
    )


class Machines(msgspec.Struct, frozen=True):
    """Those without a replica: `free` ones are warm, others boot; `leaving` ones finish the requests of one."""

    free: int
    booting: int = 0
    leaving: int = 0


class Division(msgspec.Struct, frozen=True):
    """Replicas of each service, and the machines that there should be, for these and for what may come."""

    replicas: tuple[int, ...]
    machines: int


class Standing(msgspec.Struct, frozen=True):
    """A service now: what it has, what it needs one warm start from now, the standard error of that, its bounds."""

    held: int
    need: float
    error: float
    least: int = 1
    most: int = 1000

    def reserve(self, replicas: int) -> float:
        """Standard errors between what is needed and so many replicas."""
        return (replicas - self.need) / self.error


def divided(standings: Sequence[Standing], free: int, surplus: int, settings: WarmSettings) -> tuple[int, ...]:
    """Who has how many: free machines to who has least in reserve, then moves, then `surplus` ones are let go."""
    given = [one.held for one in standings]
    places = range(len(given))

    def poorest() -> int | None:
        able = [place for place in places if given[place] < standings[place].most]
        return min(able, key=lambda place: (standings[place].reserve(given[place]), place), default=None)

    def richest() -> int | None:
        able = [place for place in places if given[place] > standings[place].least]
        return max(able, key=lambda place: (standings[place].reserve(given[place] - 1), -place), default=None)

    for _ in range(free):
        taker = poorest()
        if taker is not None:
            given[taker] += 1
    for _ in range(sum(given)):
        taker, giver = poorest(), richest()
        if giver is None or taker is None or giver == taker:
            break
        has, keeps = standings[taker].reserve(given[taker]), standings[giver].reserve(given[giver] - 1)
        if has >= settings.keen or keeps < settings.kept or keeps <= has + settings.apart:
            break
        given[giver], given[taker] = given[giver] - 1, given[taker] + 1
    for _ in range(surplus):
        giver = richest()
        if giver is None:
            break
        given[giver] -= 1
    return tuple(given)


class WarmPolicy:
    """Keeps the services' series; a pure function of its settings and everything it was shown."""

    def __init__(
        self, settings: WarmSettings, works: Sequence[WorkModel], least: Sequence[int] = (), most: Sequence[int] = ()
    ) -> None:
        self.settings = settings
        self.least = tuple(least) or (1,) * len(works)
        self.most = tuple(most) or (settings.most,) * len(works)
        self.ones = [_One(settings, work) for work in works]
        self.total = _Total(settings)

    def step(self, seen: Sequence[Seen], machines: Machines) -> Division:
        """Decide after one interval; each service's `target` is what it has, ready or starting."""
        for one, shown in zip(self.ones, seen, strict=True):
            one.feed(shown)
        there = sum(shown.target for shown in seen) + machines.free + machines.leaving
        planned = self.total.step(self.ones)
        planned = there + machines.booting if planned is None else planned
        wanted = min(max(planned, sum(self.least)), self.settings.most)
        standings = [
            Standing(shown.target, one.need, one.error, least, most)
            for one, shown, least, most in zip(self.ones, seen, self.least, self.most, strict=True)
        ]
        surplus = max(there - wanted, 0) if machines.booting == 0 else 0
        return Division(divided(standings, machines.free, surplus, self.settings), wanted)


class _One:
    """One service, in replicas: what it needs soon and how sure that is, what it is expected to need in a boot."""

    def __init__(self, settings: WarmSettings, work: WorkModel) -> None:
        self.settings = settings
        self.sudden = Meter(work, settings.sudden_s, settings.step_s)
        self.slow = Meter(work, settings.slow_s, settings.step_s)
        soon_s = ServingSettings(settings.warm_s).window_s
        self.near = Forecaster(ForecastSettings(settings.warm_s, settings.step_s, soon_s))
        self.far = Forecaster(ForecastSettings(settings.boot_s, settings.plan_steps * settings.step_s))
        self.window = max(1, round(soon_s / settings.step_s))
        self.recent: list[float] = []
        self.rates: list[float] = []
        self.need, self.error, self.waiting_s, self.counted = 0.0, 1.0, 0.0, 0.0
        self.expected: Forecast | None = None

    def feed(self, seen: Seen) -> None:
        self.sudden.learn(seen)
        self.slow.learn(seen)
        rate = seen.arrivals / self.settings.step_s
        self.recent = [*self.recent, rate * self.sudden.each_s][-self.window :]
        demand = sum(self.recent) / len(self.recent)
        self.waiting_s = self.sudden.waiting_s(seen)
        waits = self.waiting_s / self.settings.backlog_s
        near = self.near.feed(self.recent[-1], 0.0)
        self.need = waits + (max(demand, near.mean) if near.trusted else demand)
        self.error = max(near.error if near.trusted else GUESSED * self.need, LEAST_ERROR)
        self.rates.append(rate)
        if len(self.rates) == self.settings.plan_steps:
            self.counted = sum(self.rates) / len(self.rates) * self.slow.each_s
            self.expected, self.rates = self.far.feed(self.counted, 0.0), []


class _Total:
    """All services together: the sum of their forecasts, and how their errors have really added up one boot later."""

    def __init__(self, settings: WarmSettings) -> None:
        self.settings, self.serving = settings, ServingSettings(settings.boot_s)
        self.plan_s = settings.plan_steps * settings.step_s
        laws = ForecastSettings(settings.boot_s, self.plan_s)
        self.ahead, self.width = self._steps(settings.boot_s), self._steps(laws.short_s)
        self.errors, self.apart = (Rolling(self._steps(laws.memory_s), 0.0) for _ in range(2))
        self.level = Rolling(self._steps(laws.level_s), 0.0)
        self.highest = Highest(self._steps(laws.day_s + laws.level_s))
        self.beyond, self.least_errors = laws.beyond, laws.least_errors
        self.recent: list[float] = []
        self.said: list[tuple[float, float]] = []
        self.needs: list[int] = []
        self.waiting_s: list[float] = []
        self.steps = 0
        self.wanted: int | None = None

    def step(self, ones: Sequence[_One]) -> int | None:
        """Machines that there should be: the highest that was foreseen for a hold time; None before the first answer.

        What is needed in this very minute is no reason to boot any: they would come when a burst is over. Nor is
        what waits, unless it has waited for `lasting_s`.
        """
        self.steps += 1
        if self.steps % self.settings.plan_steps:
            return self.wanted
        self.recent = [*self.recent, sum(one.counted for one in ones)][-self.width :]
        now = sum(self.recent) / len(self.recent)
        self.level.add(self.recent[-1])
        self.highest.add(now)
        needed, lasts = self._needed([one.expected for one in ones if one.expected is not None], now)
        waiting_s = [*self.waiting_s, sum(one.waiting_s for one in ones)]
        self.waiting_s = waiting_s[-self._steps(self.settings.lasting_s) :]
        waits = min(self.waiting_s) / self.settings.patient_s
        self.needs = [*self.needs, math.ceil(needed + waits)][-self._steps(self.serving.held_s(0.0)) :]
        self.wanted = max(self.needs[-self._steps(self.serving.held_s(lasts)) :])
        return self.wanted

    def _needed(self, far: Sequence[Forecast], now: float) -> tuple[float, float | None]:
        """Without what waits; and how much of a deviation lasts, by which needs are remembered."""
        if not all(one.trusted for one in far):
            return now * (1.0 + self.settings.safety * GUESSED), None
        mean, margin = sum(one.mean for one in far), math.hypot(*(one.error for one in far))
        self._learn(now, mean, margin)
        limit = max(self.highest.value, self.beyond * self.level.mean)
        floor = max(min(mean + self.settings.safety * margin * self._together, limit), mean)
        lasts = sum(one.lasts * one.mean for one in far) / max(mean, LEAST_ERROR)
        return max(sum(one.followed for one in far), floor), lasts

    def _learn(self, now: float, mean: float, margin: float) -> None:
        if len(self.said) >= self.ahead:
            expected, alone = self.said[-self.ahead]
            self.errors.add((now - expected) ** 2)
            self.apart.add(alone**2)
        self.said = [*self.said, (mean, margin)][-self.ahead :]

    @property
    def _together(self) -> float:
        """The error of the sum to that of services which err apart: more than one where they surge together."""
        if self.errors.count < self.least_errors:
            return 1.0
        return math.sqrt(self.errors.mean / max(self.apart.mean, LEAST_ERROR**2))

    def _steps(self, seconds: float) -> int:
        return max(1, round(seconds / self.plan_s))


# Errors in parts of demand while nothing is known of them, and the least in replicas that is believed.
GUESSED, LEAST_ERROR = 0.15, 0.05
# Engines asleep: the 14 GB of a 7B model's weights go to host memory in a second and come back in two, at half of
# what PCIe does or less; the cache is dropped. Without sleep a start loads them from disk.
SLEEP_S, WAKE_S, LOAD_S = 1.0, 2.0, 20.0
