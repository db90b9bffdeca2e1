"""What a series should be, given the hour and what drives it: a robust regression on the quiet past.

`watch.anomaly` subtracts it. Drivers are other series of the same matrix (load explains power, latency and cost); a
driver enters as a line with bends, and with its last value (heat follows late). The usual value of the hour is a
median over days, so one bad day does not move it. Cost: O(steps x drivers^2) a series, a few rounds of reweighting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ROUNDS, _HUBER = 5, 1.5
# A driver's effect is a line with bends at these quantiles of its quiet past.
_BENDS = (0.5, 0.8, 0.95, 0.99)
# The spread is taken apart into this many levels.
_BINS = 8


class Explained(Protocol):
    """What is asked of a series' description; `anomaly.Watched` is one."""

    @property
    def name(self) -> str: ...

    @property
    def drivers(self) -> tuple[str, ...]: ...


class Explanation(NamedTuple):
    """What was expected, what is left over, and how much less that counts where drivers were never seen."""

    expected: Array
    residuals: Array
    doubt: Array


def explained(values: Array, watched: Sequence[Explained], quiet: int, season: int) -> Explanation:
    """Every series at every step, fitted on the first `quiet` steps."""
    column = {one.name: index for index, one in enumerate(watched)}
    expected, residuals, doubt = np.empty_like(values), np.empty_like(values), np.ones_like(values)
    for index, one in enumerate(watched):
        drivers = [column[name] for name in one.drivers if name in column and name != one.name]
        series, powers = values[:, index], _multiplies(values[:quiet, index])
        found = _expected(np.log(series) if powers else series, values[:, drivers], quiet, season)
        residuals[:, index] = _evened((np.log(series) if powers else series) - found, found, quiet)
        expected[:, index] = np.exp(found) if powers else found
        if drivers:
            doubt[:, index] = _doubt(values[:, drivers], quiet)
    return Explanation(expected, residuals, doubt)


def _evened(residuals: Array, level: Array, quiet: int) -> Array:
    """Residuals in units of the spread that is usual at this level: a busy device is less steady than an idle one."""
    calm, where = residuals[:quiet], level[:quiet]
    edges = np.quantile(where, np.linspace(0, 1, _BINS + 1))
    if edges[-1] - edges[0] < 1e-9:
        return residuals
    whole = max(float(np.nanmedian(np.abs(calm))), 1e-12)
    centres, spreads = [], []
    for low, high in pairwise(edges):
        mine = calm[(where >= low) & (where <= high)]
        centres.append((low + high) / 2)
        spreads.append(max(float(np.nanmedian(np.abs(mine))), 0.3 * whole) if len(mine) >= _BINS else whole)
    return residuals / np.interp(level, centres, spreads)


def _multiplies(calm: Array) -> bool:
    """Latencies and queues vary in proportion; their logarithm is what has an even spread."""
    known = calm[np.isfinite(calm)]
    return bool(len(known) > 0 and known.min() > 0 and np.quantile(known, 0.99) > 2 * np.median(known))


def _doubt(drivers: Array, quiet: int) -> Array:
    """1 inside the range of the quiet past; beyond it a regression only guesses."""
    low, high = np.nanquantile(drivers[:quiet], 0.002, axis=0), np.nanquantile(drivers[:quiet], 0.998, axis=0)
    span = np.maximum(high - low, 1e-9)
    beyond = np.maximum(np.maximum(drivers - high, low - drivers), 0) / span
    return np.asarray(1 + 40 * np.nan_to_num(beyond).max(axis=1))


def _expected(series: Array, drivers: Array, quiet: int, season: int) -> Array:
    usual = _profile(series, quiet, season)
    if drivers.shape[1] == 0:
        return usual
    filled = np.nan_to_num(drivers)
    bends = np.quantile(filled[:quiet], _BENDS, axis=0)
    before = np.vstack([filled[:1], filled[:-1]])
    features = np.column_stack(
        [np.ones(len(series)), usual, filled, before, *(np.maximum(filled - bend, 0) for bend in bends)]
    )
    scale = np.maximum(np.abs(features[:quiet]).max(axis=0), 1e-9)
    known = np.isfinite(series[:quiet])
    weights = _huber(features[:quiet][known] / scale, series[:quiet][known])
    return np.asarray(features / scale @ weights)


def _profile(series: Array, quiet: int, season: int) -> Array:
    """The median of each step of the season; with less than two seasons of past the median of all."""
    calm = series[:quiet]
    if quiet < 2 * season:
        return np.full(len(series), np.nanmedian(calm) if np.isfinite(calm).any() else 0.0)
    days = quiet // season
    stacked = calm[quiet - days * season :].reshape(days, season)
    shift = (quiet - days * season) % season
    found = np.nanmedian(stacked, axis=0) if np.isfinite(stacked).any() else np.zeros(season)
    phase = (np.arange(len(series)) - shift) % season
    return np.asarray(np.nan_to_num(_smooth(found))[phase])


def _smooth(profile: Array) -> Array:
    """Over half an hour or so either way: a median of few days is rough."""
    width = max(1, len(profile) // 48)
    kernel = np.ones(2 * width + 1) / (2 * width + 1)
    return np.convolve(np.concatenate([profile[-width:], profile, profile[:width]]), kernel, mode="valid")


def _huber(features: Array, wanted: Array) -> Array:
    """Least squares, then again with what is far off counting less."""
    weights = np.ones(len(wanted))
    ridge = 1e-6 * np.eye(features.shape[1])
    found: Array = np.zeros(features.shape[1])
    for _ in range(_ROUNDS):
        weighed = features * weights[:, None]
        found = np.asarray(np.linalg.solve(weighed.T @ features + ridge, weighed.T @ wanted))
        off = np.abs(wanted - features @ found)
        spread = max(1.4826 * float(np.median(off)), 1e-12)
        weights = np.minimum(1.0, _HUBER * spread / np.maximum(off, 1e-12))
    return found
