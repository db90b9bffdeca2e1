"""Regret-greedy in plain Python: the first answer for small batches, and the twin that checks the compiled one.

A live cycle decides a handful of workloads; loading compiled kernels for them would cost more than the decision.
O(options x hours).
"""

from __future__ import annotations

import numpy as np

from dure.place.instance import HELD, LENGTH, ROW, START, Floats, Instance, Ints, Longs


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
        choice[j] = _better(inst, choice, free, left, int(j))
    return choice


def plain_settle(inst: Instance, choice: Longs) -> Longs:
    """Give every job the cheapest option that is free for it, until nobody wants to change any more."""
    choice = choice.copy()
    free, left = inst.capacity.copy(), inst.left.copy()
    for j in range(inst.jobs):
        _book(inst, free, left, j, int(choice[j]), 1)
    moved = True
    while moved:
        moved = False
        for j in range(inst.jobs):
            better = _better(inst, choice, free, left, j)
            moved = moved or better != choice[j]
            choice[j] = better
    return choice


def _better(inst: Instance, choice: Longs, free: Ints, left: Floats, j: int) -> int:
    """The cheapest option that job `j` could have with all others where they are; booked already."""
    now, lo, hi = int(choice[j]), int(inst.first[j]), int(inst.first[j + 1])
    paid = inst.cost[now] if now >= 0 else inst.hold[j]
    cheaper = lo + np.flatnonzero(inst.cost[lo:hi] < paid)
    if len(cheaper) == 0:
        return now
    _book(inst, free, left, j, now, -1)
    for o in cheaper[np.argsort(inst.cost[cheaper], kind="stable")]:
        if _fits(inst, free, o) and _affords(inst, left, j, o):
            now = int(o)
            break
    _book(inst, free, left, j, now, 1)
    return now


def _fits(inst: Instance, free: Ints, o: int) -> bool:
    row, quota, start, length, need = inst.option[o]
    units = inst.need[need]
    span = slice(start, start + length)
    return bool((free[row, span] >= units).all() and (quota < 0 or (free[quota, span] >= units).all()))


def _affords(inst: Instance, left: Floats, j: int, o: int) -> bool:
    return inst.ledger[j] < 0 or bool((inst.drain[o] <= left[inst.ledger[j]]).all())


def _book(inst: Instance, free: Ints, left: Floats, j: int, o: int, sign: int) -> None:
    if o < 0:
        return
    row, quota, start, length, need = inst.option[o]
    free[row, start : start + length] -= sign * inst.need[need]
    if quota >= 0:
        free[quota, start : start + length] -= sign * inst.need[need]
    if inst.ledger[j] >= 0:
        left[inst.ledger[j]] -= sign * inst.drain[o]
