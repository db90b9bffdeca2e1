"""What is a partly cut device (MIG, vNPU) still worth? The prices of the profiles that the demand asks for.

The fewest devices whose legal layouts hold the demand form a small linear program; its dual prices say what each
profile is worth in devices while everybody is to be seated. Where more waits than there is room for, a profile is
worth the slots it fills. Nobody knows which of the two comes, so the mean counts, and the best further placements at
that price value every mask of occupied slots. The counterpart of `cutting` for devices that are not cut freely.
Called by `worth`.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from dure.model.accelerator import Geometry
from dure.pack.slots import layout_values, layouts

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


def mask_values(geometry: Geometry, amounts: Floats, reach: Floats) -> Floats:
    """Value in whole devices of every occupied mask, one row for each level of host CPU that is left.

    `amounts[i]` is the demand for profile i, `reach[level, i]` the part of it whose host CPU such a level can give.
    Without demand for slices every profile counts by its slots.
    """
    if not amounts.any():
        return np.tile(np.array(layout_values(geometry, {})), (reach.shape[0], 1))
    sought = tuple(float(amount) for amount in amounts / amounts.sum())
    filled = [profile.slots / geometry.slots if sought[i] else 0.0 for i, profile in enumerate(geometry.profiles)]
    prices = (profile_prices(geometry, sought) + np.array(filled)) / 2
    top = max(float(_best_fill(geometry, prices[None, :])[0, 0]), 1e-9)
    values: Floats = np.minimum(_best_fill(geometry, prices * reach) / top, 1.0)
    return values


def profile_prices(geometry: Geometry, amounts: tuple[float, ...]) -> Floats:
    """Dual prices of covering the demand with layouts: what one slice of each profile is worth in devices."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    for amount in amounts:
        highs.addRow(amount, highspy.kHighsInf, 0, np.array([], np.int32), np.array([], np.float64))
    for pattern in patterns(geometry):
        rows = np.flatnonzero(pattern).astype(np.int32)
        highs.addCol(1.0, 0.0, highspy.kHighsInf, rows.size, rows, np.array(pattern, np.float64)[rows])
    highs.run()
    prices: Floats = np.maximum(np.array(highs.getSolution().row_dual), 0.0)
    return prices


@lru_cache(maxsize=16)
def patterns(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    """How many slices of each profile the legal layouts hold; those that others contain are left out."""
    counts = {
        tuple(Counter(name for name, _ in layout).get(profile.name, 0) for profile in geometry.profiles)
        for layout in layouts(geometry)
    }
    return tuple(sorted(one for one in counts if not any(_within(one, other) for other in counts)))


def _within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _best_fill(geometry: Geometry, prices: Floats) -> Floats:
    """The best price of further placements beside every occupied mask, one row for each row of prices."""
    values = np.zeros((len(prices), 1 << geometry.slots))
    for step in _steps(geometry):
        beside = prices[:, step.owner] + values[:, step.after]
        values[:, step.masks] = np.maximum.reduceat(beside, step.first, axis=1)
    return values


class _Step(NamedTuple):
    """Masks with as many slots occupied; of each, from `first` on, what may be placed beside it and the mask then."""

    masks: Longs
    first: Longs
    owner: Longs
    after: Longs


@lru_cache(maxsize=16)
def _steps(geometry: Geometry) -> tuple[_Step, ...]:
    """From the fullest masks to the empty one, so that what a placement leads to is known before it is asked for."""
    placements = [(bits, i) for i, profile in enumerate(geometry.profiles) for bits in profile.masks()]
    steps = []
    for occupied in range(geometry.slots, -1, -1):
        rows = [
            (mask, [(i, mask | bits) for bits, i in placements if not mask & bits])
            for mask in range(1 << geometry.slots)
            if mask.bit_count() == occupied
        ]
        rows = [(mask, beside) for mask, beside in rows if beside]
        if rows:
            ends = np.cumsum([len(beside) for _, beside in rows])
            owner, after = np.array([pair for _, beside in rows for pair in beside], np.int64).T
            steps.append(_Step(np.array([mask for mask, _ in rows]), np.concatenate(([0], ends[:-1])), owner, after))
    return tuple(steps)
