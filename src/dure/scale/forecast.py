"""Forecast of a service's demand at a fixed horizon, with quantiles of its own past errors.

Called by `serving` once per control interval with the demand of that interval. A ridge regression on means over
1, 5 and 30 minutes, their trends and the same time of earlier days, refitted on the stored history; the quantile
comes from the errors that recent forecasts really made, so a forecast that was wrong becomes wide by itself.
Cost: O(history) per refit, O(features) per step. Not for series shorter than two horizons: it then says so.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEATURES = 8


class ForecastSettings(msgspec.Struct, frozen=True):
    """`step_s` is the interval of the series, `horizon_s` how far ahead; windows in seconds."""

    horizon_s: float
    step_s: float = 5.0
    smooth_s: float = 10.0
    span_s: float = 60.0
    windows_s: tuple[float, ...] = (30.0, 60.0, 300.0, 1800.0)
    refit_s: float = 300.0
    memory_s: float = 6 * 3600.0
    day_s: float = 86_400.0
    ridge: float = 1.0
    least_errors: int = 60


class Forecast(msgspec.Struct, frozen=True):
    """The expected demand at the horizon and the wanted quantile; `trusted` is False while too little is known.

    `as_now` is the same quantile for the simplest of forecasts, that demand stays as it is.
    """

    mean: float
    quantile: float
    trusted: bool
    error_ratio: float
    as_now: float = 0.0


class Forecaster:
    """Keeps the series and the fitted weights; mutable, but a pure function of what was fed to it."""

    def __init__(self, settings: ForecastSettings) -> None:
        self.settings = settings
        self.ahead = max(1, round(settings.horizon_s / settings.step_s))
        self.smooth = max(1, round(settings.smooth_s / settings.step_s))
        self.span = max(1, round(settings.span_s / settings.step_s))
        self.windows = [max(1, round(w / settings.step_s)) for w in settings.windows_s]
        self.series: list[float] = []
        self.level: list[float] = []
        self.sums: list[float] = [0.0]
        self.rows: list[Floats] = []
        self.made: list[float] = []
        self.errors: list[float] = []
        self.naive: list[float] = []
        self.weights: Floats | None = None

    def feed(self, value: float, q: float) -> Forecast:
        """Add one interval's demand; forecast the peak around the horizon."""
        self.series.append(value)
        self.sums.append(self.sums[-1] + value)
        self.level.append(self._mean(len(self.series), self.smooth))
        row = self._features()
        self.rows.append(row)
        self._score()
        if len(self.series) % max(1, round(self.settings.refit_s / self.settings.step_s)) == 0:
            self._refit()
        mean = float(row @ self.weights) if self.weights is not None else float(row[0])
        mean = max(mean, 0.0)
        self.made.append(mean)
        recent = self.errors[-self._memory() :]
        trusted = self.weights is not None and len(recent) >= self.settings.least_errors
        ratio = self._error_ratio()
        if not trusted:
            return Forecast(mean, mean, False, ratio)
        level = max(mean, float(np.mean(self.series[-self.windows[-1] :])) * 0.1, 1e-9)
        naive = self.naive[-self._memory() :]
        as_now = float(row[0]) + level * float(np.quantile(naive, q))
        return Forecast(mean, max(0.0, mean + level * float(np.quantile(recent, q))), True, ratio, max(0.0, as_now))

    def peakiness(self) -> float:
        """The five-minute peak over the five-minute mean, over the last hour: how bursty the demand is."""
        recent = self.rows[-round(3600.0 / self.settings.step_s) :]
        mean = sum(float(row[2]) for row in recent[::12])
        return sum(float(row[6]) for row in recent[::12]) / mean if mean > 0.0 else 1.0

    def _memory(self) -> int:
        return round(self.settings.memory_s / self.settings.step_s)

    def _mean(self, end: int, count: int) -> float:
        start = max(0, end - count)
        return (self.sums[end] - self.sums[start]) / max(end - start, 1)

    def _features(self) -> Floats:
        now = len(self.series)
        short, minute, five, thirty = (self._mean(now, w) for w in self.windows)
        minute_ago = self._mean(max(now - self.windows[1], 0), self.windows[1])
        day = round(self.settings.day_s / self.settings.step_s)
        season = self._mean(now - day + self.ahead, self.windows[2]) if now > day + self.ahead else five
        near = max(self.level[-self.windows[2] :])
        far = max(self.level[-self.windows[3] :])
        return np.array([short, minute, five, thirty, minute - minute_ago, season, near, far])

    def _target(self, made_at: int) -> float:
        """What the forecast of step `made_at` should have said: the highest short mean from its horizon on."""
        first = made_at + self.ahead - 1
        return max(self.level[first : first + self.span])

    def _known(self) -> int:
        """The last step whose target is complete."""
        return len(self.series) - self.ahead - self.span + 1

    def _score(self) -> None:
        made_at = self._known()
        if made_at < 1 or made_at > len(self.made):
            return
        truth, said = self._target(made_at), self.made[made_at - 1]
        level = max(said, self._mean(made_at, self.windows[-1]) * 0.1, 1e-9)
        self.errors.append((truth - said) / level)
        self.naive.append((truth - self.rows[made_at - 1][0]) / level)

    def _refit(self) -> None:
        last = self._known()
        first = max(0, last - self._memory())
        if last - first < 4 * FEATURES:
            return
        x = np.array(self.rows[first:last])
        y = np.array([self._target(step + 1) for step in range(first, last)])
        scale = max(float(y.mean()), 1e-9)
        prior = np.zeros(FEATURES)
        prior[2] = 1.0
        gram = x.T @ x / scale**2 + self.settings.ridge * np.eye(FEATURES) * len(x) * 0.001
        right = x.T @ y / scale**2 + self.settings.ridge * len(x) * 0.001 * prior
        self.weights = np.linalg.solve(gram, right)

    def _error_ratio(self) -> float:
        """Squared error against saying "as now"; above one the forecast does harm."""
        recent, naive = self.errors[-self._memory() :], self.naive[-self._memory() :]
        if len(recent) < self.settings.least_errors:
            return 1.0
        return float(np.mean(np.square(recent)) / max(float(np.mean(np.square(naive))), 1e-12))
