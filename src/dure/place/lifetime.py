"""How long work really takes against its estimate: life tables from what ended and from what still runs.

Called by `eta`. A ratio is real over estimated time. What still runs counts as "at least so long" (censored), so that
long jobs are not learned only when they end. The chance to end in the next tenth of an e-fold is counted for each
group and drawn to that of all groups, which is drawn to a prior (a beta process, Hjort 1990). Work of one group comes
in batches that are alike, so a sample of the future shares one factor on its chances for each group (shared
frailty); how much it varies is read off batches of the past. Beyond all that was seen the tail is heavy. O(past).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

# Bins of the logarithm of the ratio.
_FIRST, _WIDTH, _BINS = -9.0, 0.1, 200
_EDGES = _FIRST + _WIDTH * np.arange(_BINS + 1)
# How many observations a prior weighs: of all groups for one, of the textbook for all.
_OF_ALL, _OF_PRIOR = 10.0, 5.0
# Log-logistic around one: nine of ten between a tenth and eight times the estimate.
_SURVIVING = 1.0 / (1.0 + np.exp(_EDGES / 0.7))
_PRIOR = 1.0 - _SURVIVING[1:] / _SURVIVING[:-1]
_BATCH = 8
_MOST_ALIKE = 1.0
_LEAST = 1e-9
_NO_GROUP = -1


class Past(NamedTuple):
    """One observation: a group and a ratio."""

    group: str
    ratio: float


class LifeTables(NamedTuple):
    """`hazard[group, bin edge]` is the cumulated one; `alike` the variance of the factor that a batch shares."""

    number: dict[str, int]
    hazard: Floats
    alike: float


def life_tables(groups: Sequence[str], ended: Sequence[Past], going: Sequence[Past]) -> LifeTables:
    """Tables of `groups` from what ended, oldest first, and what has used so much of its estimate by now."""
    number = {group: index for index, group in enumerate(sorted(set(groups)))}
    rows, bins = _placed(ended, number)
    deaths, present = _counts(rows, bins, len(number)), _counts(*_placed(going, number), len(number))
    at_risk = np.cumsum((deaths + present)[:, ::-1], axis=1)[:, ::-1] - present
    of_all = (deaths[-1] + _OF_PRIOR * _PRIOR) / (at_risk[-1] + _OF_PRIOR)
    chance = (deaths + _OF_ALL * of_all) / (at_risk + _OF_ALL)
    steps = -np.log1p(-np.minimum(chance, 0.999))
    hazard = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    return LifeTables(number, hazard, _alike(rows, bins, hazard))


def sampled(tables: LifeTables, group: int, used: Floats, chance: Floats, factor: Floats) -> Floats:
    """`[sample, job]` ratios of jobs that have `used` so much, by `chance` in (0, 1] and the sample's `factor`."""
    hazard = tables.hazard[group]
    spent = np.interp(np.log(np.maximum(used, _LEAST)), _EDGES, hazard)
    reached = spent - np.log(chance) / factor[:, None]
    # A cumulated hazard that stands still would make the inverse jump about.
    strict = hazard + 1e-12 * np.arange(_BINS + 1)
    beyond = np.maximum(0.0, reached - strict[-1])
    return np.asarray(np.maximum(used, np.exp(np.minimum(np.interp(reached, strict, _EDGES) + beyond, 50.0))))


def _placed(seen: Sequence[Past], number: dict[str, int]) -> tuple[Longs, Longs]:
    """The row (-1 for none) and the bin of each."""
    rows = np.array([number.get(one.group, _NO_GROUP) for one in seen], np.int64)
    ratios = np.array([one.ratio for one in seen], np.float64)
    bins = ((np.log(np.maximum(ratios, _LEAST)) - _FIRST) / _WIDTH).astype(np.int64)
    return rows, np.clip(bins, 0, _BINS - 1)


def _counts(rows: Longs, bins: Longs, groups: int) -> Floats:
    """`[group, bin]`; the last row counts all."""
    found = np.zeros((groups + 1, _BINS))
    known = rows >= 0
    np.add.at(found, (rows[known], bins[known]), 1.0)
    np.add.at(found[-1], bins, 1.0)
    return found


def _alike(rows: Longs, bins: Longs, hazard: Floats) -> float:
    """Residuals (cumulated hazards at the end) are exponential; batch means that vary more share a factor."""
    means: list[float] = []
    for row in range(len(hazard) - 1):
        residuals = hazard[row, bins[rows == row] + 1]
        whole = len(residuals) // _BATCH * _BATCH
        means += residuals[:whole].reshape(-1, _BATCH).mean(axis=1).tolist()
    if len(means) < _BATCH:
        return _MOST_ALIKE / 4
    return min(_MOST_ALIKE, max(0.0, float(np.var(means)) - 1.0 / _BATCH))
