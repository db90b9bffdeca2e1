"""Which whole devices of a node go together: neighbours in one link group, else as few groups as there are.

The array twin of `fit.linked`; called by `kernels` where the choice has a price and by `commit` to take it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dure.pack.codes import (
    COUNT,
    CUT0,
    D_BW,
    D_CLIENTS,
    D_CODE,
    D_LINK,
    D_MEM,
    DBW,
    DMEM,
    H_FIRST,
    H_SIZE,
    WHOLE,
    Ints,
)

Scalar = Any  # numba infers machine integers


@njit(cache=True, inline="always")
def is_whole(code: int) -> Scalar:
    return code in (WHOLE, CUT0)


@njit(cache=True, inline="always")
def usable(devs: Ints, d: int, ask: Ints) -> Scalar:
    """Whether device d can be taken as a whole. An ill one has the code of a full one."""
    return (
        devs[d, D_CLIENTS] == 0
        and is_whole(devs[d, D_CODE])
        and devs[d, D_MEM] >= ask[DMEM]
        and devs[d, D_BW] >= ask[DBW]
    )


@njit(cache=True)
def pick_whole(hosts: Ints, devs: Ints, n: int, ask: Ints, out: Ints) -> None:
    """Whole devices for the ask: the tightest contiguous run in one link group, else whole groups, tightest last."""
    want, start, stop = ask[COUNT], hosts[n, H_FIRST], hosts[n, H_FIRST] + hosts[n, H_SIZE]
    best_run, best_at, run = 1 << 30, -1, 0
    for d in range(start, stop + 1):
        free = d < stop and usable(devs, d, ask)
        if free and run > 0 and devs[d, D_LINK] == devs[d - 1, D_LINK]:
            run += 1
            continue
        if want <= run < best_run:
            best_run, best_at = run, d - run
        run = 1 if free else 0
    if best_at < 0:
        pick_groups(hosts, devs, n, ask, out)
        return
    for i in range(want):
        out[i] = best_at + i


@njit(cache=True)
def pick_groups(hosts: Ints, devs: Ints, n: int, ask: Ints, out: Ints) -> None:
    """Fill from link groups: one that holds all that is missing (the tightest), else the largest, and again."""
    start, stop = hosts[n, H_FIRST], hosts[n, H_FIRST] + hosts[n, H_SIZE]
    groups = np.zeros(256, np.int64)
    for d in range(start, stop):
        groups[devs[d, D_LINK]] += usable(devs, d, ask)
    taken = 0
    while taken < ask[COUNT]:
        chosen = tightest_group(devs, groups, start, stop, ask, ask[COUNT] - taken)
        for d in range(start, stop):
            if taken < ask[COUNT] and devs[d, D_LINK] == chosen and usable(devs, d, ask):
                out[taken] = d
                taken += 1
        groups[chosen] = 0


@njit(cache=True)
def tightest_group(devs: Ints, groups: Ints, start: int, stop: int, ask: Ints, want: int) -> Scalar:
    """Of equal groups the one whose free device comes first."""
    chosen, best = 0, -1
    for d in range(start, stop):
        here = groups[devs[d, D_LINK]] if usable(devs, d, ask) else -1
        if (here >= want and (best < want or here < best)) or (here < want and best < want and here > best):
            chosen, best = devs[d, D_LINK], here
    return chosen
