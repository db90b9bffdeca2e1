"""The cheapest node of each block and lane, kept up to date by changes: the same as looking at all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.pack import codes
from dure.pack.ask import Ask
from dure.pack.codes import (
    ASK_FIELDS,
    EXCLUSIVE,
    H_LANE,
    H_TAG,
    LANES,
    MPS,
    NEVER,
    SCALARS,
    TIER,
    TIERS,
    WHOLE,
    WIDE,
    Ints,
)
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.index import BLOCK, catch_up, cheapest, new_index, price_all, rescan, spared_lanes
from dure.pack.kernels import node_cost
from tests.unit.pack.worlds import grid_of

PART = Part(mem=80_000, bw=1000, limit=4)
NODES = BLOCK + 6
PROBES = (Ask(1000, 512, 1, 300, mode=MPS), Ask(2000, 512, 2, WHOLE), Ask(500, 0, 0, 0))


def hosts(nodes: int = NODES) -> list[Host]:
    return [Host(8000 + 1000 * (n % 5), 65_536, n % 2, (PART,) * (1 + n % 2)) for n in range(nodes)]


def test_an_empty_index_knows_no_node_and_has_a_block_for_each_64() -> None:
    for nodes, blocks in ((1, 1), (BLOCK, 1), (BLOCK + 1, 2), (2 * BLOCK, 2)):
        made = new_index(nodes, 3)
        assert made.cost.shape == (3, nodes)
        assert made.best.shape == made.least.shape == (3, LANES, blocks)
        assert (made.log.shape, made.mark.shape) == ((max(BLOCK, nodes),), (nodes,))
        assert (made.asks.shape, made.guard.shape, made.clock.tolist()) == ((3, ASK_FIELDS), (LANES,), [0, 0])
        assert (set(made.best.flat), set(made.least.flat), made.seen.tolist()) == ({-1}, {NEVER}, [-1] * 3)


def least_of(cost: Ints, hosts: Ints, block: int, lane: int) -> tuple[int, int] | None:
    """The smallest price of one block and lane, and the smallest tag that has it."""
    inside = range(block * BLOCK, min((block + 1) * BLOCK, len(hosts)))
    found = [(int(cost[n]), int(hosts[n, H_TAG])) for n in inside if hosts[n, H_LANE] == lane and cost[n] != NEVER]
    return min(found, default=None)


def assert_kept(grid: Grid, row: int) -> None:
    """What is kept of a shape equals prices made anew and the smallest of each block and lane."""
    ix, ask = grid.index, grid.index.asks[row]
    anew = [node_cost(grid.hosts, grid.devs, *grid.priced.tables, n, ask) for n in range(len(grid.hosts))]
    assert ix.cost[row].tolist() == anew
    for block in range(ix.best.shape[2]):
        for lane in range(LANES):
            n, price = int(ix.best[row, lane, block]), int(ix.least[row, lane, block])
            found = None if n < 0 else (price, int(grid.hosts[n, H_TAG]))
            assert found == least_of(ix.cost[row], grid.hosts, block, lane)
            assert n >= 0 or price == NEVER
            assert n < 0 or (n // BLOCK, int(grid.hosts[n, H_LANE])) == (block, lane)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_a_block_is_looked_through_for_the_smallest_price_then_tag_of_each_lane(seed: int, variety: int) -> None:
    chance = np.random.default_rng(seed)
    made = new_index(NODES, 2)
    made.cost[1] = chance.choice([*range(-variety, variety), NEVER], NODES)
    rows = np.zeros((NODES, 8), np.int64)
    rows[:, H_LANE], rows[:, H_TAG] = chance.integers(0, LANES, NODES), chance.integers(0, variety, NODES)
    for block in range(2):
        rescan(made.cost, made.best, made.least, rows, 1, block)
        for lane in range(LANES):
            n, price = int(made.best[1, lane, block]), int(made.least[1, lane, block])
            found = None if n < 0 else (price, int(rows[n, H_TAG]))
            assert found == least_of(made.cost[1], rows, block, lane)
    assert (made.best[0] == -1).all(), "another shape is left alone"


def test_pricing_all_writes_the_row_of_one_shape() -> None:
    grid = grid_of(hosts())
    grid.put(PROBES[0], Seat(3, (4,), 0))
    row = [grid.row(probe) for probe in PROBES][1]
    ix = grid.index
    price_all(ix.cost, ix.best, ix.least, grid.hosts, grid.devs, *grid.priced.tables, row, ix.asks[row])
    assert_kept(grid, row)
    assert not ix.cost[[0, 2]].any()


@pytest.mark.parametrize("seed", range(3))
def test_prices_and_minima_are_kept_through_any_run_of_changes(seed: int) -> None:
    """Sometimes more changes than the log is long lie between two looks at a shape."""
    chance = random.Random(seed)
    grid = grid_of(hosts())
    rows = [grid.row(probe) for probe in PROBES]
    held: list[tuple[Ask, Seat]] = []
    for changes in (0, 1, 2, 9, 40, grid.index.log.size - 1, grid.index.log.size, 3):
        for _ in range(changes):
            ask = chance.choice(PROBES)
            if held and chance.random() < 0.4:
                grid.free(*held.pop(chance.randrange(len(held))))
                continue
            able = [n for n in range(NODES) if _fits(grid, n, ask)]
            node = chance.choice(able[:5])
            held.append((ask, grid.seat_on(ask, node)))
        for row in chance.sample(rows, 2):
            ix = grid.index
            catch_up(*ix[:8], grid.hosts, grid.devs, *grid.priced.tables, row)
            assert int(ix.seen[row]) == int(ix.clock[0])
            assert_kept(grid, row)


def _fits(grid: Grid, n: int, ask: Ask) -> bool:
    return bool(node_cost(grid.hosts, grid.devs, *grid.priced.tables, n, ask.row()) != NEVER)


def test_only_what_changed_is_priced_again_until_the_log_is_too_short() -> None:
    grid = grid_of(hosts())
    row, ix = grid.row(PROBES[0]), grid.index
    args = (*ix[:8], grid.hosts, grid.devs, *grid.priced.tables, row)
    catch_up(*args)
    true = ix.cost[row].copy()
    ix.cost[row] = 7
    ix.log[0], ix.clock[0] = 5, 1
    catch_up(*args)
    assert ix.cost[row].tolist() == [true[5] if n == 5 else 7 for n in range(NODES)]
    ix.clock[0] += ix.log.size - 1
    catch_up(*args)
    assert ix.cost[row].tolist() == [true[n] if n in (0, 5) else 7 for n in range(NODES)], "the log says 0 so far"
    ix.clock[0] += ix.log.size
    catch_up(*args)
    assert ix.cost[row].tolist() == true.tolist()


def test_the_cheapest_node_over_all_blocks_is_the_one_with_the_smaller_tag_among_equals() -> None:
    grid = grid_of(hosts(3 * BLOCK))
    row, ix = grid.row(PROBES[0]), grid.index
    args = (*ix, grid.hosts, grid.devs, *grid.priced.tables, row)
    cheapest(*args)
    ix.least[row], ix.best[row] = NEVER, -1
    assert cheapest(*args) == -1, "nothing changed, so what is kept is believed"
    for tags in ((3, 1, 2), (1, 2, 3), (2, 3, 1)):
        for block, tag in enumerate(tags):
            n = block * BLOCK + 1
            ix.least[row, 0, block], ix.best[row, 0, block], grid.hosts[n, H_TAG] = 50, n, tag
        assert cheapest(*args) == tags.index(1) * BLOCK + 1
    ix.least[row, 0, 2] = 49
    assert cheapest(*args) == 2 * BLOCK + 1


def test_a_guarded_lane_costs_more_than_the_lanes_that_are_kept_for_the_ask() -> None:
    grid = grid_of(hosts(2 * BLOCK))
    row, ix = grid.row(PROBES[0]), grid.index
    args = (*ix, grid.hosts, grid.devs, *grid.priced.tables, row)
    cheapest(*args)
    ix.least[row], ix.best[row] = NEVER, -1
    for lane, block, price in ((0, 0, 50), (2, 1, 40)):
        ix.least[row, lane, block], ix.best[row, lane, block] = price, block * BLOCK
    for guard, chosen in ((0, BLOCK), (9, BLOCK), (11, 0)):
        ix.guard[:] = [0, 0, guard, guard, guard, guard]
        assert cheapest(*args) == chosen
    ix.guard[:], ix.least[row, 2, 1] = [20, 0, 0, 0, 0, 0], 60
    assert cheapest(*args) == 0, "nobody is paid for leaving a guarded lane"


def test_a_wide_ask_is_spared_the_guard_of_the_lanes_that_it_needs() -> None:
    scal = np.zeros(SCALARS, np.int64)
    scal[codes.PART], scal[WIDE], scal[TIER : TIER + TIERS] = 2, 4, (10, 20, 30, int(NEVER))

    def spared(cpu: int, count: int = 4, mode: int = EXCLUSIVE) -> int:
        return int(spared_lanes(scal, Ask(cpu, 0, count, WHOLE, mode=mode).row()))

    assert [spared(cpu) for cpu in (0, 10, 11, 20, 21, 30, 31)] == [2, 2, 3, 3, 4, 4, 5]
    assert (spared(20, count=5), spared(20, mode=MPS)) == (3, 0)
    assert [spared(20, count=count) for count in (1, 2, 3)] == [0, 1, 1], "rooms of two are kept for two and more"
    scal[codes.PART] = NEVER
    assert spared(20, count=3) == 0, "nobody asks for less than a node and more than a device"
    scal[TIER + 3] = 40
    assert spared(99) == 1 + TIERS
