"""Regret-greedy in plain Python: the first answer for small batches, and the twin that checks the compiled one.

A live cycle decides a handful of workloads; loading compiled kernels for them would cost more than the decision.
O(options x hours).
"""

from __future__ import annotations

import numpy as np

from dure.place.instance import HELD, LENGTH, NEED, QUOTA, ROW, START, Instance, Ints, Longs


def plain_regret_order(inst: Instance) -> Longs:
    """Jobs by falling regret: what the best option is better than the best one in another row or at another time."""
    regret = np.zeros(inst.jobs)
    for j in range(inst.jobs):
        span = slice(inst.first[j], inst.first[j + 1])
        cost, option = inst.cost[span], inst.option[span]
        if len(cost) == 0 or cost.min() >= inst.hold[j]:
            continue
        at = int(np.argmin(cost))
        apart = (option[:, ROW] != option[at, ROW]) | (
            np.abs(option[:, START] - option[at, START]) >= option[at, LENGTH]
        )
        second = min(float(cost[apart].min(initial=np.inf)), float(inst.hold[j]))
        regret[j] = second - cost[at]
    order: Longs = np.argsort(-regret, kind="stable")
    return order


def plain_insert(inst: Instance, order: Longs) -> Longs:
    """Give each job of `order` its cheapest option that still fits; -1 where none does."""
    choice = np.full(inst.jobs, HELD, np.int64)
    free, left = inst.capacity.copy(), inst.left.copy()
    for j in order:
        lo, hi = int(inst.first[j]), int(inst.first[j + 1])
        for o in lo + np.argsort(inst.cost[lo:hi], kind="stable"):
            if inst.cost[o] >= inst.hold[j]:
                break
            if _fits(inst, free, o) and _affords(inst, left, int(j), o):
                _take(inst, free, o)
                if inst.ledger[j] >= 0:
                    left[inst.ledger[j]] -= inst.drain[o]
                choice[j] = o
                break
    return choice


def _fits(inst: Instance, free: Ints, o: int) -> bool:
    row, quota, need = inst.option[o, ROW], inst.option[o, QUOTA], inst.need[inst.option[o, NEED]]
    span = slice(inst.option[o, START], inst.option[o, START] + inst.option[o, LENGTH])
    return bool((free[row, span] >= need).all() and (quota < 0 or (free[quota, span] >= need).all()))


def _affords(inst: Instance, left: np.ndarray[tuple[int, ...], np.dtype[np.float64]], j: int, o: int) -> bool:
    return inst.ledger[j] < 0 or bool((inst.drain[o] <= left[inst.ledger[j]]).all())


def _take(inst: Instance, free: Ints, o: int) -> None:
    row, quota, need = inst.option[o, ROW], inst.option[o, QUOTA], inst.need[inst.option[o, NEED]]
    span = slice(inst.option[o, START], inst.option[o, START] + inst.option[o, LENGTH])
    free[row, span] -= need
    if quota >= 0:
        free[quota, span] -= need
