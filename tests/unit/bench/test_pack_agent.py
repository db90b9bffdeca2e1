"""A trace through the packer as agents call it: every seat is one that the trace's own grid finds cheapest."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dure.bench.pack_agent import PLAIN, AgentReplay
from dure.bench.pack_replay import replay
from dure.bench.pack_speed import _agent, _summary
from dure.bench.pack_trace import TraceNode, TracePod, fleet_of
from dure.model.errors import InvalidInput
from dure.pack import commit, index
from dure.pack.codes import H_FIRST, H_KEY
from dure.pack.grid import Grid, Seat

MODELS = ("a", "b")


def nodes(chance: Random) -> list[TraceNode]:
    return [
        TraceNode(f"n{i}", chance.choice([32_000, 64_000, 96_000]), 262_144, chance.choice([1, 2, 4, 8]), one)
        for i, one in enumerate(chance.choices(MODELS, k=24))
    ]


def pods(chance: Random, count: int) -> list[TracePod]:
    made = []
    for i in range(count):
        devices = chance.choice([1, 1, 1, 1, 2, 4, 8])
        milli = chance.choice([100, 250, 330, 500, 1000]) if devices == 1 else 1000
        cpu = chance.choice([1000, 4000, 8000]) * devices
        models = chance.choice([(), (), (), ("a",), ("b",), ("none",)])
        made.append(TracePod(f"p{i}", cpu, 4096, devices, milli, models))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_every_seat_of_an_agent_is_one_of_the_cheapest_of_the_grid(seed: int) -> None:
    chance = Random(seed)
    fleet = fleet_of(nodes(chance))
    agent, grid = AgentReplay(fleet), Grid(fleet.hosts, fleet.hardware)
    refused = 0
    for pod in pods(chance, 220):
        [bind] = agent.tick([pod])
        assert agent.memory.priced is not None
        grid.adopt(agent.memory.priced)
        ask = fleet.ask(pod)
        row = grid.row(ask)
        commit.set_guard(grid.index.guard, grid.totals, grid.needs)
        found = np.zeros(len(fleet.hosts), np.int64)
        count, _ = index.nearest(*grid.index, grid.hosts, grid.devs, *grid.priced.tables, row, found)
        assert (bind is None) == (count == 0)
        if bind is None:
            refused += 1
            continue
        n = agent.number[bind.node]
        assert grid.hosts[n, H_KEY] in grid.hosts[found[:count], H_KEY]
        first = int(grid.hosts[n, H_FIRST])
        grid.put(ask, Seat(n, tuple(first + int(part.device.partition("/")[2]) for part in bind.slices), 0))
    assert refused > 10, "the list has to fill the fleet"


def test_an_agent_with_and_without_arrays_does_the_same() -> None:
    chance = Random(7)
    fleet = fleet_of(nodes(chance))
    listed = pods(chance, 160)
    arrays, plain = AgentReplay(fleet), AgentReplay(fleet, PLAIN)
    for at in range(0, len(listed), 8):
        assert arrays.tick(listed[at : at + 8]) == plain.tick(listed[at : at + 8])


def test_the_policy_agent_replays_a_list_and_refuses_one_with_pods_without_devices() -> None:
    chance = Random(3)
    fleet, listed = fleet_of(nodes(chance)), pods(chance, 120)
    ours, agent = (replay(policy, fleet, listed, 42, 1.0, fleet) for policy in ("dure", "agent"))
    assert min(ours.alloc_pct, agent.alloc_pct) > 70.0
    assert agent.first_failure_pct > 50.0
    assert agent.decisions == ours.decisions
    with pytest.raises(InvalidInput, match="no pods without devices"):
        replay("agent", fleet, [*listed, TracePod("host", 1000, 512, 0, 0)], 42, 1.0, fleet)


def test_the_rows_of_agents_tell_decisions_after_the_first_look_and_are_compared_with_each_other() -> None:
    chance = Random(5)
    fleet, listed = fleet_of(nodes(chance)), [*pods(chance, 150), TracePod("host", 1000, 512, 0, 0)]
    order = np.arange(len(listed))
    row, plain = (_agent(policy, fleet, listed, order, 42) for policy in ("agent", "agent-plain"))
    assert (row["decisions"], plain["decisions"]) == (150 - 64, 48 - 16)
    assert row["decisions_per_s"] > 0
    rows = [{**one, "nodes": 1_213} for one in (row, plain)]
    assert list(_summary(rows)) == [
        "agent: decisions_per_s at 1.2k nodes",
        "agent: times the plain packer at 1.2k nodes",
    ]
    assert _summary([]) == {}
