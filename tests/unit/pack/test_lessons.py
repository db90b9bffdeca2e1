"""What a grid keeps beside its arrays: prices and when to make them anew, rows of the index, forks, one move."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.pack.ask import Ask
from dure.pack.codes import (
    CUT,
    CUT0,
    D_CLIENTS,
    D_CODE,
    D_HOME,
    D_LIMIT,
    D_LINK,
    D_MODE,
    D_MODES,
    DEVICE_FIELDS,
    H_CPU,
    H_FIRST,
    H_MEM,
    H_SIZE,
    H_TYPE,
    HOST_FIELDS,
    MPS,
    WHOLE,
)
from dure.pack.grid import Grid, Host, Part, Seat, sizes_of
from dure.pack.mix import Mix, Shape, prior_of
from dure.pack.plain import PlainNode, plain_tables, step_cost
from dure.pack.worth import Worth, WorthSettings, worth
from tests.unit.pack.worlds import grid_of

PART = Part(mem=80_000, bw=1000, limit=4)
ONE, HALF = Ask(1000, 512, 1, WHOLE), Ask(1000, 512, 1, 500, mode=MPS)


def host(devices: int = 2, cpu: int = 64_000, typ: int = 0, mem: int = 65_536) -> Host:
    return Host(cpu, mem, typ, (PART,) * devices)


def test_hosts_and_devices_are_written_column_by_column() -> None:
    cut = Part(mem=7, bw=8, link=3, home=CUT, modes=0b10010, limit=5)
    grid = grid_of([host(1, cpu=5000), Host(6000, 99, 1, (cut, PART))])
    assert grid.hosts[:, [H_CPU, H_MEM, H_TYPE, H_FIRST, H_SIZE]].tolist() == [
        [5000, 65_536, 0, 0, 1],
        [6000, 99, 1, 1, 2],
    ]
    assert (grid.hosts.shape, grid.devs.shape) == ((2, HOST_FIELDS), (3, DEVICE_FIELDS))
    columns = [D_CODE, D_MODE, D_HOME, D_MODES, D_LIMIT, D_LINK, D_CLIENTS]
    assert grid.devs[:, columns].tolist() == [
        [WHOLE, 0, 0, 0b11111, 4, 0, 0],
        [CUT0, CUT, CUT, 0b10010, 5, 3, 0],
        [WHOLE, 0, 0, 0b11111, 4, 0, 0],
    ]


def expected(hosts: list[Host]) -> list[tuple[Shape, float]]:
    return prior_of(sizes_of(hosts))


def test_before_anything_arrived_whole_and_half_devices_with_their_share_of_the_hosts_are_expected() -> None:
    """Three devices share 30 cores: hosts without a device do not count."""
    found = expected([host(2, cpu=20_000, mem=4096), host(1, cpu=10_000, mem=2048), host(0)])
    assert found == [
        (Shape(7500, 1536, 1, WHOLE, -1, -1), 1.0),
        (Shape(3333, 682, 1, 500, -1, -1), 1.0),
    ]
    assert expected([host(0)])[0][0].cpu == 0


def test_before_anything_arrived_somebody_is_expected_who_needs_a_whole_node_of_the_largest_kind() -> None:
    """With more host CPU than the second largest has; where all widest nodes are alike nobody stands out."""
    mixed = [host(2, cpu=9000), host(2, cpu=20_000, mem=8000), host(2, cpu=12_000), host(1, cpu=50_000)]
    assert expected(mixed)[2:] == [(Shape(12_001, 65_536 // 2, 2, WHOLE, -1, -1), 1.0)]
    assert expected([host(2), host(2), host(1, cpu=9000)])[2:] == []
    assert expected([host(1, cpu=9000), host(1)])[2:] == []


def test_the_largest_wide_nodes_are_not_broken_before_the_demand_is_known() -> None:
    grid = grid_of([host(2, cpu=64_000), host(2, cpu=20_000), host(2, cpu=20_000)])
    seats = grid.seat_all([ONE] * 4)
    assert sorted(seat.node for seat in seats if seat) == [1, 1, 2, 2]


def test_the_mix_starts_from_the_prior() -> None:
    assert [shape for shape, _ in grid_of([host()]).mix.shares()] == sorted(shape for shape, _ in expected([host()]))


def arrivals(grid: Grid, count: int) -> Worth:
    grid.arrived([ONE] * count)
    return grid.priced


def test_prices_are_made_anew_after_32_arrivals_then_when_the_mix_has_grown_by_half() -> None:
    grid = grid_of([host()])
    first = grid.priced
    assert (arrivals(grid, 31), grid.until_lesson()) == (first, 1)
    second = arrivals(grid, 1)
    assert second is not first
    assert grid.until_lesson() == 32
    assert arrivals(grid, 31) is second
    third = arrivals(grid, 49)
    assert third is not second
    assert (grid.mix.arrivals, grid.until_lesson()) == (112, 56)


def test_a_lesson_is_never_further_away_than_the_settings_say() -> None:
    grid = Grid([host()], grid_of([host()]).hardware, WorthSettings(lesson=40))
    assert grid.until_lesson() == 32
    arrivals(grid, 200)
    assert grid.until_lesson() == 40
    grid.mix.add(ONE.shape, times=60)
    assert grid.until_lesson() == 1, "overdue"


def test_the_first_prices_take_the_fleet_as_idle_and_later_ones_what_is_idle_of_each_type() -> None:
    grid = grid_of([host(2), host(2, typ=1)])
    assert grid.idle_by_type() == [2.0, 2.0]
    grid.put(HALF, Seat(0, (1,), 0))
    grid.put(ONE, Seat(1, (3,), 0))
    assert grid.idle_by_type() == [1.5, 1.0]
    grid.mix.add(ONE._replace(types=1).shape, times=20)
    grid.mix.add(ONE.shape, times=60)
    mix = (grid.mix.shares(), grid.mix.typical(), grid.hardware, grid.settings)
    fresh = Grid([host(2), host(2, typ=1)], grid.hardware, mix=grid.mix)
    for priced, idle in ((fresh.priced, ()), (grid.learn(), (1.5, 1.0))):
        np.testing.assert_array_equal(priced.tables.rates, worth(*mix, idle).tables.rates)
    assert (fresh.priced.tables.rates != grid.priced.tables.rates).any()


def test_all_shapes_are_priced_anew_after_a_lesson() -> None:
    grid = grid_of([host(), host()])
    grid.seat_all([ONE, HALF])
    assert set(grid.index.seen[:2]) != {-1}
    grid.learn()
    assert set(grid.index.seen) == {-1}


def test_the_index_grows_to_its_limit_and_then_gives_away_the_row_unused_longest() -> None:
    settings = WorthSettings(shapes=5)
    grid = Grid([host()], grid_of([host()]).hardware, settings, shapes=2)
    asks = [Ask(cpu, 0, 0, 0) for cpu in range(1, 8)]
    assert [grid.row(ask) for ask in asks[:5]] == [0, 1, 2, 3, 4]
    assert grid.index.seen.size == 5
    assert [grid.row(ask) for ask in asks[:5]] == [0, 1, 2, 3, 4]
    assert [int(cpu) for cpu in grid.index.asks[:, 0]] == [1, 2, 3, 4, 5]
    grid.seat_all([asks[at] for at in (0, 1, 3, 4, 2, 1)])
    assert grid.row(asks[5]) == 0
    assert asks[0] not in grid.rows
    assert (int(grid.index.seen[0]), int(grid.index.asks[0, 0])) == (-1, 6)
    assert len(grid.rows) == 5


def test_a_wider_index_keeps_what_was_known() -> None:
    grid = Grid([host(), host()], grid_of([host()]).hardware, shapes=1)
    grid.seat(Ask(1000, 0, 0, 0))
    before = [array.copy() for array in grid.index]
    assert grid.row(Ask(2000, 0, 0, 0)) == 1
    for old, new in zip(before, grid.index, strict=True):
        np.testing.assert_array_equal(new[: len(old)], old)
    assert grid.index.seen.size == 2
    assert grid.row(Ask(3000, 0, 0, 0)) == 2
    assert grid.index.seen.size == 4


def test_both_sides_of_a_fork_go_their_own_way() -> None:
    grid = grid_of([host(), host()])
    twin = grid.fork()
    assert twin.hosts is grid.hosts, "copied only when one of them changes"
    seat = grid.seat(ONE)
    assert seat is not None
    assert (grid.idle_milli, twin.idle_milli) == (3000, 4000)
    assert ONE not in twin.rows
    twin.arrived([ONE] * 40)
    assert grid.mix.arrivals == 0
    again = twin.fork()
    again.put(ONE, seat)
    assert (twin.idle_milli, again.idle_milli) == (4000, 3000)
    again.free(ONE, seat)
    np.testing.assert_array_equal(again.hosts, twin.hosts)
    assert twin.index.clock[0] == 0


def test_a_fork_that_needs_a_wider_index_leaves_the_rows_of_the_original_alone() -> None:
    grid = Grid([host(), host()], grid_of([host()]).hardware, shapes=1)
    assert grid.row(ONE) == 0
    twin = grid.fork()
    assert twin.row(HALF) == 1
    assert (grid.rows, grid.index.seen.size) == ({ONE: 0}, 1)
    assert grid.seat(HALF) == twin.seat(HALF)


def test_memory_is_that_of_hosts_devices_and_index() -> None:
    grid = grid_of([host()])
    assert grid.nbytes == grid.hosts.nbytes + grid.devs.nbytes + sum(one.nbytes for one in grid.index)


def test_a_mix_that_was_given_is_used_and_streams_answer_in_order() -> None:
    mix = Mix(prior=[(ONE.shape, 1.0)])
    grid = Grid([host(1), host(2)], grid_of([host(1), host(2)]).hardware, mix=mix)
    assert grid.mix is mix
    both, none, left = grid.seat_all([ONE._replace(pieces=2), ONE._replace(pieces=3), ONE])
    assert (both, none, left) == (Seat(1, (1, 2), 0), None, Seat(0, (0,), 0))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 200, 300, 700, 1000]), min_size=2, max_size=5), st.sampled_from([100, 300, 500]))
def test_a_share_goes_to_the_device_where_it_costs_least_and_to_the_fuller_of_equals(
    taken: list[int], milli: int
) -> None:
    grid = grid_of([host(len(taken))])
    for d, part in enumerate(taken):
        if part:
            grid.put(Ask(0, 0, 1, part, mode=MPS), Seat(0, (d,), 0))
    codes = [WHOLE - part for part in taken]
    tables = plain_tables(grid.priced.tables)
    before = PlainNode(64_000, 65_536, 0, tuple(codes))
    costs = {
        d: (
            step_cost(tables, before, PlainNode(63_000, 65_024, 0, (*codes[:d], code - milli, *codes[d + 1 :]))),
            code,
            d,
        )
        for d, code in enumerate(codes)
        if code >= milli
    }
    seat = grid.seat(Ask(1000, 512, 1, milli, mode=MPS))
    assert (seat.devices if seat else None) == ((min(costs, key=lambda d: costs[d]),) if costs else None)


def test_asks_that_come_together_do_not_take_each_others_rows() -> None:
    hosts = [Host(64_000, 65_536, 0, (PART,) * 2), Host(8_000, 65_536, 0, (PART,))]
    few = Grid(hosts, grid_of(hosts).hardware, WorthSettings(shapes=2), shapes=2)
    many = grid_of(hosts)
    asks = [Ask(cpu, 512, 1, WHOLE) for cpu in (1000, 2000, 9000, 65_000)]
    for _ in range(2):
        for at in range(3):
            assert few.least_costs(asks[at : at + 2]).tolist() == many.least_costs(asks[at : at + 2]).tolist()
