"""Defragmentation: cheapest moves, rules kept, plans checked again before they are acted on."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.cluster import Node, Pod
from dure.model.defrag import How
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
