"""Defragmentation: cheapest moves, rules kept, plans checked again before they are acted on."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.accelerator import ShareMode
from dure.model.cluster import Node, Pod, PodPhase, Slice
from dure.model.defrag import DefragPlan, How, PodMove
from dure.model.demand import Demand
from dure.model.workload import WorkloadType
from dure.pack.defrag import DefragSettings, plan_empty, plan_room, still_valid, whole_devices
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

WANTED = whole_devices(("big",), 4)


def torn() -> tuple[list[Node], list[Pod]]:
    """Two nodes of four devices, each with one pod that may move; the one on b began later."""
    busy = running([node("a")], [pod("x", devices=1, interruptible=True)])
    late = running([node("b")], [pod("y", devices=1, interruptible=True)])[0]
    return [node("a"), node("b")], [*busy, msgspec.structs.replace(late, started_s=900.0)]


def test_the_cheapest_move_rebuilds_a_whole_node() -> None:
    nodes, busy = torn()
    plan = plan_room(cluster(nodes, busy), CATALOGUE, WANTED)
    assert plan is not None
    (move,) = plan.moves
    assert (move.pod, move.from_node, move.to_node, move.how) == ("y", "b", "a", How.RESTART)


def test_nothing_is_planned_when_the_place_is_free_already() -> None:
    nodes, busy = torn()
    assert plan_room(cluster([*nodes, node("c")], busy), CATALOGUE, WANTED) is None


@pytest.mark.parametrize("kind", [WorkloadType.TRAINING, WorkloadType.SERVING, WorkloadType.BATCH])
def test_training_without_checkpoints_a_lone_replica_and_fixed_batch_never_move(kind: WorkloadType) -> None:
    busy = running([node("a")], [pod("x", devices=1, type=kind)])
    busy += running([node("b")], [pod("y", devices=1, type=kind)])
    assert plan_room(cluster([node("a"), node("b")], busy), CATALOGUE, WANTED) is None


def test_training_moves_at_its_checkpoint() -> None:
    train = pod("x", devices=1, type=WorkloadType.TRAINING, checkpoint_s=300.0, interruptible=True)
    busy = running([node("a")], [train]) + running([node("b")], [pod("y", devices=1)])
    plan = plan_room(cluster([node("a"), node("b")], busy), CATALOGUE, WANTED)
    assert plan is not None
    assert [move.how for move in plan.moves] == [How.AT_CHECKPOINT]


def test_serving_moves_warm_first_while_another_replica_answers() -> None:
    replicas = [pod(f"s{i}", devices=1, type=WorkloadType.SERVING, workload="s") for i in range(2)]
    busy = running([node("a"), node("b")], replicas)
    plan = plan_room(cluster([node("a"), node("b")], busy), CATALOGUE, WANTED)
    assert plan is not None
    assert [move.how for move in plan.moves] == [How.WARM_FIRST]


def test_a_tenant_is_not_moved_more_often_than_its_budget_allows() -> None:
    nodes, busy = torn()
    none = DefragSettings(moves_per_tenant=0)
    assert plan_room(cluster(nodes, busy), CATALOGUE, WANTED, settings=none) is None


def test_a_node_is_emptied_onto_nodes_in_use() -> None:
    nodes, busy = torn()
    plan = plan_empty(cluster([*nodes, node("idle")], busy), CATALOGUE)
    assert plan is not None
    assert (plan.node, [move.to_node for move in plan.moves]) == ("b", ["a"])


def test_a_node_is_left_alone_while_one_of_its_pods_must_stay() -> None:
    nodes, busy = torn()
    stays = [running([one], [pod(f"stays-{one.name}", devices=1)])[0] for one in nodes]
    assert plan_empty(cluster(nodes, [*busy, *stays]), CATALOGUE) is None


def test_a_plan_is_void_once_the_world_has_changed() -> None:
    nodes, busy = torn()
    plan = plan_room(cluster(nodes, busy), CATALOGUE, WANTED)
    assert plan is not None
    assert still_valid(plan, cluster(nodes, busy), CATALOGUE)
    assert not still_valid(plan, cluster([nodes[1]], busy), CATALOGUE)
    assert not still_valid(plan, cluster(nodes, []), CATALOGUE)


def test_a_plan_for_one_of_two_replicas_with_one_uid_holds_on_the_state_it_was_made_from() -> None:
    replicas = [pod(f"s{i}", devices=1, type=WorkloadType.SERVING, workload="s") for i in range(2)]
    busy = [msgspec.structs.replace(one, uid="s") for one in running([node("a"), node("b")], replicas)]
    for order in (busy, busy[::-1]):
        state = cluster([node("a"), node("b")], order)
        plan = plan_room(state, CATALOGUE, WANTED)
        assert plan is not None
        assert still_valid(plan, state, CATALOGUE)


def test_a_plan_says_what_for_where_at_which_price_and_on_which_state() -> None:
    nodes, busy = torn()
    plan = plan_room(cluster(nodes, busy), CATALOGUE, WANTED)
    part = Slice("a/1", ShareMode.EXCLUSIVE, memory_mib=81_920, compute_milli=1000, bandwidth_milli=1000)
    move = PodMove("y", "uid-y", "y", "t", "b", "a", (part,), How.RESTART, 160.0)
    assert plan == DefragPlan("c", "4 whole devices", "b", (move,), 160.0, "v1")


def test_a_share_may_be_what_room_is_made_for() -> None:
    """One device is held by a pod that may move; the only other one is too small a host for the share."""
    a, c = node("a", 1), node("c", 1, cpu=2000)
    busy = running([a], [pod("x", devices=1, interruptible=True)])
    share = pod("share", compute=1000, memory=81_000, share=(ShareMode.MPS,))
    wanted = msgspec.structs.replace(share, demand=msgspec.structs.replace(share.demand, cpu_milli=4000))
    assert plan_room(cluster([a], busy), CATALOGUE, wanted) is None, "nobody has another home"
    plan = plan_room(cluster([a, c], busy), CATALOGUE, wanted)
    assert plan is not None
    assert (plan.goal, [move.to_node for move in plan.moves]) == ("room for share", ["c"])


def test_a_plan_has_no_more_moves_than_allowed() -> None:
    a, b = node("a"), node("b")
    pair = running([a], [pod(name, devices=1, interruptible=True) for name in ("x", "y")])
    state = cluster([a, b], [*pair, *running([b], [pod("z", devices=1)])])
    assert plan_room(state, CATALOGUE, WANTED, settings=DefragSettings(most_moves=1)) is None
    assert plan_room(state, CATALOGUE, WANTED, settings=DefragSettings(moves_per_tenant=1)) is None
    plan = plan_room(state, CATALOGUE, WANTED, settings=DefragSettings(most_moves=2, moves_per_tenant=2))
    assert plan is not None
    assert [move.pod for move in plan.moves] == ["x", "y"]
    for few in (DefragSettings(most_moves=1), DefragSettings(moves_per_tenant=1)):
        assert plan_empty(state, CATALOGUE, settings=few) is None
    empty = plan_empty(state, CATALOGUE)
    assert empty is not None
    assert (empty.goal, empty.node, empty.cost_s, empty.cluster, empty.version) == (
        "an empty node", "a", 2 * 960.0, "c", "v1"
    )  # fmt: skip


def test_of_nodes_that_can_be_emptied_the_cheapest_then_the_first_is() -> None:
    nodes, busy = torn()
    same = [msgspec.structs.replace(one, started_s=100.0) for one in busy]
    plan = plan_empty(cluster(nodes[::-1], same), CATALOGUE)
    assert plan is not None
    assert plan.node == "a"


def test_a_node_whose_pods_have_no_home_on_others_in_use_is_not_emptied() -> None:
    nodes, busy = torn()
    for free in (0, 1):
        full = running([nodes[0]], [pod(f"f{i}", devices=1) for i in range(4 - free)])
        plan = plan_empty(cluster([*nodes, node("idle")], [busy[1], *full]), CATALOGUE)
        assert (plan is not None) == bool(free)


@pytest.mark.parametrize(
    "change",
    [
        {"node": "a"},
        {"interruptible": False},
        {"phase": PodPhase.SUCCEEDED},
        {"uid": "another"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_plan_is_void_when_its_pod_is_another_ended_elsewhere_or_may_not_move(change: dict[str, object]) -> None:
    nodes, busy = torn()
    plan = plan_room(cluster(nodes, busy), CATALOGUE, WANTED)
    assert plan is not None
    moved = [busy[0], msgspec.structs.replace(busy[1], **change)]
    assert not still_valid(plan, cluster(nodes, moved), CATALOGUE)


def test_a_plan_is_void_when_the_place_it_moves_to_is_taken() -> None:
    nodes, busy = torn()
    plan = plan_room(cluster(nodes, busy), CATALOGUE, WANTED)
    assert plan is not None
    full = running([nodes[0]], [pod(f"f{i}", devices=1) for i in range(4)])
    assert not still_valid(plan, cluster(nodes, [busy[1], *full]), CATALOGUE)
    assert still_valid(plan, cluster(nodes, [busy[1], *full[:3]]), CATALOGUE)


def test_two_moves_of_a_plan_do_not_share_one_place() -> None:
    a, b = node("a"), node("b", 2)
    pair = running([a], [pod(name, devices=1, interruptible=True) for name in ("x", "y")])
    plan = plan_room(cluster([a, b], pair), CATALOGUE, WANTED)
    assert plan is not None
    assert len(plan.moves) == 2
    taken = running([b], [pod("z", devices=1)])
    assert still_valid(plan, cluster([a, b], pair), CATALOGUE)
    assert not still_valid(plan, cluster([a, b], [*pair, *taken]), CATALOGUE)


def test_a_stand_in_asks_for_devices_of_its_classes_and_pool() -> None:
    made = whole_devices(("big", "small"), 3, "pool")
    assert (made.demand, made.classes, made.pool) == (Demand(devices=3), ("big", "small"), "pool")
