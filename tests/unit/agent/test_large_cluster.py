"""An agent of an embedded cluster that is large enough for the arrays, with the settings everybody has."""

from __future__ import annotations

from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.agent.loop import Agent
from dure.model.cluster import PodPhase
from dure.model.decision import Bind, Evict
from dure.model.workload import Replicas
from tests.contract.agent_contract import Still
from tests.contract.cluster_contract import pods_of
from tests.fixtures.small_world import CATALOGUE, cluster, desired, pool, service, training

NODES = 220


def test_one_of_two_hundred_replicas_makes_way_for_a_demand_that_is_torn_apart() -> None:
    spec, clock = cluster(pool("big", "big", nodes=NODES, devices=2)), VirtualClock(1_000_000.0)
    port = MemoryCluster(spec, CATALOGUE, clock, hazards=CALM)
    many = desired(replace(service("s", replicas=NODES), replicas=Replicas(NODES, NODES)), replicas=NODES)
    wide = desired(training("t", devices=2))
    plane = Still(many)
    agent = Agent(port, plane, CATALOGUE, spec.pools, clock)
    agent.cycle()
    replicas = pods_of(port, "uid-s")
    assert len({pod.node for pod in replicas}) == NODES, "spread over all nodes, half of each is free"
    while any(pod.phase is not PodPhase.RUNNING for pod in pods_of(port, "uid-s")):
        clock.advance(port.next_event_s() or clock.now() + 1.0)
    plane.wanted = many, wide
    agent.cycle()
    told = [one for report in plane.reports for one in report.decisions]
    [evict] = [one for one in told if isinstance(one, Evict)]
    [bind] = [one for one in told if isinstance(one, Bind) and one.workload == "t"]
    assert (evict.workload, bind.evicts, len(bind.slices)) == ("s", (evict.pod,), 2)
    assert agent._memory._board is not None
    for _ in range(4):
        clock.advance(clock.now() + 60.0)
        agent.cycle()
    assert all(pod.node for pod in (*pods_of(port, "uid-s"), *pods_of(port, "uid-t")))
