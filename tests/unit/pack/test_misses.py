"""Why a gang is held: one verdict for each reason, the nearest node's, what is most easily mended first."""

from __future__ import annotations

import msgspec

from dure.model.cluster import Node, NodePhase, Pod, Taint
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.tenant import Isolation
from dure.pack.misses import misses
from dure.pack.room import KeptRooms
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running


def told(gang: list[Pod], nodes: list[Node], *there: Pod) -> tuple[Verdict, ...]:
    return misses(gang, KeptRooms().of(cluster(nodes, list(there)), CATALOGUE), CATALOGUE)


def test_a_cluster_or_pool_without_nodes_says_so() -> None:
    assert told([pod("p", devices=1)], []) == (Verdict("cluster", Reason.NO_CAPACITY, "a node", "the pool has none"),)
    assert told([pod("p", devices=1, pool="x")], [node("a")])[0].where == "x"


def test_each_reason_is_told_once_of_the_node_with_most_free_devices() -> None:
    nodes = [node("a", 1), node("c", 3), node("b", 3)]
    assert [(one.where, one.found) for one in told([pod("p", devices=9)], nodes)] == [("b", "b has 3 free")]


def test_what_can_be_mended_most_easily_comes_first_and_there_are_no_more_than_eight() -> None:
    def like(name: str, **more: object) -> Node:
        return msgspec.structs.replace(node(name, 1), labels={"k": "v"}, **more)

    nodes = [
        like("taint", taints=(Taint("t"),)),
        msgspec.structs.replace(node("label", 1)),
        like("alone"),
        like("host", cpu_milli=1),
        msgspec.structs.replace(node("class", 1, cls="small"), labels={"k": "v"}),
        like("boots", phase=NodePhase.BOOTING),
        like("mode", share=()),
        like("full"),
        like("wide"),
    ]
    by_name = {one.name: one for one in nodes}
    wish = msgspec.structs.replace(
        pod("p", selector={"k": "v"}, isolation=Isolation.OWN_DEVICE, gang=2, workload="g"),
        demand=Demand(compute_milli=800, bandwidth_milli=800, memory_mib=60_000, cpu_milli=2),
    )
    there = [
        running([by_name[where]], [msgspec.structs.replace(pod(f"x-{where}", **more), selector={"k": "v"})])[0]
        for where, more in (
            ("alone", {"compute": 1, "tenant": "u"}),
            ("full", {"compute": 300}),
            ("wide", {"memory": 70_000}),
        )
    ]
    found = told([wish, wish], nodes, *there)
    reasons = [one.reason for one in found]
    assert reasons == [
        Reason.GANG_INCOMPLETE,
        Reason.NO_CAPACITY,
        Reason.HOST_TOO_SMALL,
        Reason.ISOLATION_TIER,
        Reason.SHARE_MODE_NOT_OFFERED,
        Reason.CLASS_NOT_ACCEPTED,
        Reason.TAINT_NOT_TOLERATED,
        Reason.SELECTOR_MISMATCH,
    ]


def test_a_gang_is_told_how_many_nodes_would_take_one_member() -> None:
    gang = [pod(f"g{i}", devices=2, gang=3, workload="g") for i in range(3)]
    nodes = [node("a", 2), node("b", 2), node("c", 1)]
    first = told(gang, nodes)[0]
    assert first == Verdict("cluster", Reason.GANG_INCOMPLETE, "3 at once", "2 nodes have room for one member")
    none = told([msgspec.structs.replace(one, pool="pool") for one in gang], [node("c", 1)])[0]
    assert none == Verdict("pool", Reason.GANG_INCOMPLETE, "3 at once", "no node has room for one member")


def torn(wanted: int, *sizes: int, **more: object) -> list[str]:
    nodes = [node(f"n{i}", size) for i, size in enumerate(sizes)]
    wish = pod("p", devices=wanted, **more)  # type: ignore[arg-type]
    return [one.sentence for one in told([wish], nodes) if one.reason is Reason.FRAGMENTED]


def test_enough_devices_that_do_not_lie_together_are_called_fragmented_instead_of_missing() -> None:
    sentence = "needs 3 devices on one node, largest free group is 2; 3 are free in all"
    assert torn(3, 2, 1) == [sentence]
    assert torn(3, 1, 1) == [], "there are too few in all"
    assert torn(2, 2, 1) == [], "there is such a group"
    assert torn(2, 1, 1) == ["needs 2 devices on one node, largest free group is 1; 2 are free in all"]
    assert torn(1, 0, 0) == []
    nodes = [node("a", 2), node("b", 1), node("s", 4, cls="small")]
    found = told([pod("p", devices=3, pool="pool")], nodes)
    assert [(one.where, one.reason) for one in found] == [
        ("pool", Reason.FRAGMENTED),
        ("s", Reason.CLASS_NOT_ACCEPTED),
    ]
    assert found[0].sentence == sentence, "devices of other classes do not count"
