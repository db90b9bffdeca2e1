"""How long work really takes against its estimate: life tables from what ended and from what still runs.

Called by `eta`. A ratio is real over estimated time. What still runs counts as "at least so long" (censored), so that
long jobs are not learned only when they end. The chance to end in the next tenth of an e-fold is counted for each
group and drawn to that of all groups, which is drawn to a prior (a beta process, Hjort 1990). How alike neighbours
are is read off what each took against the table of those before it, as if it had been forecast (prequential, Dawid
1984). Beyond all that was seen the tail is heavy. O(past).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dure.place.likeness import Likeness, likeness, scores_beyond, scores_of
from dure.place.trust import Past

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Bins of the logarithm of the ratio.
_FIRST, _WIDTH, _BINS = -9.0, 0.1, 200
_EDGES = _FIRST + _WIDTH * np.arange(_BINS + 1)
# How many observations a prior weighs: of all groups for one, of the textbook for all.
_OF_ALL, _OF_PRIOR = 10.0, 5.0
# Log-logistic around one: nine of ten between a tenth and eight times the estimate.
_SURVIVING = 1.0 / (1.0 + np.exp(_EDGES / 0.7))
_PRIOR = 1.0 - _SURVIVING[1:] / _SURVIVING[:-1]
# So few are judged by the prior alone.
_FIRST_CHUNK = 8
_LEAST = 1e-9
_NO_GROUP = -1
# The row of the tables that counts everybody.
OF_ALL = -1


class LifeTables(NamedTuple):
    """`hazard[group, bin edge]` is cumulated, its last row that of all; `alike` says how much neighbours share."""

    number: dict[str, int]
    hazard: Floats
    alike: Likeness


def life_tables(groups: Sequence[str], ended: Sequence[Past], going: Sequence[Past]) -> LifeTables:
    """Tables of `groups` from what ended and what has used so much of its estimate by now."""
    number = {group: index for index, group in enumerate(sorted(set(groups)))}
    seen = sorted([*((one, True) for one in ended), *((one, False) for one in going)], key=lambda one: one[0].began_s)
    rows, bins = _placed([one for one, _ in seen], number)
    over = np.array([done for _, done in seen], np.bool_)
    counts = _Counts(len(number))
    scores = np.zeros(len(seen))
    for begin, end in _chunks(len(seen)):
        some = slice(begin, end)
        scores[some] = _scored(counts, rows[some], bins[some], over[some])
        counts.add(rows[some], bins[some], over[some])
    known = rows >= 0
    return LifeTables(number, counts.hazard(slice(None)), likeness(rows[known], scores[known]))


def sampled(tables: LifeTables, group: int, used: Floats, tolls: Floats) -> Floats:
    """`[sample, job]` ratios of jobs that have `used` so much and end when another `tolls` of hazard is paid."""
    hazard = tables.hazard[group]
    reached = np.interp(np.log(np.maximum(used, _LEAST)), _EDGES, hazard) + tolls
    # A cumulated hazard that stands still would make the inverse jump about.
    strict = hazard + 1e-12 * np.arange(_BINS + 1)
    beyond = np.maximum(0.0, reached - strict[-1])
    return np.asarray(np.maximum(used, np.exp(np.minimum(np.interp(reached, strict, _EDGES) + beyond, 50.0))))


class _Counts:
    """`[group, bin]` of those that ended and of those that run; the last row counts all."""

    def __init__(self, groups: int) -> None:
        self._deaths, self._present = np.zeros((groups + 1, _BINS)), np.zeros((groups + 1, _BINS))

    def add(self, rows: Longs, bins: Longs, over: Bools) -> None:
        for counts, mine in ((self._deaths, over), (self._present, ~over)):
            known = mine & (rows >= 0)
            np.add.at(counts, (rows[known], bins[known]), 1.0)
            np.add.at(counts[-1], bins[mine], 1.0)

    def hazard(self, which: slice | Longs) -> Floats:
        """`[group, bin edge]`, cumulated."""
        of_all = self._chance(slice(-1, None), _PRIOR, _OF_PRIOR)
        steps = -np.log1p(-np.minimum(self._chance(which, of_all[0], _OF_ALL), 0.999))
        return np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)

    def _chance(self, which: slice | Longs, drawn_to: Floats, weight: float) -> Floats:
        deaths, present = self._deaths[which], self._present[which]
        at_risk = np.cumsum((deaths + present)[:, ::-1], axis=1)[:, ::-1] - present
        return np.asarray((deaths + weight * drawn_to) / (at_risk + weight))


def _chunks(many: int) -> Iterator[tuple[int, int]]:
    """Begin and end of stretches that are each judged by all before them, each a quarter of those."""
    begin = 0
    while begin < many:
        end = min(many, begin + max(_FIRST_CHUNK, begin // 4))
        yield begin, end
        begin = end


def _scored(before: _Counts, rows: Longs, bins: Longs, over: Bools) -> Floats:
    """Normal scores of a stretch against the tables of those `before` it; zero for groups nobody asks for."""
    found = np.zeros(len(rows))
    known = np.flatnonzero(rows >= 0)
    if not len(known):
        return found
    which, mine = np.unique(rows[known], return_inverse=True)
    hazard = before.hazard(which)
    at, beyond = hazard[mine, bins[known]], hazard[mine, bins[known] + 1]
    found[known] = np.where(over[known], scores_of((at + beyond) / 2), scores_beyond(at))
    return found


def _placed(seen: Sequence[Past], number: dict[str, int]) -> tuple[Longs, Longs]:
    """The row (-1 for none) and the bin of each."""
    rows = np.array([number.get(one.group, _NO_GROUP) for one in seen], np.int64)
    ratios = np.array([one.ratio for one in seen], np.float64)
    bins = ((np.log(np.maximum(ratios, _LEAST)) - _FIRST) / _WIDTH).astype(np.int64)
    return rows, np.clip(bins, 0, _BINS - 1)
