"""An agent's watch over spot pools: a node that is taken back is a loss, one that is given back is not."""

from __future__ import annotations

from dure.agent.spells import REMEMBERED, SpotWatch
from dure.model.cluster import ClusterState, Device, Node, NodePhase, Pod, PodPhase
from dure.model.demand import Demand
from dure.model.fleet import PoolSpec
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.tariff import Capacity, Tariff
from dure.model.workload import WorkloadType

FIXED = PoolSpec("p", "big", Tariff("c", "p", "big"), nodes=1, nodes_max=1, capacity=Capacity.SPOT)
ELASTIC = PoolSpec("p", "big", Tariff("c", "p", "big"), nodes=0, nodes_max=4, capacity=Capacity.SPOT)


def node(name: str, phase: NodePhase = NodePhase.READY, reclaim_at_s: float | None = None) -> Node:
    device = Device(f"{name}.0", "big")
    return Node(name, "p", (device,), 1000, 1000, Capacity.SPOT, phase=phase, reclaim_at_s=reclaim_at_s)


def pod_on(name: str) -> Pod:
    return Pod("pod", "uid", "t", WorkloadType.BATCH, Demand(devices=1), ("big",), node=name, phase=PodPhase.RUNNING)


def look(watch: SpotWatch, at_s: float, *nodes: Node, pods: tuple[Pod, ...] = ()) -> PoolSpells:
    [told] = watch.look(ClusterState("c", at_s, str(at_s), nodes, pods))
    return told


def test_a_node_is_there_from_when_it_is_ready_and_lost_from_its_notice_on() -> None:
    watch = SpotWatch([FIXED])
    assert look(watch, 0.0, node("a", NodePhase.BOOTING)) == PoolSpells("c", "p", 0.0)
    assert look(watch, 10.0, node("a")).spells == (NodeSpell("a", 10.0),)
    lost = (NodeSpell("a", 10.0, 50.0, lost=True),)
    assert look(watch, 50.0, node("a", NodePhase.DRAINING, 170.0)).spells == lost
    assert look(watch, 170.0).spells == lost
    assert look(watch, 300.0, node("b")).spells == (*lost, NodeSpell("b", 300.0))


def test_what_an_elastic_pool_gives_back_is_no_loss_and_what_is_taken_from_under_a_pod_is() -> None:
    watch = SpotWatch([ELASTIC])
    look(watch, 0.0, node("idle"), node("busy"), node("silent"), pods=(pod_on("busy"),))
    told = look(watch, 60.0, node("silent", NodePhase.GONE))
    assert told.asks
    assert {one.node: one.lost for one in told.spells} == {"idle": False, "busy": True, "silent": True}


def test_a_pool_that_cannot_ask_for_nodes_gives_none_back() -> None:
    watch = SpotWatch([FIXED])
    look(watch, 0.0, node("a"))
    assert look(watch, 60.0).spells == (NodeSpell("a", 0.0, 60.0, lost=True),)


def test_without_news_the_very_same_is_told_and_what_is_long_past_is_forgotten() -> None:
    watch = SpotWatch([FIXED])
    first = look(watch, 0.0, node("n0"))
    assert look(watch, 30.0, node("n0"), pods=(pod_on("n0"),)) is first
    for number in range(1, 2 * REMEMBERED):
        told = look(watch, 60.0 * number, node(f"n{number}"))
    assert len(told.spells) == REMEMBERED + 1
    assert told.spells[-1] == NodeSpell(f"n{2 * REMEMBERED - 1}", 60.0 * (2 * REMEMBERED - 1))


def test_only_spot_pools_are_watched() -> None:
    owned = PoolSpec("p", "big", Tariff("c", "p", "big"), nodes=1)
    assert SpotWatch([owned]).look(ClusterState("c", 0.0, "1", (node("a"),), ())) == ()
