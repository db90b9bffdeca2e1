"""Letting a refused demand in by one or two moves: who goes, when nobody does, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.pack.ask import Ask
from dure.pack.codes import D_CODE, H_CPU, H_MEM, MPS, NEVER, WHOLE
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.holders import Holders
from dure.pack.relocate import Way, relocate
from tests.unit.pack.worlds import grid_of

PART = Part(mem=80_000, bw=1000, limit=4)
ONE, HALF = Ask(1000, 512, 1, WHOLE), Ask(1000, 512, 1, 500, mode=MPS)


def host(devices: int = 2, cpu: int = 64_000, mem: int = 65_536) -> Host:
    return Host(cpu, mem, 0, (PART,) * devices)


# Moves at any price: what the ways can do, apart from whether that is worth it.
DEAR = -1e3


def held(grid: Grid, *asks: tuple[Ask, Seat]) -> Holders:
    holders = Holders(grid.hardware.widest)
    for ask, seat in asks:
        grid.put(ask, seat)
        holders.add(ask, seat)
    return holders


def everything(grid: Grid, holders: Holders) -> list[object]:
    seats = [holders.seat(row) for row in range(holders.rows()) if holders.node[row] >= 0]
    return [seats, grid.hosts.tolist(), grid.devs.tolist(), grid.totals.tolist()]


def test_one_move_lets_a_wide_demand_in_where_a_half_leaves_for_the_other_half_of_a_device() -> None:
    grid = grid_of([host(2), host(2), host(1)])
    there = held(grid, (ONE, Seat(0, (0,), 0)), (HALF, Seat(1, (2,), 0)), (HALF, Seat(2, (4,), 0)))
    way = relocate(grid, ONE._replace(pieces=2), there, net=DEAR)
    assert way == Way(Seat(1, (2, 3), 0), (1,))
    assert there.seat(1) == Seat(2, (4,), 0)
    assert grid.idle_milli == 5000 - 1000 - 1000 - 2000


def test_two_leave_one_node_together_when_one_is_not_enough() -> None:
    grid = grid_of([host(2), host(1)])
    there = held(grid, (HALF, Seat(0, (0,), 0)), (HALF, Seat(0, (1,), 0)))
    wide = ONE._replace(pieces=2)
    assert relocate(grid, wide, there, 1, DEAR) is None
    way = relocate(grid, wide, there, 2, DEAR)
    assert way is not None
    assert (way.seat, sorted(way.moved)) == (Seat(0, (0, 1), 0), [0, 1])
    assert {there.seat(0).node, there.seat(1).node} == {1}


def test_one_leaves_for_a_seat_that_another_has_to_leave_first() -> None:
    """The big share has nowhere to go until the small one has left the second node's device for the third's."""
    grid = grid_of([host(2, cpu=15_000), host(1, cpu=9000), host(1, cpu=2000)])
    big, small = Ask(8000, 512, 1, 600, mode=MPS), Ask(2000, 512, 1, 450, mode=MPS)
    there = held(grid, (big, Seat(0, (0,), 0)), (small, Seat(1, (2,), 0)))
    wide = Ask(12_500, 512, 2, WHOLE)
    assert relocate(grid, wide, there, 1, DEAR) is None
    way = relocate(grid, wide, there, 2, DEAR)
    assert way == Way(Seat(0, (0, 1), 0), (0, 1))
    assert (there.seat(0).node, there.seat(1).node) == (1, 2)


def test_nothing_moves_when_no_move_helps_and_all_is_as_before() -> None:
    grid = grid_of([host(2), host(2)])
    there = held(grid, *((ONE, Seat(d // 2, (d,), 0)) for d in range(4)))
    before = everything(grid, there)
    assert relocate(grid, ONE._replace(pieces=2), there, net=DEAR) is None
    assert everything(grid, there) == before


def test_a_holder_whose_only_other_seat_is_the_one_that_was_freed_stays() -> None:
    """The half finds a seat beside itself now, but not once the wide demand took both devices of the node."""
    grid = grid_of([host(2), host(1)])
    full = Ask(1000, 512, 1, 800, mode=MPS)
    there = held(grid, (HALF, Seat(0, (0,), 0)), (full, Seat(1, (2,), 0)))
    before = everything(grid, there)
    assert relocate(grid, ONE._replace(pieces=2), there, net=DEAR) is None
    assert everything(grid, there) == before


@pytest.mark.parametrize(
    ("wish", "helped"),
    [
        (Ask(1000, 512, 2, WHOLE), True),
        (Ask(64_000, 512, 2, WHOLE), True),
        (Ask(64_001, 512, 2, WHOLE), False),
        (Ask(1000, 65_536, 2, WHOLE), True),
        (Ask(1000, 65_537, 2, WHOLE), False),
        (Ask(1000, 512, 2, WHOLE, types=1), True),
        (Ask(1000, 512, 2, WHOLE, types=2), False),
        (Ask(1000, 512, 3, WHOLE), False),
    ],
)
def test_a_move_helps_only_where_host_type_and_devices_would_be_enough_afterwards(wish: Ask, helped: bool) -> None:
    grid = grid_of([host(2), host(1)])
    there = held(grid, (HALF, Seat(0, (0,), 0)))
    way = relocate(grid, wish, there, net=DEAR)
    assert way == (Way(Seat(0, (0, 1), 0), (0,)) if helped else None)
    assert there.seat(0).node == int(helped)


def test_moves_that_win_less_than_the_others_lose_are_not_made() -> None:
    """Two whole devices that anybody could use are worth what they are taken for: no device is won."""
    for net, helped in ((DEAR, True), (2.0, False)):
        grid = grid_of([host(2), host(1)])
        there = held(grid, (HALF, Seat(0, (0,), 0)))
        before = everything(grid, there)
        assert (relocate(grid, ONE._replace(pieces=2), there, net=net) is not None) == helped
        assert (everything(grid, there) == before) != helped


def test_rows_of_those_who_left_are_used_again_and_rows_grow() -> None:
    holders = Holders(2)
    rows = [holders.add(ONE._replace(cpu=i % 40), Seat(i, (i,), 0)) for i in range(100)]
    assert rows == list(range(100))
    assert (holders.ask(77).cpu, holders.seat(77), len(holders.kinds)) == (37, Seat(77, (77,), 0), 40)
    holders.drop(5)
    assert (holders.count, holders.add(HALF, Seat(3, (9,), 0)), holders.count, holders.rows()) == (99, 5, 100, 100)
    assert holders.asks[holders.kind[5]].tolist() == list(HALF)
    first, here = holders.by_node(100)
    assert here[first[3] : first[4]].tolist() == [3, 5]
    assert here[first[5] : first[6]].tolist() == []


SIZES = st.sampled_from([250, 400, 500, 600, 800, WHOLE])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SIZES, st.integers(0, 4)), min_size=4, max_size=14), st.tuples(st.integers(1, 3), SIZES))
def test_moves_neither_lose_nor_overcommit_anything(asked: list[tuple[int, int]], wish: tuple[int, int]) -> None:
    grid = grid_of([host(2, cpu=6000), host(2, cpu=9000), host(3, cpu=8000)])
    holders = Holders(3)
    for milli, cpu in asked:
        ask = Ask(cpu * 1000, 512, 1, milli, mode=MPS) if milli < WHOLE else Ask(cpu * 1000, 512, 1, WHOLE)
        seat = grid.seat(ask)
        if seat is not None:
            holders.add(ask, seat)
    pieces, milli = wish
    newcomer = Ask(1000, 512, pieces, WHOLE) if pieces > 1 or milli == WHOLE else Ask(1000, 512, 1, milli, mode=MPS)
    before = everything(grid, holders)
    way = None if grid.least_costs([newcomer])[0] < NEVER else relocate(grid, newcomer, holders, net=DEAR)
    if way is None:
        assert everything(grid, holders) == before
        return
    assert len(way.moved) <= 2
    grid.free(newcomer, way.seat)
    for row in range(holders.rows()):
        grid.free(holders.ask(row), holders.seat(row))
    empty = grid_of([host(2, cpu=6000), host(2, cpu=9000), host(3, cpu=8000)])
    np.testing.assert_array_equal(grid.hosts[:, [H_CPU, H_MEM]], empty.hosts[:, [H_CPU, H_MEM]])
    np.testing.assert_array_equal(grid.devs[:, D_CODE], empty.devs[:, D_CODE])
