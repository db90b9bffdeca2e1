"""What is left of one device worth? The cutting-stock prices of the fractional demand.

Gilmore and Gomory's column generation: the fewest whole devices that hold the fractional demand, whose dual prices
say what each fraction is worth in devices; a knapsack over those prices then values any remainder. Called by `worth`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from dure.pack.codes import WHOLE

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
# So many steps are no work for an interpreter, and fewer than loading the compiler takes.
_PLAIN = 2_000


def remainder_values(sizes: Longs, amounts: Floats, reach: Floats) -> Floats:
    """Value in whole devices of every remainder 0..1000, one row for each level of host CPU that is left.

    `amounts` is the demand for each of the sorted `sizes` (thousandths of a device); `reach[level, i]` is the part of
    the demand for `sizes[i]` whose host CPU such a level can give.
    """
    if sizes.size == 0:
        return np.tile(np.where(np.arange(WHOLE + 1) == WHOLE, 1.0, 0.0), (reach.shape[0], 1))
    prices = _dual_prices(sizes, amounts / amounts.sum())
    top = max(knapsack(sizes, prices, WHOLE)[0][WHOLE], 1e-9)
    rows = [knapsack(sizes, prices * part, WHOLE)[0] / top for part in reach]
    values: Floats = np.minimum(np.array(rows), 1.0)
    return values


def _dual_prices(sizes: Longs, amounts: Floats) -> Floats:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    for amount in amounts:
        highs.addRow(float(amount), highspy.kHighsInf, 0, np.array([], np.int32), np.array([], np.float64))
    for i, size in enumerate(sizes):
        highs.addCol(1.0, 0.0, highspy.kHighsInf, 1, np.array([i], np.int32), np.array([float(WHOLE // int(size))]))
    prices = np.zeros(sizes.size)
    for _ in range(20 * sizes.size):
        highs.run()
        prices = np.maximum(np.array(highs.getSolution().row_dual), 0.0)
        values, take = knapsack(sizes, prices, WHOLE)
        if values[WHOLE] <= 1.0 + 1e-9:
            break
        pattern = unroll(sizes, take)
        rows = np.flatnonzero(pattern).astype(np.int32)
        highs.addCol(1.0, 0.0, highspy.kHighsInf, rows.size, rows, pattern[rows].astype(np.float64))
    return prices


def unroll(sizes: Longs, take: Longs) -> Longs:
    """The items of the best multiset for the whole room, counted."""
    pattern = np.zeros(sizes.size, np.int64)
    room = WHOLE
    while room > 0:
        item = take[room]
        if item >= 0:
            pattern[item] += 1
            room -= int(sizes[item])
        else:
            room -= 1
    return pattern


def knapsack(sizes: Longs, prices: Floats, room: int) -> tuple[Floats, Longs]:
    """Best price of any multiset of items for every room 0..room, and the item taken last (-1: the room below).

    Nothing changes between multiples of what all sizes share, so only those are worked out.
    """
    grain = int(np.gcd.reduce(sizes, initial=room)) or 1
    fill = _fill if (room // grain) * sizes.size <= _PLAIN else _compiled()
    best, last = fill(sizes // grain, prices, room // grain)
    values, take = np.repeat(best, grain)[: room + 1], np.full(room + 1, -1, np.int64)
    take[::grain] = last
    return values, take


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Loading the compiler takes a second; a few round sizes do without."""
    from numba import njit

    return njit(cache=True)(_fill)


def _fill(sizes: Longs, prices: Floats, room: int) -> tuple[Floats, Longs]:
    values = np.zeros(room + 1)
    take = np.full(room + 1, -1, np.int64)
    for r in range(1, room + 1):
        values[r] = values[r - 1]
        for i in range(sizes.shape[0]):
            if sizes[i] <= r and values[r - sizes[i]] + prices[i] > values[r] + 1e-12:
                values[r] = values[r - sizes[i]] + prices[i]
                take[r] = i
    return values, take
