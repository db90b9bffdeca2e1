"""Nodes that are still whole are guarded while wide demand is expected."""

from __future__ import annotations

import numpy as np

from dure.pack.commit import set_guard
from dure.pack.index import LANES


def guard(
    stock: dict[int, int], *, idle: int = 0, reserve: int = 0, spread: int = 0, wants: dict[int, int]
) -> list[int]:
    """Guards by lane for so many whole nodes of each lane; a price of 7."""
    totals, needs = np.zeros(1 + LANES, np.int64), np.zeros(3 + LANES, np.int64)
    totals[0], needs[:3] = idle, (7, reserve, spread)
    for lane, count in stock.items():
        totals[1 + lane] = count
    for lane, per_idle in wants.items():
        needs[2 + lane] = per_idle
    found = np.full(LANES, -1, np.int64)
    set_guard(found, totals, needs)
    return [int(one) for one in found[1:]]


def test_a_lane_is_guarded_until_its_stock_exceeds_the_reserve() -> None:
    lanes = LANES - 1
    assert guard({1: 3}, reserve=3000, wants={1: 1}) == [7] * lanes
    assert guard({1: 4}, reserve=3000, wants={1: 1}) == [0] * lanes


def test_a_lane_that_nobody_wants_is_not_guarded() -> None:
    assert set(guard({1: 0}, reserve=3000, wants={})) == {0}


def test_nodes_of_a_higher_lane_serve_the_lower_ones_and_guards_add_up() -> None:
    top = LANES - 1
    assert guard({top: 4}, reserve=3000, wants={1: 1, top: 1}) == [0] * top
    assert guard({top: 2}, reserve=3000, wants={1: 1, top: 1})[-1] == 14
    assert guard({1: 4, top: 2}, reserve=3000, wants={1: 1, top: 1}) == [0] * (top - 1) + [7]


def test_the_stock_exceeds_what_is_wanted_by_some_of_its_square_roots() -> None:
    """Nine nodes are wanted for nine idle devices: with one square root beside, twelve are still too few."""
    wants = {1: 1_000_000}
    nine = 9_000
    assert guard({1: 9}, idle=nine, wants=wants)[0] == 7
    assert guard({1: 10}, idle=nine, wants=wants)[0] == 0
    assert guard({1: 12}, idle=nine, spread=1000, wants=wants)[0] == 7
    assert guard({1: 13}, idle=nine, spread=1000, wants=wants)[0] == 0
