"""Lagrangian congestion prices: what one unit of a row in one hour is worth to those who compete for it.

Relaxing capacity into the objective leaves each job free to choose by cost + price of what it takes; the sum of
those choices minus the price of all capacity is a proven lower bound on any plan. Subgradient ascent with Polyak's
step and momentum. The prices steer `ruin`; the bound is the floor in the benchmarks. O(steps x options).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numba import njit

from dure.place.instance import HELD, Floats, Instance, Longs
from dure.place.solver import Ascent

DEFAULT = Ascent()


class Prices(msgspec.Struct, frozen=True):
    """`price[row, hour, resource]` per unit, the proven `bound`, and `rent[o]`, what option o pays at them."""

    price: Floats
    bound: float
    rent: Floats


def congestion_prices(inst: Instance, upper: float, ascent: Ascent = DEFAULT) -> Prices:
    """Best prices found on the way up from zero, with the bound they prove."""
    order = _cheapest_first(inst)
    price, bound = _ascend(
        inst.first, inst.option[order], inst.cost[order], inst.hold, inst.need, inst.capacity,
        upper, ascent.steps, ascent.momentum, ascent.scale, ascent.patience,
    )  # fmt: skip
    return Prices(price, float(bound), rents(inst, price))


def bound_at(inst: Instance, price: Floats) -> float:
    """What any prices that are not negative prove: no plan costs less."""
    edge = np.zeros((price.shape[0], price.shape[1] + 1, price.shape[2]), np.int64)
    order = _cheapest_first(inst)
    value = _relaxed(inst.first, inst.option[order], inst.cost[order], inst.hold, inst.need, _running(price), edge)
    return float(value - (price * inst.capacity).sum())


def _cheapest_first(inst: Instance) -> Longs:
    """The options of each job by bare cost: under prices, most of them are dearer than what is found first."""
    return np.lexsort((inst.cost, np.repeat(np.arange(inst.jobs), np.diff(inst.first))))


def rents(inst: Instance, price: Floats) -> Floats:
    """What each option pays for the capacity it takes at `price`."""
    rent: Floats = _rents(inst.option, inst.need, _running(price))
    return rent


@njit(cache=True)
def _running(price):  # type: ignore[no-untyped-def]
    rows, hours, resources = price.shape
    running = np.zeros((rows, hours + 1, resources))
    for r in range(rows):
        for h in range(hours):
            for k in range(resources):
                running[r, h + 1, k] = running[r, h, k] + price[r, h, k]
    return running


@njit(cache=True, inline="always")
def _rent(option, need, running, o):  # type: ignore[no-untyped-def]
    row, quota, start, n = option[o, 0], option[o, 1], option[o, 2], option[o, 4]
    end = start + option[o, 3]
    rent = 0.0
    for k in range(need.shape[1]):
        rent += need[n, k] * (running[row, end, k] - running[row, start, k])
        if quota >= 0:
            rent += need[n, k] * (running[quota, end, k] - running[quota, start, k])
    return rent


@njit(cache=True)
def _rents(option, need, running):  # type: ignore[no-untyped-def]
    rent = np.empty(len(option))
    for o in range(len(option)):
        rent[o] = _rent(option, need, running, o)
    return rent


@njit(cache=True)
def _relaxed(first, option, cost, hold, need, running, edge):  # type: ignore[no-untyped-def]
    """Every job at its cheapest option under the prices; `edge` gets the use as differences over hours.

    The options of a job come cheapest first: prices are never negative, so behind a dearer bare cost nothing can win.
    """
    value = 0.0
    edge[:] = 0
    for j in range(len(hold)):
        best, at = hold[j], HELD
        for o in range(first[j], first[j + 1]):
            if cost[o] >= best:
                break
            priced = cost[o] + _rent(option, need, running, o)
            if priced < best:
                best, at = priced, o
        value += best
        if at >= 0:
            row, quota, start, n = option[at, 0], option[at, 1], option[at, 2], option[at, 4]
            end = start + option[at, 3]
            for k in range(need.shape[1]):
                edge[row, start, k] += need[n, k]
                edge[row, end, k] -= need[n, k]
                if quota >= 0:
                    edge[quota, start, k] += need[n, k]
                    edge[quota, end, k] -= need[n, k]
    return value


@njit(cache=True)
def _ascend(first, option, cost, hold, need, capacity, upper, steps, momentum, scale, patience):  # type: ignore[no-untyped-def]
    rows, hours, resources = capacity.shape
    price = np.zeros((rows, hours, resources))
    best_price = price.copy()
    move = np.zeros((rows, hours, resources))
    edge = np.zeros((rows, hours + 1, resources), np.int64)
    best, stale = -np.inf, 0
    for _ in range(steps):
        value = _relaxed(first, option, cost, hold, need, _running(price), edge)
        norm = 0.0
        for r in range(rows):
            for k in range(resources):
                used = 0
                for h in range(hours):
                    used += edge[r, h, k]
                    value -= price[r, h, k] * capacity[r, h, k]
                    excess = float(used - capacity[r, h, k])
                    if excess < 0 and price[r, h, k] <= 0:
                        excess = 0.0
                    move[r, h, k] = momentum * move[r, h, k] + excess
                    norm += move[r, h, k] * move[r, h, k]
        if value > best:
            best, stale = value, 0
            best_price[:] = price
        else:
            stale += 1
            if stale >= patience:
                scale, stale = scale * 0.5, 0
                price[:] = best_price
                move[:] = 0
                continue
        if norm <= 0:
            break
        step = scale * max(upper - value, 1e-9) / norm
        for r in range(rows):
            for h in range(hours):
                for k in range(resources):
                    price[r, h, k] = max(0.0, price[r, h, k] + step * move[r, h, k])
    return best_price, best
