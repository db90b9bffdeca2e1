"""Nodes that are still whole are guarded while wide demand is expected."""

from __future__ import annotations

import numpy as np
import pytest

from dure.pack.ask import Ask
from dure.pack.codes import LANES, WHOLE
from dure.pack.commit import set_guard
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.worth import Hardware, WorthSettings


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


@pytest.mark.parametrize(("guard", "chosen"), [(0.0, 0), (50.0, 1)])
def test_the_last_room_for_four_is_left_to_them_though_a_single_device_costs_least_there(
    guard: float, chosen: int
) -> None:
    """One node has four devices and cores for them, the other three; a single one leaves two of these without any."""
    hardware = Hardware((16,), 8, 96_000, wide_cpu=(96_000,))
    grid = Grid([Host(96_000, 800_000, 0, (Part(),) * 8)] * 2, hardware, WorthSettings(guard=guard))
    grid.arrived([Ask(60_000, 200_000, 4, WHOLE), *[Ask(8_000, 30_000, 1, WHOLE)] * 9] * 8)
    grid.put(Ask(30_000, 200_000, 4, WHOLE), Seat(0, (0, 1, 2, 3), 0))
    grid.put(Ask(85_000, 200_000, 5, WHOLE), Seat(1, (8, 9, 10, 11, 12), 0))
    seat = grid.seat(Ask(8_000, 30_000, 1, WHOLE))
    assert seat is not None
    assert seat.node == chosen
    assert (grid.fork().seat(Ask(60_000, 200_000, 4, WHOLE)) is None) == (chosen == 0)
