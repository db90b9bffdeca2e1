"""Making room on one node: lower priorities give way, or pods that fit elsewhere move there.

One search serves preemption and defragmentation: for each node, take away the least costly pods until the wanted pod
fits, put back those that were not needed, and compare what remains. A move needs a seat elsewhere, found by the same
packer on a copy; an eviction for priority does not. Called by `packer` for a single pod and by `defrag` for plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dure.model.cluster import Pod, PodPhase
from dure.model.decision import Decision, Evict
from dure.model.reason import Reason, Verdict
from dure.model.tenant import Isolation
from dure.model.workload import WorkloadType
from dure.pack import seating
from dure.pack.fit import fits_node
from dure.pack.room import NodeRoom, copied

_GANG_PENALTY = 4.0
_RESTART_S = 60.0


class Clearing(NamedTuple):
    """The victims on one node that make the wanted pod fit there, and what taking them costs (seconds of work)."""

    room: NodeRoom
    victims: tuple[Pod, ...]
    cost: float


def make_room(gang: list[Pod], world: seating.World) -> list[Decision] | None:
    """Evictions and the Bind they make possible: for priority if allowed, else moves within the tenants' budgets."""
    pod = gang[0]
    if world.settings.preempt and pod.priority > 0:
        found = cheapest(pod, world, lambda victim: may_preempt(pod, victim))
        if found is not None:
            return _give_way(pod, found, world)
    if world.settings.moves_per_tenant > 0 and (pod.demand.devices > 1 or pod.gang == 1):
        found = cheapest(pod, world, lambda victim: may_move(victim, world))
        if found is not None and within_budget(found.victims, world.settings.moves_per_tenant):
            return _move_away(pod, found, world)
    return None


def may_preempt(pod: Pod, victim: Pod) -> bool:
    """Only lower priorities, and never somebody else's pod that was promised a device or node of its own."""
    if victim.priority >= pod.priority:
        return False
    return victim.isolation is Isolation.SHARED or victim.tenant == pod.tenant


def may_move(victim: Pod, world: seating.World) -> bool:
    """Serving moves while other replicas answer; training with checkpoints; batch that may be interrupted."""
    if victim.phase is not PodPhase.RUNNING or victim.gang > 1:
        return False
    if victim.type is WorkloadType.SERVING:
        mates = [p for p in world.state.pods if p.workload == victim.workload and p.phase is PodPhase.RUNNING]
        return len(mates) > 1
    if victim.type is WorkloadType.TRAINING:
        return victim.checkpoint_s > 0 and victim.interruptible
    return victim.interruptible


def impact(victim: Pod, now_s: float) -> float:
    """Work that is lost, in device-seconds: since the last checkpoint, or since the start, plus a restart."""
    ran = max(0.0, now_s - (victim.started_s if victim.started_s is not None else now_s))
    if victim.type is WorkloadType.SERVING:
        lost = 0.0
    elif victim.checkpoint_s > 0:
        lost = ran % victim.checkpoint_s
    else:
        lost = ran
    devices = max(victim.demand.device_milli / 1000, 0.05)
    return (lost + _RESTART_S) * devices * (_GANG_PENALTY * victim.gang if victim.gang > 1 else 1.0)


def cheapest(pod: Pod, world: seating.World, allowed: Callable[[Pod], bool]) -> Clearing | None:
    """The least costly clearing over all nodes; ties go to fewer victims, then the fuller node."""
    best: Clearing | None = None
    for room in world.rooms.values():
        if pod.pool and room.node.pool != pod.pool:
            continue
        here = [p for p in world.state.pods if p.node == room.node.name and p.holds and p.name in room.pods]
        found = clear(pod, room, [victim for victim in here if allowed(victim)], world)
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    return best


def _rank(found: Clearing) -> tuple[float, int, int, str]:
    return found.cost, len(found.victims), found.room.cpu_milli, found.room.node.name


def clear(pod: Pod, room: NodeRoom, candidates: Sequence[Pod], world: seating.World) -> Clearing | None:
    """Take victims off in order of priority and impact until the pod fits, then spare those that need not go."""
    trial = copied(room)
    now = world.state.now_s
    taken: list[Pod] = []
    for victim in sorted(candidates, key=lambda p: (p.priority, impact(p, now), p.name)):
        if not isinstance(fits_node(pod, trial, world.catalogue), Verdict):
            break
        trial.give_back(victim, victim.slices)
        taken.append(victim)
    if isinstance(fits_node(pod, trial, world.catalogue), Verdict):
        return None
    for victim in sorted(taken, key=lambda p: (-p.priority, -impact(p, now), p.name)):
        trial.take(victim, victim.slices)
        if isinstance(fits_node(pod, trial, world.catalogue), Verdict):
            trial.give_back(victim, victim.slices)
        else:
            taken.remove(victim)
    return Clearing(room, tuple(taken), sum(impact(victim, now) for victim in taken)) if taken else None


def within_budget(victims: Sequence[Pod], most: int) -> bool:
    counts: dict[str, int] = {}
    for victim in victims:
        counts[victim.tenant] = counts.get(victim.tenant, 0) + 1
    return all(count <= most for count in counts.values())


def _give_way(pod: Pod, found: Clearing, world: seating.World) -> list[Decision] | None:
    evicts = []
    for victim in found.victims:
        why = Verdict(
            found.room.node.name,
            Reason.PREEMPTED,
            f"priority {pod.priority} for {pod.name}",
            f"has {victim.priority}",
        )
        evicts.append(Evict(victim.name, victim.uid, victim.workload, why))
    return _act(pod, found, evicts, world)


def _move_away(pod: Pod, found: Clearing, world: seating.World) -> list[Decision] | None:
    """Only if each victim has a seat elsewhere once the pod sits; checked on copies, nothing is taken yet."""
    homes = seats_elsewhere(pod, found, world)
    if homes is None:
        return None
    evicts = []
    for victim, home in zip(found.victims, homes, strict=True):
        why = Verdict(
            found.room.node.name, Reason.FRAGMENTED, f"room for {pod.name}", f"fits on {home.room.node.name} as well"
        )
        evicts.append(Evict(victim.name, victim.uid, victim.workload, why))
    return _act(pod, found, evicts, world)


def seats_elsewhere(pod: Pod, found: Clearing, world: seating.World) -> list[seating.Seat] | None:
    """Where the victims would go, with the wanted pod seated on the cleared node."""
    rooms = {name: copied(room) for name, room in world.rooms.items()}
    target = rooms[found.room.node.name]
    for victim in found.victims:
        target.give_back(victim, victim.slices)
    there = seating.best_seat(pod, world, {found.room.node.name: target}, ())
    if there is None:
        return None
    target.take(pod, there.parts)
    homes: list[seating.Seat] = []
    for victim in found.victims:
        seat = seating.best_seat(victim, world, rooms, ())
        if seat is None:
            return None
        seat.room.take(victim, seat.parts)
        homes.append(seat)
    return homes


def _act(pod: Pod, found: Clearing, evicts: list[Evict], world: seating.World) -> list[Decision] | None:
    room = world.rooms[found.room.node.name]
    for victim in found.victims:
        room.give_back(victim, victim.slices)
    seat = seating.best_seat(pod, world, {room.node.name: room}, ())
    if seat is None:
        for victim in found.victims:
            room.take(victim, victim.slices)
        return None
    room.take(pod, seat.parts)
    return [*evicts, *seating.bound(seat, evicts)]
