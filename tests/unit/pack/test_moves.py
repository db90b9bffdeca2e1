"""Moves for a held pod of a large cluster: the search of the replays, under the rules of a live cluster."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from dure.model.cluster import ClusterState, Node, Pod
from dure.model.decision import Bind, Decision, Evict, Hold
from dure.model.reason import Reason
from dure.model.workload import WorkloadType
from dure.pack import Memory, PackSettings, pack
from dure.pack.board import Board
from dure.pack.budget import Budget, MoveSettings
from dure.pack.defrag import plan_room, still_valid
from dure.pack.relocate import relocate
from dure.pack.room import KeptRooms
from dure.pack.seating import world_of
from tests.unit.pack.test_board import SEEDS, figures, tell
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

FREE = MoveSettings(per_pod=1.0)
MOVING = PackSettings(arrays_from=0, moves=FREE)
NODES = [node("a"), node("b"), node("c", 1)]
WIDE = pod("wide", devices=4)


def torn(**kind: object) -> list[Pod]:
    """One movable pod on each node of four; the third node has a device to spare."""
    kind = {"interruptible": True, **kind}
    here = [*running(NODES[:1], [pod("x", devices=1)]), *running(NODES[1:2], [pod("y", devices=2)])]
    return [replace(one, **kind) for one in here]


def decided(pods: list[Pod], packing: PackSettings = MOVING, **more: object) -> tuple[Decision, ...]:
    state: ClusterState = replace(cluster(NODES, pods), **more)
    return pack(state, CATALOGUE, Memory(), packing)


def test_a_held_pod_gets_a_node_whose_only_tenant_fits_elsewhere() -> None:
    found = decided([*torn(), WIDE])
    (evict,) = [one for one in found if isinstance(one, Evict)]
    (bind,) = [one for one in found if isinstance(one, Bind)]
    assert (evict.pod, bind.pod, bind.node, bind.evicts) == ("x", "wide", "a", ("x",))
    assert evict.reason.reason is Reason.FRAGMENTED


def test_it_is_the_search_of_the_replays_that_found_it() -> None:
    state = cluster(NODES, [*torn(), WIDE])
    board = world_of(state, CATALOGUE, Memory(), MOVING).board
    assert board is not None
    asks, held = board.asks(WIDE), board.held()
    assert asks
    way = relocate(board.grid, asks[0], held.holders, 2, FREE.first)
    assert way is not None
    assert (board.names[way.seat.node], [held.pods[row].name for row in way.moved]) == ("a", ["x"])


@pytest.mark.parametrize(
    "kind",
    [
        {"interruptible": False},
        {"type": WorkloadType.TRAINING},
        {"type": WorkloadType.SERVING},
        {"leaving": True},
        {"gang": 2},
        {"budgets": ("pdb",)},
    ],
)
def test_who_may_not_move_stays(kind: dict[str, object]) -> None:
    found = decided([*torn(**kind), WIDE], budgets={"pdb": 0})
    assert not [one for one in found if isinstance(one, Evict)]
    assert any(isinstance(one, Hold) for one in found)


def test_two_leave_together_only_as_far_as_budgets_go() -> None:
    """Both pods of the second node would have to go; the first node's may not."""
    stays = running(NODES[:1], [pod("x", devices=1)])
    pair = running(
        NODES[1:2], [pod(f"y{i}", devices=1, interruptible=True, budgets=("pdb",), tenant="t") for i in range(2)]
    )
    for left, per_tenant, moved in ((2, 2, 2), (1, 2, 0), (2, 1, 0)):
        packing = replace(MOVING, moves_per_tenant=per_tenant)
        found = decided([*stays, *pair, WIDE], packing, budgets={"pdb": left})
        assert len([one for one in found if isinstance(one, Evict)]) == moved


def test_one_move_for_a_hundred_pods_and_none_for_less_than_a_third_of_a_device() -> None:
    found = decided([*torn(), WIDE], replace(MOVING, moves=MoveSettings()))
    assert not [one for one in found if isinstance(one, Evict)]
    budget = Budget(placed=199)
    assert budget.allowance(299) is None
    first = budget.allowance(4000)
    assert first is not None
    assert (first.most, first.net) == (1, -0.5)
    budget.placed, budget.used = 400, 2
    later = budget.allowance(4000)
    assert later is not None
    assert (later.most, later.net) == (2, 0.5)
    budget.used = 4
    assert budget.allowance(4000) is None


def test_moves_are_counted_against_the_budget() -> None:
    memory = Memory()
    state = cluster(NODES, [*torn(), WIDE])
    pack(state, CATALOGUE, memory, MOVING)
    assert memory.allowed(state) == Budget(placed=3, used=1)


def test_a_plan_comes_from_the_same_search_and_is_looked_at_again() -> None:
    state = cluster(NODES, [*torn(), WIDE])
    plan = plan_room(state, CATALOGUE, WIDE, Memory(), packing=MOVING)
    assert plan is not None
    assert (plan.node, [(move.pod, move.from_node, move.to_node) for move in plan.moves]) == ("a", [("x", "a", "c")])
    assert still_valid(plan, state, CATALOGUE)
    taken = running(NODES[2:], [pod("z", devices=1)])
    full = [node("b", 2) if one.name == "b" else one for one in NODES]
    assert not still_valid(plan, cluster(full, [*torn(), *taken, WIDE]), CATALOGUE)


def test_a_plan_of_many_moves_is_still_made_where_two_do_not_help() -> None:
    nodes: list[Node] = [node("a"), node("b", 3)]
    small = running(nodes[:1], [pod(f"s{i}", devices=1, interruptible=True, tenant=f"t{i}") for i in range(3)])
    plan = plan_room(cluster(nodes, [*small, WIDE]), CATALOGUE, WIDE, Memory(), packing=MOVING)
    assert plan is not None
    assert (plan.node, len(plan.moves)) == ("a", 3)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_moves_leave_the_arrays_true_and_overcommit_nothing(seed: int) -> None:
    memory, chance = Memory(), Random(seed)

    def act(state: ClusterState) -> tuple[Decision, ...]:
        pods = tuple(replace(one, interruptible=chance.random() < 0.8) for one in state.pods)
        state = replace(state, pods=pods)
        decisions = pack(state, CATALOGUE, memory, MOVING)
        board = world_of(state, CATALOGUE, memory, MOVING).board
        assert board is not None
        fresh = Board(board.rooms, memory.classes, CATALOGUE, board.hardware, board.priced, [])
        for gate in board._gates.values():
            fresh._gate(gate.pod)
        assert figures(board) == figures(fresh)
        gone = {one.pod for one in decisions if isinstance(one, Evict)}
        made = {one.pod: one for one in decisions if isinstance(one, Bind)}
        left = tuple(
            replace(one, node=made[one.name].node, slices=made[one.name].slices) if one.name in made else one
            for one in state.pods
            if one.name not in gone
        )
        for room in KeptRooms().of(replace(state, pods=left), CATALOGUE).values():
            assert room.cpu_milli >= 0
            for device in room.devices.values():
                assert min(device.memory_mib, device.compute_milli, device.bandwidth_milli) >= 0
        return decisions

    tell(seed, act)
