"""Defragmentation and compaction: the cheapest moves that rebuild a large free place or empty a node.

A plan is made on a copy of the cluster by the same seating as live packing, and is worth only while `still_valid`
says so on a newer state. Moves follow the rules of `clearing.may_move`: serving warms up its replacement first,
training moves at a checkpoint, nobody loses more pods than the budget of a tenant allows. Pure;
called by the agent's period. Replicas of one workload may share a uid, so a pod is known by name and uid.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, Slice
from dure.model.defrag import DefragPlan, How, PodMove
from dure.model.demand import Demand
from dure.model.workload import WorkloadType
from dure.pack.clearing import Clearing, cheapest, few_moves, impact, may_move, seats_elsewhere, within_budget
from dure.pack.memory import Memory
from dure.pack.room import copied
from dure.pack.seating import USUAL as PACKING
from dure.pack.seating import PackSettings, Seat, World, best_seat, world_of


class DefragSettings(msgspec.Struct, frozen=True):
    moves_per_tenant: int = 4
    most_moves: int = 16


USUAL = DefragSettings()


def plan_room(
    state: ClusterState,
    catalogue: Catalogue,
    wanted: Pod,
    memory: Memory | None = None,
    settings: DefragSettings = USUAL,
    packing: PackSettings = PACKING,
) -> DefragPlan | None:
    """The cheapest moves after which `wanted` fits on one node; None when it fits already or no moves can help.

    In a large cluster one or two moves by the arrays are tried before any number of them off one node.
    """
    world = world_of(state, catalogue, memory, packing)
    if best_seat(wanted, world, world.rooms, ()) is not None:
        return None
    few = few_moves(wanted, world, settings.moves_per_tenant) if world.board is not None else None
    if few is not None:
        return _plan(wanted, few.node, few.victims, few.homes, state)
    found = cheapest(wanted, world, lambda pod: may_move(pod, world))
    if found is None or not _affordable(found, settings):
        return None
    homes = seats_elsewhere(wanted, found, world)
    if homes is None:
        return None
    return _plan(wanted, found.room.node.name, found.victims, homes, state)


def _plan(wanted: Pod, node: str, victims: Sequence[Pod], homes: Sequence[Seat], state: ClusterState) -> DefragPlan:
    moves = tuple(
        _move(victim, home.room.node.name, home.parts, state.now_s)
        for victim, home in zip(victims, homes, strict=True)
    )
    goal = f"{wanted.demand.devices} whole devices" if wanted.demand.whole else f"room for {wanted.name}"
    cost = sum(impact(victim, state.now_s) for victim in victims)
    return DefragPlan(state.cluster, goal, node, moves, cost, state.version)


def plan_empty(
    state: ClusterState, catalogue: Catalogue, memory: Memory | None = None, settings: DefragSettings = USUAL
) -> DefragPlan | None:
    """The cheapest node to empty: every pod on it has a seat on a node that is in use; None when there is none."""
    world = _world(state, catalogue, memory)
    best: DefragPlan | None = None
    for name, room in sorted(world.rooms.items()):
        here = sorted((pod for pod in state.pods if pod.node == name and pod.holds), key=lambda pod: pod.name)
        if not here or not all(may_move(pod, world) for pod in here):
            continue
        cost = sum(impact(pod, state.now_s) for pod in here)
        if not _affordable(Clearing(room, tuple(here), cost), settings) or (best and best.cost_s <= cost):
            continue
        moves = _rehomed(here, name, world)
        if moves is not None:
            best = DefragPlan(state.cluster, "an empty node", name, moves, cost, state.version)
    return best


def still_valid(plan: DefragPlan, state: ClusterState, catalogue: Catalogue) -> bool:
    """Whether every move of the plan can still be made on this state, one after the other."""
    world = _world(state, catalogue, None)
    pods = {(pod.name, pod.uid): pod for pod in state.pods}
    rooms = {name: copied(room) for name, room in world.rooms.items()}
    for move in plan.moves:
        pod = pods.get((move.pod, move.uid))
        if pod is None or not pod.holds or pod.node != move.from_node or not may_move(pod, world):
            return False
        rooms[pod.node].give_back(pod, pod.slices)
    for move in plan.moves:
        pod = pods[move.pod, move.uid]
        seat = best_seat(pod, world, {move.to_node: rooms[move.to_node]}, ()) if move.to_node in rooms else None
        if seat is None:
            return False
        seat.room.take(pod, seat.parts)
    return True


def whole_devices(classes: tuple[str, ...], devices: int, pool: str = "") -> Pod:
    """A stand-in for a demand of whole devices that should become possible."""
    return Pod(
        name="(wanted)", uid="(wanted)", tenant="", type=WorkloadType.TRAINING, demand=Demand(devices=devices),
        classes=classes, pool=pool,
    )  # fmt: skip


def _world(state: ClusterState, catalogue: Catalogue, memory: Memory | None) -> World:
    return world_of(state, catalogue, memory, PackSettings())


def _affordable(found: Clearing, settings: DefragSettings) -> bool:
    return len(found.victims) <= settings.most_moves and within_budget(found.victims, settings.moves_per_tenant)


def _rehomed(pods: list[Pod], leaving: str, world: World) -> tuple[PodMove, ...] | None:
    rooms = {name: copied(room) for name, room in world.rooms.items() if name != leaving and room.pods}
    moves = []
    for pod in pods:
        seat = best_seat(pod, world, rooms, ())
        if seat is None:
            return None
        seat.room.take(pod, seat.parts)
        moves.append(_move(pod, seat.room.node.name, seat.parts, world.state.now_s))
    return tuple(moves)


def _move(pod: Pod, to_node: str, slices: tuple[Slice, ...], now_s: float) -> PodMove:
    match pod.type:
        case WorkloadType.SERVING:
            how = How.WARM_FIRST
        case WorkloadType.TRAINING:
            how = How.AT_CHECKPOINT
        case WorkloadType.BATCH:
            how = How.RESTART
    lost = impact(pod, now_s)
    return PodMove(pod.name, pod.uid, pod.workload, pod.tenant, pod.node, to_node, slices, how, lost)
