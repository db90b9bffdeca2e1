"""Dure's own replica policy for LLM services: work that arrives, work that waits, and what a forecast sees coming.

Called by the agent and the simulator every few seconds. Demand is measured in GPU-seconds per second: the request
rate times the slowly learnt mean work of a request (prefill of its prompt, decoding of its output), because the
tokens of single requests are noise. The replica count follows the larger of demand with backlog and the forecast's
quantile at boot time plus model load; it shrinks to the highest wish of a hold time, never on a forecast alone. A
forecast that was worse than "as now" switches itself off and says so. Demand that swings faster than a replica boots
is not followed at all (`memory`). Cost: one forecast step.
"""

from __future__ import annotations

import math

import msgspec

from dure.scale.forecast import Forecaster, ForecastSettings
from dure.scale.memory import Memory, MemorySettings


class WorkModel(msgspec.Struct, frozen=True):
    """GPU-seconds of a request: prompt tokens, output tokens, a fixed part. Learnt or profiled for each model."""

    prefill_s: float = 0.00015
    decode_s: float = 0.00128
    request_s: float = 0.020


class ServingSettings(msgspec.Struct, frozen=True):
    """`load` is the demand one replica may carry; `quantile` how safe the forecast floor is.

    The hold grows from `hold_s` to `burst_hold_s` as the five-minute peak over the five-minute mean goes through
    `bursty`: a service that falls silent and comes back at full height must not give its replicas away. Demand is a
    mean over `demand_s`, by default a fifth of the boot time between 10 and 30 s: where replicas come soon, noise
    costs less than delay.
    """

    boot_s: float
    load: float = 1.0
    quantile: float = 0.97
    hold_s: float = 30.0
    burst_hold_s: float = 600.0
    bursty: tuple[float, float] = (1.45, 1.75)
    backlog_s: float = 60.0
    demand_s: float | None = None
    step_s: float = 5.0
    min_replicas: int = 1
    max_replicas: int = 100
    forecast: bool = True
    distrust: float = 1.05
    trust: float = 0.95

    @property
    def window_s(self) -> float:
        return min(max(self.boot_s / 5.0, 10.0), 30.0) if self.demand_s is None else self.demand_s


class Seen(msgspec.Struct, frozen=True):
    """One interval of monitoring: what arrived, what waits, what finished, how many replicas are asked for."""

    arrivals: int
    arrived_context: int
    waiting: int
    waiting_tokens: float
    finished: int
    finished_output: int
    target: int


class Wish(msgspec.Struct, frozen=True):
    """The replica count and the numbers behind it."""

    replicas: int
    reason: str
    demand: float
    floor: float
    forecast_on: bool


class ServingPolicy:
    """Keeps the demand series; a pure function of its settings and everything it was shown."""

    def __init__(self, settings: ServingSettings, work: WorkModel, mean_output: float = 200.0) -> None:
        self.settings, self.work = settings, work
        self.forecaster = Forecaster(ForecastSettings(horizon_s=settings.boot_s, step_s=settings.step_s))
        self.memory = Memory(MemorySettings(boot_s=settings.boot_s, step_s=settings.step_s))
        self.context = _Slow(1000.0)
        self.output = _Slow(mean_output)
        self.series: list[float] = []
        self.wishes: list[int] = []
        self.forecast_on = settings.forecast
        self.as_now = 0.0

    def step(self, seen: Seen) -> Wish:
        """Decide after one interval."""
        settings = self.settings
        self.context.learn(seen.arrived_context, seen.arrivals)
        self.output.learn(seen.finished_output, seen.finished)
        tail = self.work.decode_s * self.output.mean + self.work.request_s
        each = self.work.prefill_s * self.context.mean + tail
        self.series.append(seen.arrivals * each / settings.step_s)
        window = self.series[-max(1, round(settings.window_s / settings.step_s)) :]
        demand = sum(window) / len(window)
        backlog = self.work.prefill_s * seen.waiting_tokens + tail * seen.waiting
        need = demand + backlog / settings.backlog_s
        floor = self._floor()
        quick = math.ceil(max(need, floor, self.as_now) / settings.load)
        self.wishes.append(min(max(quick, settings.min_replicas), settings.max_replicas))
        followed = max(self.wishes[-self._hold_steps() :])
        level = self.memory.feed(demand)
        if level is None:
            return self._held(followed, seen.target, demand, floor, floor > need)
        return self._lasting(level, backlog / settings.backlog_s, seen.target, demand)

    def _floor(self) -> float:
        """The forecast's quantile, or zero while it is off; trust is lost and won back with a gap between.

        While it is off, demand gets the margin by which "as now" has been too low, so that nothing is unguarded.
        """
        forecast = self.forecaster.feed(self.series[-1], self.settings.quantile)
        self.as_now = 0.0
        if not forecast.trusted or not self.settings.forecast:
            return 0.0
        limit = self.settings.distrust if self.forecast_on else self.settings.trust
        self.forecast_on = forecast.error_ratio <= limit
        if not self.forecast_on:
            self.as_now = forecast.as_now
            return 0.0
        return forecast.quantile

    def _held(self, followed: int, target: int, demand: float, floor: float, by_forecast: bool) -> Wish:
        wanted = self.wishes[-1]
        if wanted > target:
            reason = "ForecastFloor" if by_forecast else "DemandAbove"
            return Wish(wanted, reason, demand, floor, self.forecast_on)
        if followed < target and len(self.wishes) >= self._hold_steps():
            return Wish(followed, "DemandBelow", demand, floor, self.forecast_on)
        reason = "Steady" if self.forecast_on or not self.settings.forecast else "SteadyForecastOff"
        return Wish(target, reason, demand, floor, self.forecast_on)

    def _lasting(self, level: float, backlog: float, target: int, demand: float) -> Wish:
        """Provide what the last half hour needed."""
        settings = self.settings
        wanted = math.ceil((level + backlog) / settings.load)
        wanted = min(max(wanted, settings.min_replicas), settings.max_replicas)
        if wanted == target:
            return Wish(target, "SteadyLasting", demand, 0.0, self.forecast_on)
        return Wish(wanted, "LastingDemand", demand, 0.0, self.forecast_on)

    def _hold_steps(self) -> int:
        """How long a wish is remembered: short for smooth services, long for bursty ones."""
        low, high = self.settings.bursty
        share = min(max((self.forecaster.peakiness() - low) / (high - low), 0.0), 1.0)
        hold_s = self.settings.hold_s + share * (self.settings.burst_hold_s - self.settings.hold_s)
        return max(1, round(hold_s / self.settings.step_s))


class _Slow:
    """A mean that forgets over some thousand samples; starts at a guess worth a hundred of them."""

    def __init__(self, guess: float) -> None:
        self.total, self.count = guess * 100.0, 100.0

    def learn(self, total: float, count: float) -> None:
        keep = math.exp(-count / 5000.0)
        self.total, self.count = self.total * keep + total, self.count * keep + count

    @property
    def mean(self) -> float:
        return self.total / self.count
