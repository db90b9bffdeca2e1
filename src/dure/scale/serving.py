"""Dure's own replica policy for LLM services: work that arrives, work that waits, and what a forecast sees coming.

Called by `engines` for services that run, and by the simulator. Demand is measured in GPU-seconds per second: the
request rate times the mean work of a request over hours (prefill of its prompt, decoding of its output), because
mixes of long and short prompts come and go sooner than replicas boot: to give replicas back in a spell of short
prompts is to lack them in the next of long ones. The replica count follows the larger of demand with its backlog
(bursts that are over before a replica is ready left out) and the forecast's floor at boot time plus model load; it
shrinks to the highest need of a hold time, bursts included, so never on a forecast alone. A forecast that was worse
than "as now" switches itself off and says so. Cost: one forecast step.
"""

from __future__ import annotations

import math

import msgspec

from dure.scale.demand import Meter, Seen, WorkModel
from dure.scale.forecast import Forecaster, ForecastSettings


class ServingSettings(msgspec.Struct, frozen=True):
    """`load` is the demand one replica carries within its promise; `safety` how many standard errors of the forecast
    are provided for above what it expects.

    A replica that is given back and wanted again costs a boot, so needs are remembered for one boot time where
    deviations of demand last, and for two where they are bursts that come again; between 150 and 1200 s, unless
    `hold_s` says otherwise. The forecast goes off when it would have cost `distrust` of "as now" and on again below
    `trust`: what both would have cost, minute by minute, says little of the few minutes that miss. Demand
    is a mean over `demand_s`, by default a fifth of the boot time between 10 and 30 s: where replicas come soon,
    noise costs less than delay. What a request is like is a mean over `memory_s`.
    """

    boot_s: float
    load: float = 1.0
    safety: float = 2.0
    hold_s: float | None = None
    backlog_s: float = 60.0
    demand_s: float | None = None
    memory_s: float = 6 * 3600.0
    step_s: float = 5.0
    min_replicas: int = 1
    max_replicas: int = 100
    forecast: bool = True
    distrust: float = 1.05
    trust: float = 1.0

    @property
    def window_s(self) -> float:
        return min(max(self.boot_s / 5.0, 10.0), 30.0) if self.demand_s is None else self.demand_s

    def held_s(self, lasts: float | None) -> float:
        """How long needs are remembered when that part of a deviation lasts a boot; for two boots if nobody knows."""
        if self.hold_s is not None:
            return self.hold_s
        boots = 2.0 if lasts is None else 2.0 - lasts
        return min(max(self.boot_s * boots, 150.0), 1200.0)


class Wish(msgspec.Struct, frozen=True):
    """The replica count and the numbers behind it; `held` is the share of past floors that sufficed."""

    replicas: int
    reason: str
    demand: float
    floor: float
    forecast_on: bool
    held: float


class ServingPolicy:
    """Keeps the demand series; a pure function of its settings and everything it was shown.

    Who measures how many requests per second a replica carries sets `carries`.
    """

    def __init__(self, settings: ServingSettings, work: WorkModel, mean_output: float = 200.0) -> None:
        self.settings, self.work = settings, work
        self.forecaster = Forecaster(ForecastSettings(settings.boot_s, settings.step_s, settings.window_s))
        self.carries: float | None = None
        self.meter = Meter(work, settings.memory_s, settings.step_s, mean_output)
        self.rates: list[float] = []
        self.needs: list[int] = []
        self.forecast_on = settings.forecast
        self.held = 0.0
        self.lasts: float | None = None

    def step(self, seen: Seen) -> Wish:
        """Decide after one interval."""
        settings = self.settings
        self.meter.learn(seen)
        self.rates = [*self.rates, seen.arrivals / settings.step_s][-self._steps(settings.window_s) :]
        demand = sum(self.rates) / len(self.rates) * self.meter.each_s
        waits = self.meter.waiting_s(seen) / settings.backlog_s
        followed, floor = self._foreseen(demand)
        wanted = self._replicas(max(followed + waits, floor))
        self.needs = [*self.needs, max(wanted, self._replicas(demand + waits))][-self._steps(settings.held_s(0.0)) :]
        return self._held(wanted, seen.target, demand, floor, floor > followed + waits)

    @property
    def load(self) -> float:
        """The demand that one replica carries, of the settings or as measured, in requests like those of now."""
        return self.settings.load if self.carries is None else self.carries * self.meter.each_s

    def _steps(self, seconds: float) -> int:
        return max(1, round(seconds / self.settings.step_s))

    def _replicas(self, demand: float) -> int:
        count = math.ceil(demand / self.load)
        return min(max(count, self.settings.min_replicas), self.settings.max_replicas)

    def _foreseen(self, demand: float) -> tuple[float, float]:
        """Demand as far as it is followed, and the floor; trust in the forecast is lost and won with a gap between.

        What is forecast are requests: prompts that become longer change what each costs, not how many come.
        A burst that is over when its replica is ready buys nothing. While the forecast is off or knows too little,
        all of demand is followed, with the margin by which "as now" has been wrong, so that nothing is unguarded.
        """
        forecast, each_s = self.forecaster.feed(self.rates[-1], self.settings.safety), self.meter.each_s
        self.held = forecast.held
        self.lasts = None
        if not forecast.trusted or not self.settings.forecast:
            return demand, 0.0
        limit = self.settings.distrust if self.forecast_on else self.settings.trust
        self.forecast_on = forecast.error_ratio <= limit
        self.lasts = forecast.lasts if self.forecast_on else None
        if not self.forecast_on:
            return demand, forecast.as_now * each_s
        return forecast.followed * each_s, forecast.floor * each_s

    def _held(self, wanted: int, target: int, demand: float, floor: float, by_forecast: bool) -> Wish:
        """Grow to what is wanted; shrink to the highest need of the hold time, demand's own included."""
        steps = self._steps(self.settings.held_s(self.lasts))
        highest = max(self.needs[-steps:])
        if wanted > target:
            reason = "ForecastFloor" if by_forecast and self.forecast_on else "DemandAbove"
            return Wish(wanted, reason, demand, floor, self.forecast_on, self.held)
        if highest < target and len(self.needs) >= steps:
            return Wish(highest, "DemandBelow", demand, floor, self.forecast_on, self.held)
        reason = "Steady" if self.forecast_on or not self.settings.forecast else "SteadyForecastOff"
        return Wish(target, reason, demand, floor, self.forecast_on, self.held)
