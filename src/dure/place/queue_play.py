"""A queue played forward in many samples of the future at once: when does each of those who wait start?

Called by `eta`. Each sample says how long everybody takes; whoever fits starts, in the order of the queue; in a
strict queue nobody passes the one in front. Plain Python for small queues, compiled by numba for large ones: the same
function. O(samples x ends x waiting) at worst, where most ask for more than becomes free.
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

# No pool, nobody.
_NONE = -1
# With fewer starts than this in all samples loading the compiler takes longer than the work.
_WORTH_COMPILING = 20_000


def play(
    ends: Floats, held: Longs, where: Longs, lasts: Floats, need: Longs, pools: Longs, free: Longs, now_s: float,
    *, strict: bool,
) -> Floats:  # fmt: skip
    """`[sample, waiting]` starts, infinite for what never fits.

    `ends[sample, running]` free `held` devices of pool `where`; those who wait last `lasts[sample, waiting]`, need
    devices in the first of their `pools` (padded by -1) with room. `free` is what is free now in each pool.
    """
    starts = np.full(lasts.shape, np.inf)
    large = ends.shape[0] * (ends.shape[1] + lasts.shape[1]) > _WORTH_COMPILING
    one = compiled() if large or compiled.cache_info().currsize else _one
    order = np.argsort(ends, axis=1, kind="stable")
    for sample in range(len(lasts)):
        one(
            ends[sample], order[sample], held, where, lasts[sample], need, pools, free.copy(), now_s, strict,
            starts[sample],
        )  # fmt: skip
    return starts


@lru_cache(maxsize=1)
def compiled() -> Any:
    """The compiled twin, for this and all later calls."""
    from numba import njit

    return njit(cache=True)(_one)


def _one(ends, order, held, where, lasts, need, pools, free, now_s, strict, starts):  # type: ignore[no-untyped-def]
    """One sample. Ends come from two sides: who runs now, sorted, and who was started here, in a heap.

    Where anybody may pass, those who wait found no room before; so only the pool that was given back can have some.
    """
    home = np.full(len(lasts), _NONE, np.int64)
    started = [(np.inf, _NONE)]
    first, following, at_s, back = 0, 0, now_s, _NONE
    left, least = len(lasts), need.min() if len(need) else 0
    while left:
        while home[first] >= 0:
            first += 1
        for j in range(first, len(lasts)):
            if back >= 0 and not strict and free[back] < least:
                break
            if home[j] < 0:
                for pool in pools[j]:
                    if pool >= 0 and free[pool] >= need[j]:
                        home[j] = pool
                        free[pool] -= need[j]
                        starts[j] = at_s
                        heapq.heappush(started, (at_s + lasts[j], j))
                        left -= 1
                        break
                if strict and home[j] < 0:
                    break
        if following < len(order) and ends[order[following]] <= started[0][0]:
            one = order[following]
            following += 1
            at_s, back = max(at_s, ends[one]), where[one]
            free[back] += held[one]
        else:
            end_s, j = heapq.heappop(started)
            if j < 0:
                break
            at_s, back = max(at_s, end_s), home[j]
            free[back] += need[j]
