"""What comes next on a series with seasons, with quantiles.

For each step ahead a few simple forecasters are mixed after how well they did on the newest part of the past: the
value of one season ago (seasonal-naive, for every season), the median of the last seasons at that hour, and a small
ridge regression on how far the series is off its season now. The quantiles are those of the mix's own errors there
(split conformal). Cost: O(horizon x past). A series shorter than three seasons gets seasonal-naive.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
# How sharply the mix prefers who was right: weights go with error to this negative power.
_SHARP = 4.0
_MEDIAN_OF = 4


class ForecastSettings(msgspec.Struct, frozen=True):
    """`seasons` in steps, shortest first: (24, 168) for hours of a day and of a week."""

    seasons: tuple[int, ...] = (24, 168)
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    ridge: float = 3.0
    held_out: float = 0.35
    floor: float | None = 0.0


DEFAULT = ForecastSettings()


class Forecast(msgspec.Struct, frozen=True):
    """`values[step]` has one value for each quantile; `method` says whether anything was learned."""

    quantiles: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    method: str


def seasonal_naive(past: Array, horizon: int, season: int) -> Array:
    """The value of one season ago, repeated."""
    last = past[-season:] if len(past) >= season else past[-1:]
    return np.resize(last, horizon)


def forecast(series: Sequence[float], horizon: int, settings: ForecastSettings = DEFAULT) -> Forecast:
    """The next `horizon` steps. Gaps (NaN) are taken from one season ago."""
    seasons = tuple(season for season in settings.seasons if len(series) >= 3 * season + 2 * horizon)
    past = _filled(np.asarray(series, float), seasons[0] if seasons else 1)
    if not seasons:
        return _naive(past, horizon, settings)
    rows = tuple(_step(past, ahead, seasons, settings) for ahead in range(1, horizon + 1))
    return Forecast(settings.quantiles, rows, "mixed")


def _step(past: Array, ahead: int, seasons: Sequence[int], settings: ForecastSettings) -> tuple[float, ...]:
    """One step ahead: what each forecaster would have said at every moment of the past, and says now."""
    first = max(2 * seasons[0], seasons[-1]) + ahead + 1
    moments = np.append(np.arange(first, len(past) - ahead), len(past) - 1)
    came = past[moments[:-1] + ahead]
    said = [past[moments + ahead - _lag(ahead, season)] for season in seasons]
    said += [_median(past, moments, ahead, season) for season in seasons]
    cut = max(1, int(len(came) * (1 - settings.held_out)))
    said.append(said[0] + _correction(past, moments, came, (ahead, cut), seasons, settings.ridge))
    table = np.stack(said, axis=1)
    misses = np.abs(table[cut:-1] - came[cut:, None]).mean(axis=0)
    trust = (misses + 1e-12 + 1e-9 * np.abs(came).mean()) ** -_SHARP
    mixed = table @ (trust / trust.sum())
    values = mixed[-1] + np.quantile(came[cut:] - mixed[cut:-1], settings.quantiles)
    return _floored(values, settings)


def _naive(past: Array, horizon: int, settings: ForecastSettings) -> Forecast:
    if len(past) == 0:
        return Forecast(settings.quantiles, (), "none")
    season = next((one for one in reversed(settings.seasons) if len(past) >= 2 * one), 1)
    errors = past[season:] - past[:-season] if len(past) > season else np.zeros(1)
    rows = tuple(
        _floored(value + np.quantile(errors, settings.quantiles), settings)
        for value in seasonal_naive(past, horizon, season)
    )
    return Forecast(settings.quantiles, rows, "seasonal-naive")


def _filled(past: Array, season: int) -> Array:
    known = past.copy()
    for index in np.flatnonzero(np.isnan(known)):
        before = known[index - season] if index >= season else np.nan
        known[index] = before if not np.isnan(before) else (known[index - 1] if index else 0.0)
    return np.nan_to_num(known)


def _median(past: Array, moments: Ints, ahead: int, season: int) -> Array:
    """Of the last seasons at that hour; where the past is too short, of those there are."""
    lags = _lag(ahead, season) + season * np.arange(_MEDIAN_OF)
    places = moments[:, None] + ahead - lags[None, :]
    values = np.where(places >= 0, past[np.maximum(places, 0)], np.nan)
    return np.asarray(np.nanmedian(values, axis=1))


def _correction(
    past: Array, moments: Ints, came: Array, at: tuple[int, int], seasons: Sequence[int], strength: float
) -> Array:
    """How far off seasonal-naive will be, by ridge regression: learned before `cut`, for the last moment on all."""
    ahead, cut = at
    features = _features(past, moments, ahead, seasons)
    wanted = came - past[moments[:-1] + ahead - _lag(ahead, seasons[0])]
    scaled = features / np.maximum(features[:-1].std(axis=0), 1e-9)
    early = scaled @ _ridge(scaled[:cut], wanted[:cut], strength)
    early[-1] = scaled[-1] @ _ridge(scaled[:-1], wanted, strength)
    return np.asarray(early)


def _features(past: Array, moments: Ints, ahead: int, seasons: Sequence[int]) -> Array:
    day = seasons[0]
    base = past[moments + ahead - _lag(ahead, day)]
    columns = [
        past[moments] - past[moments - day],
        past[moments - 1] - past[moments - 1 - day],
        past[moments + ahead - _lag(ahead, day) - day] - base,
        past[moments] - base,
        *(past[moments + ahead - _lag(ahead, season)] - base for season in seasons[1:]),
    ]
    return np.stack(columns, axis=1)


def _lag(ahead: int, season: int) -> int:
    """The smallest whole number of seasons that lies in the past."""
    return season * (-(-ahead // season))


def _ridge(features: Array, wanted: Array, strength: float) -> Array:
    size = features.shape[1]
    return np.asarray(np.linalg.solve(features.T @ features + strength * np.eye(size), features.T @ wanted))


def _floored(values: Array, settings: ForecastSettings) -> tuple[float, ...]:
    if settings.floor is not None:
        values = np.maximum(settings.floor, values)
    return tuple(float(value) for value in values)
