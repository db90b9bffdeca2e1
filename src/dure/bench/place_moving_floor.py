"""Under what no plan that keeps every deadline can go in money, though it may stop and move jobs at will.

Capacity is relaxed into prices as in `place.prices`. Under them a job either runs without a break, at its cheapest
region and start, or it is stopped at least once: then it takes at least its length and one interruption's slots, and
no fewer than the cheapest of its window, each in the region that is cheapest then, transfers for nothing. The smaller
of the two is what any plan pays for it at least. Called by `bench place`. O(steps x regions x starts).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.bench.demand import running_sum
from dure.bench.replay import Fleet, Jobs
from dure.place.instance import Floats
from dure.place.solver import Ascent

STEPS = Ascent(steps=2000, momentum=0.9, patience=100)


def moving_bound(work: Jobs, fleet: Fleet, interruption: int, upper: float, ascent: Ascent = STEPS) -> float:
    """A proven bound. An `interruption` is in slots; `upper`, the money of any plan, only makes it quicker."""
    last = int((work.latest + work.length).max())
    money = np.ascontiguousarray(fleet.price[:, :last])
    price, move = np.zeros_like(money), np.zeros_like(money)
    best, best_price, scale, stale = -np.inf, price, ascent.scale, 0
    for _ in range(ascent.steps):
        value, used = relaxed(work, money + price, interruption)
        value -= fleet.devices * float(price.sum())
        if value > best:
            best, best_price, stale = value, price, 0
        elif (stale := stale + 1) >= ascent.patience:
            scale, stale, price = scale / 2, 0, best_price
            move = np.zeros_like(move)
            continue
        excess = used - float(fleet.devices)
        move = ascent.momentum * move + np.where((excess < 0) & (price <= 0), 0.0, excess)
        norm = float((move * move).sum())
        if norm <= 0:
            break
        price = np.maximum(0.0, price + scale * max(upper - value, 1e-9) / norm * move)
    return best


def relaxed(work: Jobs, charged: Floats, interruption: int) -> tuple[float, Floats]:
    """What all jobs pay at least when a device-slot costs `charged`, and the devices that they then use."""
    cheapest = charged.argmin(axis=0)
    lowest = charged[cheapest, np.arange(charged.shape[1])]
    value, used = _relaxed(
        work.arrival, work.length, work.width, np.maximum(work.latest, work.arrival), running_sum(charged), cheapest,
        lowest, interruption,
    )  # fmt: skip
    return float(value), used


@njit(cache=True)
def _relaxed(arrival, length, width, latest, running, cheapest, lowest, interruption):  # type: ignore[no-untyped-def]
    regions, slots = running.shape[0], running.shape[1] - 1
    used = np.zeros((regions, slots))
    value = 0.0
    for j in range(len(arrival)):
        best, at_region, at_start = np.inf, 0, 0
        for region in range(regions):
            for start in range(arrival[j], latest[j] + 1):
                cost = running[region, start + length[j]] - running[region, start]
                if cost < best:
                    best, at_region, at_start = cost, region, start
        window = lowest[arrival[j] : latest[j] + length[j]]
        needed = length[j] + interruption
        broken = np.inf
        if needed <= len(window):
            order = np.argsort(window, kind="mergesort")
            broken = 0.0
            for at in range(needed):
                broken += window[order[at]]
        value += width[j] * min(best, broken)
        if broken < best:
            for at in range(needed):
                slot = arrival[j] + order[at]
                used[cheapest[slot], slot] += width[j]
        else:
            for slot in range(at_start, at_start + length[j]):
                used[at_region, slot] += width[j]
    return value, used
