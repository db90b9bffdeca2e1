"""Rooms for wide demand on live nodes: the same lanes and prices as the arrays have, and the same choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.cluster import Pod
from dure.model.demand import Demand
from dure.pack import pack
from dure.pack.ask import Ask
from dure.pack.codes import H_LANE, LANES, NEVER, PART, PART_CPU, SCALARS, TIER, WHOLE, WIDE
from dure.pack.commit import set_guard
from dure.pack.grid import Host, Part, Seat
from dure.pack.guard import guards, lane_of
from dure.pack.guard import spared_lanes as spared_of
from dure.pack.index import spared_lanes
from dure.pack.memory import Memory
from dure.pack.worth import WorthSettings
from tests.unit.pack.test_packer import binds
from tests.unit.pack.worlds import CATALOGUE, cluster, grid_of, node, pod, running

FEW = st.integers(0, 40)


@given(st.lists(FEW, min_size=LANES, max_size=LANES), FEW, FEW, FEW, st.lists(FEW, min_size=LANES, max_size=LANES))
def test_guards_cost_what_the_arrays_say(
    stock: list[int], idle: int, reserve: int, spread: int, wants: list[int]
) -> None:
    needs = np.array([7, 100 * reserve, 100 * spread, *(100_000 * one for one in wants[1:])], np.int64)
    totals = np.array([1000 * idle, *stock], np.int64)
    found = np.zeros(LANES, np.int64)
    set_guard(found, totals, needs)
    assert guards(stock, 1000 * idle, needs.tolist()) == found.tolist()


@given(st.integers(0, 50), st.integers(0, 8), st.sampled_from([(2, 9), (4, 30), (int(NEVER), 0)]))
def test_a_pod_is_spared_what_an_ask_of_its_size_is(cores: int, count: int, part: tuple[int, int]) -> None:
    scal = np.zeros(SCALARS, np.int64)
    scal[PART], scal[PART_CPU], scal[WIDE] = *part, 6
    scal[TIER:] = (10, 20, int(NEVER), int(NEVER))
    wide = replace(pod("w"), demand=Demand(count, cpu_milli=cores))
    ask = Ask(cores, 0, count, WHOLE if count else 0)
    assert spared_of(scal.tolist(), wide) == spared_lanes(scal, ask.row())


@given(st.integers(0, 4), st.integers(1, 64))
def test_a_node_stands_in_the_lane_in_which_the_arrays_put_it(taken: int, cores: int) -> None:
    grid = grid_of([Host(cores * 1000, 65_536, 0, (Part(mem=80_000, bw=1000),) * 4)])
    for _ in range(40):
        grid.mix.add(Ask(20_000, 0, 4, WHOLE).shape)
        grid.mix.add(Ask(8_000, 0, 2, WHOLE).shape)
    grid.learn()
    for d in range(taken):
        grid.put(Ask(0, 0, 1, WHOLE), Seat(0, (d,), 0))
    assert lane_of(grid.priced.tables.scal.tolist(), cores * 1000, 4 - taken, 4) == grid.hosts[0, H_LANE]


def asking(name: str, devices: int, cores: int) -> Pod:
    return replace(pod(name), demand=Demand(devices, cpu_milli=cores * 1000, host_memory_mib=4096))


@pytest.mark.parametrize(("guard", "chosen"), [(0.0, "four"), (50.0, "three")])
def test_the_last_room_for_four_is_left_to_them_though_a_single_device_costs_least_there(
    guard: float, chosen: str
) -> None:
    """The other node has three devices free, of which a single one leaves two without cores."""
    nodes = [node("four", 8, cpu=96_000), node("three", 8, cpu=96_000)]
    memory = Memory(WorthSettings(guard=guard))
    seen = [asking(f"w{i}", 4, 60) for i in range(8)] + [asking(f"s{i}", 1, 8) for i in range(72)]
    memory.learn(cluster(nodes, seen), CATALOGUE)
    busy = [
        *running(nodes[:1], [asking("x", 4, 30)]),
        *running(nodes[1:], [asking("y", 5, 85)]),
    ]
    found = binds(pack(cluster(nodes, [*busy, asking("one", 1, 8)]), CATALOGUE, memory))
    assert found["one"].node == chosen
    wide = binds(pack(cluster(nodes, [*busy, asking("wide", 4, 60)]), CATALOGUE, memory))
    assert wide["wide"].node == "four", "who needs the room gets it"
