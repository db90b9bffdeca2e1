"""The array code: never overcommits, restores exactly, agrees with its plain twin, ignores names and order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.pack.ask import Ask
from dure.pack.codes import (
    CUT,
    CUT0,
    D_BW,
    D_CLIENTS,
    D_CODE,
    D_COMPUTE,
    D_LIMIT,
    D_MEM,
    D_MODE,
    D_MODES,
    D_OWNER,
    D_TOTAL,
    EXCLUSIVE,
    FREE,
    H_CPU,
    H_FIRST,
    H_LANE,
    H_MEM,
    H_SIZE,
    H_TAG,
    H_TYPE,
    ISOLATION_PRICE,
    LANES,
    NEVER,
    SWITCH_PRICE,
    WHOLE,
)
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.index import cheapest, spared_lanes
from dure.pack.kernels import level_of, node_cost
from dure.pack.plain import PlainNode, plain_tables, step_cost
from tests.unit.pack.worlds import A100, ASKS, HOSTS, grid_of

STREAM = st.lists(ASKS, min_size=1, max_size=14)
CASES = settings(max_examples=25, deadline=None)


def filled(hosts: list[Host], asks: list[Ask]) -> tuple[Grid, list[tuple[Ask, Seat]]]:
    grid = grid_of(hosts)
    seats = grid.seat_all(asks)
    return grid, [(ask, seat) for ask, seat in zip(asks, seats, strict=True) if seat is not None]


@CASES
@given(HOSTS, STREAM)
def test_no_host_or_device_is_ever_overcommitted_in_any_dimension(hosts: list[Host], asks: list[Ask]) -> None:
    grid, held = filled(hosts, asks)
    assert (grid.hosts[:, [H_CPU, H_MEM]] >= 0).all()
    assert (grid.devs[:, [D_MEM, D_BW, D_CODE, D_CLIENTS]] >= 0).all()
    parts = [part for host in hosts for part in host.parts]
    for d, part in enumerate(parts):
        on_it = [ask for ask, seat in held if d in seat.devices]
        assert sum(ask.dmem for ask in on_it) <= part.mem
        assert len({ask.mode for ask in on_it}) <= 1
        if on_it and on_it[0].mode != CUT:
            assert sum(ask.milli for ask in on_it) <= WHOLE
        assert len(on_it) <= max(1, int(grid.devs[d, D_LIMIT]))
        fenced = {ask.tenant for ask in on_it if ask.isolation}
        assert not fenced or {ask.tenant for ask in on_it} == fenced


@CASES
@given(HOSTS, STREAM)
def test_slices_of_one_device_never_overlap_and_start_only_where_the_table_allows(
    hosts: list[Host], asks: list[Ask]
) -> None:
    _, held = filled(hosts, asks)
    taken: dict[int, int] = {}
    for ask, seat in held:
        if ask.mode == CUT:
            assert seat.bits in A100.profiles[ask.profile].masks()
            assert not taken.get(seat.devices[0], 0) & seat.bits
            taken[seat.devices[0]] = taken.get(seat.devices[0], 0) | seat.bits


@CASES
@given(HOSTS, STREAM, st.integers(0, 2**31))
def test_giving_back_in_any_order_restores_the_state_exactly(hosts: list[Host], asks: list[Ask], seed: int) -> None:
    fresh = grid_of(hosts)
    grid, held = filled(hosts, asks)
    random.Random(seed).shuffle(held)
    for ask, seat in held:
        grid.free(ask, seat)
    np.testing.assert_array_equal(grid.hosts, fresh.hosts)
    np.testing.assert_array_equal(grid.devs, fresh.devs)
    np.testing.assert_array_equal(grid.totals, fresh.totals)


def plain_device(grid: Grid, d: int, typ: int, ask: Ask) -> int | None:
    """The rules for a part of one device as a person would write them: its code after the ask, or None."""
    row = [int(figure) for figure in grid.devs[d]]
    if not row[D_MODES] >> ask.mode & 1:
        return None
    if row[D_CLIENTS]:
        if row[D_MODE] != ask.mode or row[D_CLIENTS] >= row[D_LIMIT]:
            return None
        if (row[D_OWNER] < 0 or ask.isolation) and abs(row[D_OWNER]) != ask.tenant:
            return None
    code = row[D_CODE]
    if ask.mode == CUT:
        if code < WHOLE:
            return None
        after = int(grid.priced.tables.step[typ, ask.profile, 0 if code == WHOLE else code - CUT0])
        return None if after < 0 else CUT0 + after
    if row[D_MEM] < ask.dmem or row[D_BW] < ask.dbw or row[D_COMPUTE] < ask.milli:
        return None
    return min(row[D_COMPUTE] - ask.milli, (row[D_MEM] - ask.dmem) * WHOLE // row[D_TOTAL])


def plain_whole(grid: Grid, d: int, ask: Ask) -> bool:
    row = grid.devs[d]
    free = row[D_CLIENTS] == 0 and row[D_CODE] in (WHOLE, CUT0)
    return bool(free and row[D_MEM] >= ask.dmem and row[D_BW] >= ask.dbw)


def plain_cost(grid: Grid, n: int, ask: Ask) -> int | None:
    """The twin of `node_cost`: every device tried in turn on plain values."""
    cpu, mem, typ, first, size = (int(grid.hosts[n, c]) for c in (H_CPU, H_MEM, H_TYPE, H_FIRST, H_SIZE))
    if cpu < ask.cpu or mem < ask.mem or not ask.types >> typ & 1:
        return None
    codes = [int(code) for code in grid.devs[first : first + size, D_CODE]]
    before = PlainNode(cpu, mem, typ, tuple(codes))
    t = plain_tables(grid.priced.tables)
    if ask.mode == EXCLUSIVE:
        able = [d for d in range(size) if plain_whole(grid, first + d, ask)][: ask.pieces]
        if len(able) < ask.pieces:
            return None
        after = tuple(0 if d in able else code for d, code in enumerate(codes))
        switches = sum(grid.devs[first + d, D_MODE] not in (FREE, EXCLUSIVE) for d in able)
        cost = step_cost(t, before, PlainNode(cpu - ask.cpu, mem - ask.mem, typ, after))
        fence = ask.pieces * int(t.scal[ISOLATION_PRICE]) if ask.isolation else 0
        return cost + switches * (int(t.scal[SWITCH_PRICE]) // 4) + fence
    costs = []
    for d in range(size):
        code = plain_device(grid, first + d, typ, ask)
        if code is None:
            continue
        after = (*codes[:d], code, *codes[d + 1 :])
        cost = step_cost(t, before, PlainNode(cpu - ask.cpu, mem - ask.mem, typ, after))
        cost += int(t.scal[SWITCH_PRICE]) * (grid.devs[first + d, D_MODE] not in (FREE, ask.mode))
        cost += int(t.scal[ISOLATION_PRICE]) * (ask.isolation > 0 and grid.devs[first + d, D_CLIENTS] == 0)
        costs.append(int(cost))
    return min(costs, default=None)


@settings(max_examples=100, deadline=None)
@given(HOSTS, STREAM, ASKS, st.integers(0, 20))
def test_the_array_code_prices_every_node_like_its_plain_twin(
    hosts: list[Host], asks: list[Ask], probe: Ask, gone: int
) -> None:
    grid, _ = filled(hosts, asks)
    grid.arrived(asks)
    grid.mix.left(gone)
    grid.learn()
    for n in range(len(hosts)):
        cost = int(node_cost(grid.hosts, grid.devs, *grid.priced.tables, n, probe.row()))
        assert (None if cost == NEVER else cost) == plain_cost(grid, n, probe)


@CASES
@given(HOSTS, STREAM, ASKS)
def test_the_remembered_prices_equal_prices_made_anew(hosts: list[Host], asks: list[Ask], probe: Ask) -> None:
    grid = grid_of(hosts)
    row = grid.row(probe)
    args = (*grid.index, grid.hosts, grid.devs, *grid.priced.tables)
    cheapest(*args, row)
    for ask in asks:
        grid.seat(ask)
    row = grid.row(probe)
    args = (*grid.index, grid.hosts, grid.devs, *grid.priced.tables)
    cheapest(*args, row)
    anew = [node_cost(grid.hosts, grid.devs, *grid.priced.tables, n, probe.row()) for n in range(len(hosts))]
    assert grid.index.cost[row].tolist() == anew


@CASES
@given(HOSTS, STREAM)
def test_totals_are_what_a_count_by_hand_finds(hosts: list[Host], asks: list[Ask]) -> None:
    grid, held = filled(hosts, asks)
    for ask, seat in held[::2]:
        grid.free(ask, seat)
    idles = plain_tables(grid.priced.tables).idles
    idle = 0
    for host in grid.hosts:
        codes = grid.devs[host[H_FIRST] : host[H_FIRST] + host[H_SIZE], D_CODE]
        idle += sum(idles[host[H_TYPE]][code] for code in codes)
    lanes = [int((grid.hosts[:, H_LANE] == lane).sum()) for lane in range(LANES)]
    assert grid.totals.tolist() == [idle, *lanes]
    assert sum(lanes) == len(hosts)


@CASES
@given(HOSTS, STREAM, ASKS, st.lists(st.integers(0, 5), min_size=LANES, max_size=LANES))
def test_the_cheapest_node_is_that_of_trying_all_with_the_guard_counted(
    hosts: list[Host], asks: list[Ask], probe: Ask, guard: list[int]
) -> None:
    grid, _ = filled(hosts, asks)
    row = grid.row(probe)
    grid.index.guard[:] = [level * 1_000_000 for level in guard]
    found = cheapest(*grid.index, grid.hosts, grid.devs, *grid.priced.tables, row)
    spared = spared_lanes(grid.priced.tables.scal, probe.row())
    costs = {
        n: (cost + max(0, grid.index.guard[host[H_LANE]] - grid.index.guard[spared]), host[H_TAG])
        for n, host in enumerate(grid.hosts)
        if (cost := node_cost(grid.hosts, grid.devs, *grid.priced.tables, n, probe.row())) != NEVER
    }
    assert (found >= 0) == bool(costs)
    assert found < 0 or costs[found] == min(costs.values())


@CASES
@given(HOSTS, STREAM, st.integers(0, 2**31))
def test_the_order_of_nodes_and_devices_does_not_change_what_is_placed(
    hosts: list[Host], asks: list[Ask], seed: int
) -> None:
    chance = random.Random(seed)
    mixed = [host._replace(parts=tuple(chance.sample(host.parts, len(host.parts)))) for host in hosts]
    chance.shuffle(mixed)
    one, two = grid_of(hosts), grid_of(mixed)
    for ask in asks:
        here, there = one.seat(ask), two.seat(ask)
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            assert (
                one.hosts[here.node, [H_CPU, H_MEM, H_TYPE]].tolist()
                == two.hosts[there.node, [H_CPU, H_MEM, H_TYPE]].tolist()
            )
    assert one.idle_milli == two.idle_milli


@CASES
@given(HOSTS, STREAM)
def test_nothing_is_refused_that_fits_somewhere(hosts: list[Host], asks: list[Ask]) -> None:
    grid = grid_of(hosts)
    for ask in asks:
        fits = any(plain_cost(grid, n, ask) is not None for n in range(len(hosts)))
        assert (grid.seat(ask) is not None) == fits


@given(HOSTS, STREAM)
@settings(max_examples=20, deadline=None)
def test_a_fork_leaves_the_original_untouched(hosts: list[Host], asks: list[Ask]) -> None:
    grid = grid_of(hosts)
    before = (grid.hosts.copy(), grid.devs.copy(), grid.totals.copy())
    twin = grid.fork()
    twin.seat_all(asks)
    twin.arrived(asks)
    for now, then in zip((grid.hosts, grid.devs, grid.totals), before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert grid.mix.arrivals == 0


def test_a_device_has_one_media_engine_and_room_beside_it() -> None:
    part = Part(mem=80_000, bw=1000, home=0, modes=0b11111, limit=7)
    grid = grid_of([Host(cpu=64_000, mem=256_000, typ=0, parts=(part,))])
    plain = Ask(1000, 1024, 1, 100, profile=0, mode=CUT, types=1)
    media = plain._replace(engine=1)
    assert [seat is not None for seat in grid.seat_all([media, media, plain])] == [True, False, True]


@given(st.lists(st.integers(0, 20), unique=True, max_size=8).map(sorted), st.integers(0, 21))
def test_the_level_of_a_node_counts_the_figures_that_its_cpu_can_meet(levels: list[int], cpu: int) -> None:
    assert level_of(np.array(levels, np.int64), cpu) == sum(one <= cpu for one in levels)


@pytest.mark.parametrize(
    ("links", "count", "devices"),
    [
        ([0, 0, 0, 0], 2, (0, 1)),
        ([0, 0, 0, 1, 1], 2, (3, 4)),
        ([0, 1, 0, 1], 2, (0, 2)),
        ([0, 1, 0, 1, 0], 3, (0, 2, 4)),
        ([0, 1, 0, 1, 0], 2, (1, 3)),
        ([0, 0, 1, 0, 1], 4, (0, 1, 3, 2)),
        ([0, 1, 2, 3], 3, (0, 1, 2)),
    ],
)
def test_whole_devices_are_neighbours_of_one_link_group_or_of_as_few_groups_as_there_are(
    links: list[int], count: int, devices: tuple[int, ...]
) -> None:
    part = Part(mem=80_000, bw=1000, home=0, modes=0b11111, limit=1)
    grid = grid_of([Host(64_000, 65_536, 0, tuple(part._replace(link=link) for link in links))])
    seat = grid.seat(Ask(1000, 1024, count, WHOLE, mode=EXCLUSIVE))
    assert seat is not None
    assert seat.devices == devices


def test_who_goes_for_good_gives_back_what_it_held_and_is_noted() -> None:
    grid = grid_of([Host(9000, 9000, 0, (Part(), Part()))])
    before = grid.devs.copy()
    ask = Ask(1000, 10, 1, WHOLE)
    seat = grid.seat(ask)
    assert seat is not None
    grid.arrived([ask])
    grid.left(ask, seat)
    np.testing.assert_array_equal(grid.devs, before)
    assert grid.mix.turnover == 1.0
