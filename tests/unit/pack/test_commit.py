"""Taking and giving back on the arrays: columns by hand, neighbours as a person would choose, streams that stop."""

from __future__ import annotations

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
    D_ENGINE,
    D_LINK,
    D_MEM,
    D_MODE,
    D_OWNER,
    DEVICE_FIELDS,
    EXCLUSIVE,
    FREE,
    H_CPU,
    H_LANE,
    H_MEM,
    H_PHI,
    H_TAG,
    MPS,
    TIME,
    WHOLE,
)
from dure.pack.grid import Grid, Host, Part, Seat
from dure.pack.links import tightest_group
from dure.pack.plain import PlainNode, plain_tables, potential
from tests.unit.pack.worlds import grid_of

PART = Part(mem=80_000, bw=1000, limit=3)
STATE = [D_CODE, D_MEM, D_BW, D_CLIENTS, D_MODE, D_OWNER, D_ENGINE]


def one_node(*parts: Part) -> Grid:
    return grid_of([Host(64_000, 65_536, 0, parts or (PART,))])


def share(milli: int, **more: int) -> Ask:
    return Ask(1000, 512, 1, milli, dmem=9000, dbw=100, **{"mode": MPS, **more})


def state(grid: Grid, device: int = 0) -> list[int]:
    return [int(figure) for figure in grid.devs[device, STATE]]


HERE = Seat(0, (0,), 0)


def test_a_share_is_taken_off_every_column_and_given_back_to_every_one() -> None:
    grid = one_node(PART._replace(home=TIME))
    assert state(grid) == [WHOLE, 80_000, 1000, 0, TIME, 0, 0]
    first, second = share(300, tenant=2), share(200, tenant=2, engine=1)
    grid.put(first, HERE)
    assert state(grid) == [700, 71_000, 900, 1, MPS, 2, 0]
    grid.put(second, HERE)
    assert state(grid) == [500, 62_000, 800, 2, MPS, 2, 1]
    assert grid.hosts[0, [H_CPU, H_MEM]].tolist() == [62_000, 64_512]
    grid.free(first, HERE)
    assert state(grid) == [800, 71_000, 900, 1, MPS, 2, 1]
    grid.free(second, HERE)
    assert state(grid) == [WHOLE, 80_000, 1000, 0, TIME, 0, 0]


@pytest.mark.parametrize(
    ("comers", "owner"),
    [
        ([(2, 0)], 2),
        ([(2, 1)], -2),
        ([(2, 0), (3, 0)], 0),
        ([(2, 0), (2, 1)], -2),
        ([(2, 1), (2, 0)], -2),
        ([(2, 0), (3, 0), (2, 0)], 0),
    ],
)
def test_the_owner_is_the_one_tenant_so_far_and_negative_when_it_wants_to_be_alone(
    comers: list[tuple[int, int]], owner: int
) -> None:
    grid = one_node()
    for tenant, isolation in comers:
        grid.put(share(100, tenant=tenant, isolation=isolation), HERE)
    assert int(grid.devs[0, D_OWNER]) == owner
    assert int(grid.devs[0, D_CLIENTS]) == len(comers)


def test_slices_add_and_take_away_their_slots_and_an_empty_device_goes_home() -> None:
    for home, empty in ((FREE, WHOLE), (CUT, CUT0)):
        grid = one_node(PART._replace(home=home))
        small, half = (Ask(0, 0, 1, 100, profile=at, mode=CUT, types=1) for at in (0, 3))
        seats = [grid.seat_on(small, 0), grid.seat_on(half, 0)]
        assert [seat.bits for seat in seats] == [0b1000000, 0b1111]
        assert int(grid.devs[0, D_CODE]) == CUT0 + 0b1001111
        grid.free(small, seats[0])
        assert int(grid.devs[0, D_CODE]) == CUT0 + 0b1111
        grid.free(half, seats[1])
        assert (int(grid.devs[0, D_CODE]), int(grid.devs[0, D_MODE])) == (empty, home)


def test_host_capacity_alone_touches_no_device() -> None:
    grid = one_node()
    before = grid.devs.copy()
    seat = grid.seat(Ask(3000, 1024, 0, 0))
    assert seat == Seat(0, (), 0)
    np.testing.assert_array_equal(grid.devs, before)
    assert grid.hosts[0, [H_CPU, H_MEM]].tolist() == [61_000, 64_512]


def test_whole_devices_are_full_exclusive_and_owned() -> None:
    grid = one_node(PART, PART, PART)
    seat = grid.seat(Ask(0, 0, 2, WHOLE, tenant=5))
    assert seat == Seat(0, (0, 1), 0)
    assert [state(grid, d) for d in range(3)] == [
        [0, 80_000, 1000, 1, EXCLUSIVE, 5, 0],
        [0, 80_000, 1000, 1, EXCLUSIVE, 5, 0],
        [WHOLE, 80_000, 1000, 0, FREE, 0, 0],
    ]
    assert grid.idle_milli == 1000


def picked(links: list[int], busy: list[bool], count: int) -> tuple[int, ...]:
    """The tightest run of neighbours in one link group; else groups, one that holds the rest before the largest."""
    free = [d for d in range(len(links)) if not busy[d]]
    runs: list[list[int]] = []
    for d in free:
        if runs and runs[-1][-1] == d - 1 and links[d - 1] == links[d]:
            runs[-1].append(d)
        else:
            runs.append([d])
    fitting = [run for run in runs if len(run) >= count]
    if fitting:
        return tuple(min(fitting, key=len)[:count])
    taken: list[int] = []
    groups = {link: [d for d in free if links[d] == link] for link in dict.fromkeys(links[d] for d in free)}
    while len(taken) < count:
        missing = count - len(taken)
        holding = [link for link in groups if len(groups[link]) >= missing]
        chosen = (
            min(holding, key=lambda link: len(groups[link])) if holding else max(groups, key=lambda g: len(groups[g]))
        )
        taken += groups.pop(chosen)[:missing]
    return tuple(taken)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=9), st.integers(1, 9))
def test_whole_devices_lie_together_as_far_as_what_is_free_allows(
    devices: list[tuple[int, bool]], count: int
) -> None:
    links, busy = [link for link, _ in devices], [taken for _, taken in devices]
    grid = one_node(*(PART._replace(link=link) for link in links))
    for d, taken in enumerate(busy):
        if taken:
            grid.put(share(100), Seat(0, (d,), 0))
    seat = grid.seat(Ask(0, 0, count, WHOLE))
    if count > busy.count(False):
        assert seat is None
    else:
        assert seat is not None
        assert seat.devices == picked(links, busy, count)


@pytest.mark.parametrize(
    ("groups", "want", "chosen"),
    [
        ([0, 0, 0], 1, 0),
        ([2, 3, 3], 3, 1),
        ([5, 4, 3], 3, 2),
        ([3, 5, 4], 3, 0),
        ([1, 2, 2], 3, 1),
        ([2, 1, 4], 3, 2),
    ],
)
def test_the_tightest_group_that_is_enough_or_else_the_largest_is_chosen(
    groups: list[int], want: int, chosen: int
) -> None:
    devs = np.zeros((len(groups), DEVICE_FIELDS), np.int32)
    devs[:, D_LINK] = range(len(groups))
    devs[:, D_CODE] = WHOLE
    found = tightest_group(devs, np.array(groups), 0, len(groups), Ask(0, 0, want, WHOLE).row(), want)
    assert found == chosen


def test_without_patience_the_first_refusal_ends_the_stream() -> None:
    wishes = [Ask(0, 0, 1, WHOLE), Ask(0, 0, 9, WHOLE), Ask(1000, 0, 1, WHOLE)]
    for patient, expected in ((True, [0, -1, 0]), (False, [0, -1])):
        grid = one_node(PART, PART)
        rows = np.array([grid.row(wish) for wish in wishes])
        nodes, devices, bits = grid.run(rows, patient=patient)
        assert nodes.tolist() == expected
        assert devices[:2].tolist() == [[0, -1], [-1, -1]]
        assert bits.tolist() == [0] * len(expected)
        assert int(grid.index.clock[0]) == len([node for node in expected if node == 0])


def test_every_seat_is_written_down_with_its_node() -> None:
    grid = grid_of([Host(64_000, 65_536, 0, (PART,))] * 3)
    seats = grid.seat_all([Ask(0, 0, 1, WHOLE)] * 4)
    order = [seat.node for seat in seats if seat is not None]
    assert sorted(order) == [0, 1, 2]
    assert seats[3] is None
    assert grid.index.log[:4].tolist() == [*order, 0]
    last = seats[2]
    assert last is not None
    grid.free(Ask(0, 0, 1, WHOLE), last)
    assert grid.index.log[:5].tolist() == [*order, last.node, 0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 100, 1000]), min_size=1, max_size=4), st.integers(1, 64))
def test_a_node_remembers_its_potential_and_stands_in_a_lane_while_it_is_whole(shares: list[int], cores: int) -> None:
    grid = grid_of([Host(cores * 1000, 65_536, 0, (PART,) * len(shares))])
    for _ in range(40):
        grid.mix.add(Ask(20_000, 0, len(shares), WHOLE).shape)
    grid.learn()
    for d, milli in enumerate(shares):
        if milli:
            grid.put(Ask(0, 0, 1, milli, mode=MPS), Seat(0, (d,), 0))
    codes = tuple(WHOLE - milli for milli in shares)
    tables = plain_tables(grid.priced.tables)
    assert int(grid.hosts[0, H_PHI]) == potential(tables, PlainNode(cores * 1000, 65_536, 0, codes))
    whole = not any(shares) and len(shares) > 1
    assert int(grid.hosts[0, H_LANE]) == (2 if whole and cores >= 20 else 0)


@pytest.mark.parametrize(
    ("taken", "cores", "lane"), [(0, 64, 2), (1, 64, 1), (2, 64, 1), (3, 64, 0), (2, 7, 0), (0, 8, 1)]
)
def test_a_node_with_room_for_less_than_all_of_it_stands_in_the_lowest_lane(
    taken: int, cores: int, lane: int
) -> None:
    """Some want four devices and twenty cores, others two and eight."""
    grid = grid_of([Host(cores * 1000, 65_536, 0, (PART,) * 4)])
    for _ in range(40):
        grid.mix.add(Ask(20_000, 0, 4, WHOLE).shape)
        grid.mix.add(Ask(8_000, 0, 2, WHOLE).shape)
    grid.learn()
    for d in range(taken):
        grid.put(Ask(0, 0, 1, WHOLE), Seat(0, (d,), 0))
    assert int(grid.hosts[0, H_LANE]) == lane


def test_the_tag_of_a_state_is_fixed_because_ties_are_decided_by_it() -> None:
    """Plans of the same input must be the same bytes tomorrow."""
    part = Part(mem=9080, bw=110)
    grid = grid_of([Host(64_000, 65_536, 0, (part, part)), Host(32_000, 65_536, 1, (part,))])
    grid.put(share(300, tenant=2), HERE)
    assert grid.hosts[:, H_TAG].tolist() == [2_260_107_956_158_262_492, 3_288_854_432_677_778_957]


@pytest.mark.parametrize("change", [{"mem": 1}, {"bw": 1}, {"home": CUT}, {"home": MPS}, {"modes": 0b110}])
def test_nodes_in_different_states_have_different_tags_and_the_order_of_devices_is_no_state(
    change: dict[str, int],
) -> None:
    def tag(*parts: Part) -> int:
        return int(one_node(*parts).hosts[0, H_TAG])

    other = PART._replace(**change)
    assert tag(PART, other) == tag(other, PART)
    assert len({tag(PART, PART), tag(PART, other), tag(other, other)}) == 3
