"""Regret-greedy: the job that would lose most by missing its best option chooses first.

The first answer of the default solver. The second-best option counts only when it is another row or a disjoint
start, since two neighbouring hours of one pool are lost together. O(options) after O(jobs log jobs) for the order.
Not for use alone where capacity is short: it never takes a choice back.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.place.instance import HELD, Floats, Instance, Longs
from dure.place.kernels import affords, book, fits


def regret_order(inst: Instance, steer: Floats) -> Longs:
    """Jobs by falling regret; equal regrets keep the instance's canonical order."""
    regret = _regrets(inst.first, inst.option, steer, inst.hold)
    return np.argsort(-regret, kind="stable")


def insert_in_order(inst: Instance, steer: Floats, order: Longs) -> Longs:
    """Give each job of `order` its cheapest option that still fits; -1 where none does."""
    choice = np.full(inst.jobs, HELD, np.int64)
    free = inst.capacity.copy()
    left = inst.left.copy()
    _insert(inst.first, inst.option, steer, inst.hold, inst.need, inst.ledger, inst.drain, order, choice, free, left)
    return choice


@njit(cache=True)
def _regrets(first, option, steer, hold):  # type: ignore[no-untyped-def]
    jobs = len(hold)
    regret = np.zeros(jobs)
    for j in range(jobs):
        best, at = hold[j], HELD
        for o in range(first[j], first[j + 1]):
            if steer[o] < best:
                best, at = steer[o], o
        second = hold[j]
        if at >= 0:
            row, start, length = option[at, 0], option[at, 2], option[at, 3]
            for o in range(first[j], first[j + 1]):
                apart = option[o, 0] != row or abs(option[o, 2] - start) >= length
                if apart and steer[o] < second:
                    second = steer[o]
        regret[j] = second - best
    return regret


@njit(cache=True)
def _insert(first, option, steer, hold, need, ledger, drain, order, choice, free, left):  # type: ignore[no-untyped-def]
    for j in order:
        best, at = hold[j], HELD
        for o in range(first[j], first[j + 1]):
            if steer[o] < best and fits(option, need, free, o) and affords(ledger, drain, left, j, o):
                best, at = steer[o], o
        if at >= 0:
            book(option, need, ledger, drain, free, left, j, at, 1)
            choice[j] = at
