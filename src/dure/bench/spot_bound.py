"""The clairvoyant bound of `dure bench spot`: the least that a job could have cost, the whole market known.

Exact backward induction over ticks and work, progress rounded up to thirteenths of a tick, so that it stays a bound.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dure.bench.spot_replay import Bools, Job
from dure.model.units import Seconds

_PARTS = 13


def least_cost(job: Job, up: Bools, gap_s: Seconds) -> float:
    """In seconds of on-demand; `up` is whether any zone is, and changing zones is taken as free."""
    load = math.ceil(job.restart_s / gap_s - 1e-9)
    first = math.ceil((load * gap_s - job.restart_s) / gap_s * _PARTS)
    work = math.ceil(job.work_s / gap_s * _PARTS - 1e-9)
    ticks = math.ceil(job.deadline_s / gap_s)
    long_enough = np.resize(up, ticks)
    return float(_induced(long_enough, ticks, work, load, first, job.price)) * gap_s


@njit(cache=True)
def _induced(up: Bools, ticks: int, work: int, load: int, first: int, price: float) -> float:
    never = 1e18
    # A ring of the following `load` ticks: [tick, idle/spot/on-demand, work left].
    ring = np.full((load + 1, 3, work + 1), never)
    ring[:, :, 0] = 0.0
    for tick in range(ticks - 1, -1, -1):
        row = tick % (load + 1)
        following, loaded = (tick + 1) % (load + 1), (tick + load) % (load + 1)
        stays = tick + load <= ticks
        for ahead in range(load):
            stays = stays and (tick + ahead >= ticks or up[tick + ahead])
        for left in range(1, work + 1):
            after = max(0, left - _PARTS)
            part = min(1.0, left / _PARTS)
            begun = max(0, left - first)
            best = ring[following, 0, left]
            if tick + load <= ticks:
                best = min(best, load + ring[loaded, 2, begun])
                if stays:
                    best = min(best, load * price + ring[loaded, 1, begun])
            spot = price * part + ring[following, 1, after] if up[tick] else never
            rented = part + ring[following, 2, after]
            ring[row, 0, left], ring[row, 1, left], ring[row, 2, left] = best, min(best, spot), min(best, rented)
    return float(ring[0, 0, work])
