"""Pushing out and moving: gangs, pods on their way out, disruption budgets, and who is never touched."""

from __future__ import annotations

import msgspec

from dure.model.affinity import Match, Operator, PodTerm, Rules
from dure.model.cluster import ClusterState, Node, Pod
from dure.model.decision import Bind, Decision, Evict, Hold
from dure.model.reason import Reason
from dure.model.workload import WorkloadType
from dure.pack import pack
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running


def decide(nodes: list[Node], pods: list[Pod], **budgets: int) -> tuple[Decision, ...]:
    return pack(msgspec.structs.replace(cluster(nodes, pods), budgets=budgets), CATALOGUE)


def evicted(decisions: tuple[Decision, ...]) -> set[str]:
    return {one.pod for one in decisions if isinstance(one, Evict)}


def bound(decisions: tuple[Decision, ...]) -> set[str]:
    return {one.pod for one in decisions if isinstance(one, Bind)}


def reasons(decisions: tuple[Decision, ...]) -> set[Reason | None]:
    return {verdict.reason for one in decisions if isinstance(one, Hold) for verdict in one.verdicts}


def full(count: int, **more: object) -> tuple[list[Node], list[Pod]]:
    """Nodes of one device, each held by a pod of priority 0."""
    nodes = [node(f"n{i}", 1) for i in range(count)]
    held = [running([nodes[i]], [pod(f"low{i}", devices=1, **more)])[0] for i in range(count)]  # type: ignore[arg-type]
    return nodes, held


def urgent(size: int = 1, **more: object) -> list[Pod]:
    made = [
        pod(f"up{i}", devices=1, priority=10, gang=size, workload="up", index=i, **more)  # type: ignore[arg-type]
        for i in range(size)
    ]
    return [msgspec.structs.replace(one, uid="uid-up") for one in made]


def test_a_gang_pushes_out_as_many_as_it_needs_or_nobody() -> None:
    nodes, held = full(3)
    decisions = decide(nodes, [*held, *urgent(2)])
    assert len(evicted(decisions)) == 2
    assert bound(decisions) == {"up0", "up1"}
    too_many = decide(nodes, [*held, *urgent(4)])
    assert evicted(too_many) == set()
    assert bound(too_many) == set()


def test_a_gang_that_finds_no_room_gives_back_the_disruptions_it_would_have_cost() -> None:
    nodes, held = full(2, budgets=("b",))
    alone = pod("alone", devices=1, priority=5)
    decisions = decide(nodes, [*held, *urgent(2), alone], b=1)
    assert (bound(decisions), len(evicted(decisions))) == ({"alone"}, 1)
    assert bound(decide(nodes, [*held, *urgent(2), alone], b=0)) == set()
    assert bound(decide(nodes, [*held, *urgent(2), alone], b=2)) == {"up0", "up1"}


def test_a_seat_that_somebody_is_leaving_is_waited_for_and_nobody_else_must_go() -> None:
    nodes, held = full(2)
    held[1] = msgspec.structs.replace(held[1], leaving=True)
    late = pod("late", devices=1)
    decisions = decide(nodes, [*held, *urgent(), late])
    assert evicted(decisions) == set()
    assert bound(decisions) == set()
    first = next(one for one in decisions if isinstance(one, Hold) and one.pod == "up0")
    assert first.verdicts[0].reason is Reason.WAITING_FOR_EVICTION
    assert first.verdicts[0].sentence == "needs the place on n1, low1 is still leaving"
    assert decide(nodes, [held[0], *urgent(), late])[0].pod == "up0"  # type: ignore[union-attr]


def test_free_devices_beside_a_leaving_pod_are_kept_for_the_one_who_waits() -> None:
    wide = node("wide", 2)
    (old,) = running([wide], [pod("old", devices=1)])
    old = msgspec.structs.replace(old, leaving=True)
    both = pod("both", devices=2, priority=10)
    assert bound(decide([wide], [old, both, pod("small", devices=1)])) == set()


def test_a_disruption_budget_is_kept_and_named() -> None:
    nodes, held = full(2, budgets=("ns/guard",))
    assert len(evicted(decide(nodes, [*held, *urgent()], **{"ns/guard": 1}))) == 1
    decisions = decide(nodes, [*held, *urgent()], **{"ns/guard": 0})
    assert evicted(decisions) == set()
    assert Reason.DISRUPTION_BUDGET in reasons(decisions)
    assert evicted(decide(nodes, [*held, *urgent(2)], **{"ns/guard": 1})) == set()


def test_one_budget_counts_for_all_who_are_seated_in_one_call() -> None:
    nodes, held = full(2, budgets=("ns/guard",))
    two = [pod(f"a{i}", devices=1, priority=10) for i in range(2)]
    assert len(evicted(decide(nodes, [*held, *two], **{"ns/guard": 1}))) == 1


def test_victims_without_a_budget_go_first_when_the_others_are_protected() -> None:
    nodes, held = full(2)
    held[0] = msgspec.structs.replace(held[0], budgets=("ns/guard",))
    assert evicted(decide(nodes, [*held, *urgent()], **{"ns/guard": 0})) == {"low1"}


def test_nobody_is_pushed_out_of_a_node_that_stays_forbidden() -> None:
    """On `a` somebody stays from whom the urgent one must keep apart; on `b` somebody who is nothing to it."""
    nodes = [node("a", 2), node("b", 2)]
    held = []
    for place, label in zip(nodes, ("x", "y"), strict=True):
        low = pod(f"low-{place.name}", devices=1)
        stays = pod(f"stays-{place.name}", devices=1, priority=10, namespace="ns", labels={"app": label})
        held += running([place], [low, stays])
    apart = Rules(apart=(PodTerm("kubernetes.io/hostname", (Match("app", Operator.IN, ("x",)),), ("ns",)),))
    assert evicted(decide(nodes, [*held, *urgent()])) == {"low-a"}
    assert evicted(decide(nodes, [*held, *urgent(rules=apart, namespace="ns")])) == {"low-b"}


def test_a_pod_that_must_not_preempt_waits_and_below_zero_is_lower_than_zero() -> None:
    nodes, held = full(1)
    assert evicted(decide(nodes, [*held, *urgent(preempts=False)])) == set()
    lower = [msgspec.structs.replace(held[0], priority=-5)]
    assert evicted(decide(nodes, [*lower, pod("usual", devices=1)])) == {"low0"}


def test_a_pod_that_dure_did_not_make_is_never_moved() -> None:
    nodes = [node("a", 2), node("b", 2)]
    service = {"type": WorkloadType.SERVING, "workload": ""}
    one = running([nodes[0]], [pod("x", devices=1, **service)])  # type: ignore[arg-type]
    two = running([nodes[1]], [pod("y", devices=1, **service)])  # type: ignore[arg-type]
    assert evicted(decide(nodes, [*one, *two, pod("wide", devices=2)])) == set()


def test_replicas_of_a_service_are_seated_one_by_one_even_if_not_all_fit() -> None:
    replicas = [pod(f"s{i}", devices=1, workload="s", type=WorkloadType.SERVING, index=i) for i in range(3)]
    same = [msgspec.structs.replace(one, uid="uid-s") for one in replicas]
    state: ClusterState = cluster([node("a", 2)], same)
    assert len(bound(pack(state, CATALOGUE))) == 2
