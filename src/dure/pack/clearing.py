"""Making room on one node: lower priorities give way, or pods that fit elsewhere move there.

One search serves preemption and defragmentation: for each node, take away the least costly pods until the wanted pod
fits, put back those that were not needed, and compare what remains. A move needs a seat elsewhere, found by the same
packer on a copy; an eviction for priority does not. Nobody goes whom a disruption budget protects. Called by
`packer` and, for plans, by `defrag`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from dure.model.cluster import ClusterState, Pod, PodPhase
from dure.model.decision import Decision, Evict, Hold
from dure.model.once import once
from dure.model.reason import Reason, Verdict
from dure.model.units import WHOLE_MILLI
from dure.model.workload import WorkloadType
from dure.pack import seating
from dure.pack.fit import fits_node
from dure.pack.neighbours import gate_of
from dure.pack.room import NodeRoom, copied

if TYPE_CHECKING:
    from dure.pack.moves import Moves

_GANG_PENALTY = 4.0
_RESTART_S = 60.0


class Clearing(NamedTuple):
    """The victims on one node that make the wanted pod fit there, and what taking them costs (seconds of work)."""

    room: NodeRoom
    victims: tuple[Pod, ...]
    cost: float


class Cleared(NamedTuple):
    """A seat and those who must leave it first."""

    seat: seating.Seat
    victims: tuple[Pod, ...]


def make_room(gang: list[Pod], world: seating.World) -> list[Decision] | None:
    """Wait for those who leave already; else push out lower priorities; else move a few within the tenants' budgets.

    Evictions and the Binds they make possible, or Holds while somebody is still on the way out: the seats are taken
    in either case, so that nobody who comes later gets what was cleared for this gang.
    """
    first = gang[0]
    cleared = _seats_after(gang, world, _is_leaving) if _any(world, _is_leaving) else None
    if cleared is None and world.settings.preempt and first.preempts:
        lower = _pushed_out_by(first)
        cleared = _seats_after(gang, world, lower) if _any(world, lower) else None
    if cleared is not None:
        return _give_way(cleared)
    if len(gang) > 1 or world.settings.moves_per_tenant <= 0:
        return None
    if world.board is None:
        found = cheapest(first, world, lambda victim: may_move(victim, world))
        if found is not None and within_budget(found.victims, world.settings.moves_per_tenant):
            return _move_away(first, found, world)
        return None
    moves = few_moves(first, world, world.settings.moves_per_tenant)
    if moves is None:
        return None
    world.budget.used += len(moves.victims)
    found = Clearing(world.rooms[moves.node], moves.victims, 0.0)
    return _moved(first, found, moves.homes, world)


def few_moves(pod: Pod, world: seating.World, per_tenant: int) -> Moves | None:
    """In a large cluster: the moves that the arrays find, as far as budgets allow them."""
    whole = pod.demand.devices * WHOLE_MILLI
    allowance = world.budget.allowance(whole or pod.demand.device_milli, world.settings.moves)
    if allowance is None:
        return None
    # Behind it is a compiler, which who has a board has loaded.
    from dure.pack.moves import moves_for

    def allowed(victim: Pod, others: Sequence[Pod]) -> bool:
        if not may_move(victim, world) or not _within_budgets(victim, others, world):
            return False
        return within_budget([*others, victim], per_tenant)

    return moves_for(pod, world, allowance, allowed)


def guarded(gang: list[Pod], world: seating.World) -> tuple[Verdict, ...]:
    """Whether disruption budgets are all that keeps this pod from pushing others out."""
    first = gang[0]
    if not world.state.budgets or not world.settings.preempt or not first.preempts:
        return ()
    free = world._replace(state=replace(world.state, budgets={}))
    found = cheapest(first, free, _pushed_out_by(first))
    if found is None:
        return ()
    names = sorted({name for victim in found.victims for name in victim.budgets})
    wanted = f"{len(found.victims)} pods of lower priority to give way"
    allowed = f"{', '.join(names)} allows {min((_left(name, world) for name in names), default=0)} disruptions now"
    return (Verdict(found.room.node.name, Reason.DISRUPTION_BUDGET, wanted, allowed),)


def _is_leaving(victim: Pod) -> bool:
    return victim.leaving


def _pushed_out_by(pod: Pod) -> Callable[[Pod], bool]:
    return lambda victim: victim.leaving or may_preempt(pod, victim)


def _any(world: seating.World, allowed: Callable[[Pod], bool]) -> bool:
    return any(allowed(pod) for pod in world.state.pods if pod.holds)


def _seats_after(gang: Sequence[Pod], world: seating.World, allowed: Callable[[Pod], bool]) -> list[Cleared] | None:
    """Seats for all of the gang, each cleared where it must be; taken from the rooms, or nothing is changed."""
    done: list[Cleared] = []
    for pod in gang:
        one = _seat_after(pod, world, allowed, [before.seat.room for before in done])
        if one is None:
            for before in reversed(done):
                before.seat.room.give_back(before.seat.pod, before.seat.parts)
                _put_back(before.victims, world)
            return None
        one.seat.room.take(one.seat.pod, one.seat.parts)
        done.append(one)
    return done


def _seat_after(
    pod: Pod, world: seating.World, allowed: Callable[[Pod], bool], gang_nodes: Sequence[NodeRoom]
) -> Cleared | None:
    seat = seating.best_seat(pod, world, world.rooms, gang_nodes)
    if seat is not None:
        return Cleared(seat, ())
    found = cheapest(pod, world, allowed)
    if found is None:
        return None
    seat = _in_place_of(found, pod, world)
    return Cleared(seat, found.victims) if seat is not None else None


def _in_place_of(found: Clearing, pod: Pod, world: seating.World) -> seating.Seat | None:
    """The pod's seat once the victims are off; they are put back if there is none."""
    room = world.rooms[found.room.node.name]
    for victim in found.victims:
        world.rooms[victim.node].give_back(victim, victim.slices)
        _spend(victim, world, 1)
    seat = seating.best_seat(pod, world, {room.node.name: room}, ())
    if seat is None:
        _put_back(found.victims, world)
    return seat


def _put_back(victims: Sequence[Pod], world: seating.World) -> None:
    for victim in victims:
        world.rooms[victim.node].take(victim, victim.slices)
        _spend(victim, world, -1)


def _spend(victim: Pod, world: seating.World, times: int) -> None:
    for name in () if victim.leaving else victim.budgets:
        world.spent[name] = world.spent.get(name, 0) + times


def _left(budget: str, world: seating.World) -> int:
    return max(0, world.state.budgets.get(budget, 0) - world.spent.get(budget, 0))


def may_preempt(pod: Pod, victim: Pod) -> bool:
    """Only lower priorities, and never somebody else's pod that was promised a device or node of its own."""
    if victim.priority >= pod.priority:
        return False
    return not victim.isolation.walls_devices or victim.tenant == pod.tenant


def may_move(victim: Pod, world: seating.World) -> bool:
    """Serving moves while other replicas answer; training with checkpoints; batch that may be interrupted.

    Never a pod that Dure did not make: nobody might make it again.
    """
    if not might_move(victim):
        return False
    return victim.type is not WorkloadType.SERVING or replicas(world.state)[victim.workload] > 1


@once
def replicas(state: ClusterState) -> Counter[str]:
    """Running pods of each workload."""
    return Counter(pod.workload for pod in state.pods if pod.phase is PodPhase.RUNNING)


def might_move(pod: Pod) -> bool:
    """What of it hangs on the pod alone."""
    if pod.phase is not PodPhase.RUNNING or pod.gang > 1 or pod.claims or not pod.workload or pod.leaving:
        return False
    if pod.type is WorkloadType.SERVING:
        return True
    return pod.interruptible and (pod.type is not WorkloadType.TRAINING or pod.checkpoint_s > 0)


def impact(victim: Pod, now_s: float) -> float:
    """Work that is lost, in device-seconds: since the last checkpoint, or since the start, plus a restart."""
    if victim.leaving:
        return 0.0
    lost = 0.0 if victim.type is WorkloadType.SERVING else victim.unsaved_s(now_s)
    devices = max(victim.demand.device_milli / 1000, 0.05)
    return (lost + _RESTART_S) * devices * (_GANG_PENALTY * victim.gang if victim.gang > 1 else 1.0)


def cheapest(pod: Pod, world: seating.World, allowed: Callable[[Pod], bool]) -> Clearing | None:
    """The least costly clearing over all nodes; ties go to fewer victims, then the fuller node."""
    best: Clearing | None = None
    ruled = gate_of(pod, world.rooms) is not None
    for room in world.rooms.values():
        if pod.pool and room.node.pool != pod.pool:
            continue
        here = [victim for victim in room.pods.values() if victim.holds and allowed(victim)]
        found = clear(pod, room, here, world, ruled=ruled) if here else None
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    return best


def _rank(found: Clearing) -> tuple[float, int, int, str]:
    return found.cost, len(found.victims), found.room.cpu_milli, found.room.node.name


def clear(
    pod: Pod, room: NodeRoom, candidates: Sequence[Pod], world: seating.World, *, ruled: bool
) -> Clearing | None:
    """Take victims off in order of priority and impact until the pod fits, then spare those that need not go.

    `ruled`: somebody has rules about others, so whoever goes may change what the rest say.
    """
    trial = copied(room)
    now = world.state.now_s

    def fits() -> bool:
        gate = gate_of(pod, {**world.rooms, room.node.name: trial}) if ruled else None
        return not isinstance(fits_node(pod, trial, world.catalogue, gate), Verdict)

    taken: list[Pod] = []
    for victim in sorted(candidates, key=lambda p: (not p.leaving, p.priority, impact(p, now), p.name)):
        if fits():
            break
        if _within_budgets(victim, taken, world):
            trial.give_back(victim, victim.slices)
            taken.append(victim)
    if not taken or not fits():
        return None
    for victim in sorted(taken, key=lambda p: (p.leaving, -p.priority, -impact(p, now), p.name)):
        trial.take(victim, victim.slices)
        if fits():
            taken.remove(victim)
        else:
            trial.give_back(victim, victim.slices)
    return Clearing(room, tuple(taken), sum(impact(victim, now) for victim in taken)) if taken else None


def _within_budgets(victim: Pod, taken: Sequence[Pod], world: seating.World) -> bool:
    """Whether every disruption budget of the pod allows one more to go; of one that nobody knows there is no word."""
    if victim.leaving or not world.state.budgets:
        return True
    for name in victim.budgets:
        used = sum(name in other.budgets and not other.leaving for other in taken)
        if name in world.state.budgets and used >= _left(name, world):
            return False
    return True


def within_budget(victims: Sequence[Pod], most: int) -> bool:
    counts: dict[str, int] = {}
    for victim in victims:
        counts[victim.tenant] = counts.get(victim.tenant, 0) + 1
    return all(count <= most for count in counts.values())


def _give_way(cleared: Sequence[Cleared]) -> list[Decision]:
    """Evictions of those who stay so far; binds unless somebody is on the way out already."""
    evicts = [_evict(one.seat, victim) for one in cleared for victim in one.victims if not victim.leaving]
    leaving = sorted(shown(victim, one.seat.pod) for one in cleared for victim in one.victims if victim.leaving)
    if not leaving:
        binds = [decision for one in cleared for decision in seating.bound(one.seat, _of(one, evicts))]
        return [*evicts, *binds]
    where = cleared[0].seat.room.node.name
    found = f"{', '.join(leaving[:3])} {'is' if len(leaving) == 1 else 'are'} still leaving"
    why = Verdict(where, Reason.WAITING_FOR_EVICTION, f"the place on {where}", found)
    return [*evicts, *(Hold(one.seat.pod.workload, (why,), pod=one.seat.pod.name) for one in cleared)]


def shown(pod: Pod, reader: Pod) -> str:
    """Its name, for the reason of a pod of the same tenant; others are not told whose pod it was."""
    return pod.name if pod.tenant == reader.tenant else "another tenant's pod"


def _of(one: Cleared, evicts: Sequence[Evict]) -> list[Evict]:
    names = {victim.name for victim in one.victims}
    return [evict for evict in evicts if evict.pod in names]


def _evict(seat: seating.Seat, victim: Pod) -> Evict:
    wanted = f"priority {seat.pod.priority} for {shown(seat.pod, victim)}"
    why = Verdict(seat.room.node.name, Reason.PREEMPTED, wanted, f"has {victim.priority}")
    return Evict(victim.name, victim.uid, victim.workload, why)


def _move_away(pod: Pod, found: Clearing, world: seating.World) -> list[Decision] | None:
    """Only if each victim has a seat elsewhere once the pod sits; checked on copies, nothing is taken yet."""
    homes = seats_elsewhere(pod, found, world)
    return _moved(pod, found, homes, world) if homes is not None else None


def _moved(pod: Pod, found: Clearing, homes: Sequence[seating.Seat], world: seating.World) -> list[Decision] | None:
    evicts = []
    for victim, home in zip(found.victims, homes, strict=True):
        wanted = f"room for {shown(pod, victim)}"
        why = Verdict(found.room.node.name, Reason.FRAGMENTED, wanted, f"fits on {home.room.node.name} as well")
        evicts.append(Evict(victim.name, victim.uid, victim.workload, why))
    seat = _in_place_of(found, pod, world)
    if seat is None:
        return None
    seat.room.take(seat.pod, seat.parts)
    return [*evicts, *seating.bound(seat, evicts)]


def seats_elsewhere(pod: Pod, found: Clearing, world: seating.World) -> list[seating.Seat] | None:
    """Where the victims would go, with the wanted pod seated on the cleared node."""
    rooms = {name: copied(room) for name, room in world.rooms.items()}
    target = rooms[found.room.node.name]
    for victim in found.victims:
        target.give_back(victim, victim.slices)
    there = seating.best_seat(pod, world, {found.room.node.name: target}, ())
    if there is None:
        return None
    target.take(there.pod, there.parts)
    homes: list[seating.Seat] = []
    for victim in found.victims:
        seat = seating.best_seat(victim, world, rooms, ())
        if seat is None:
            return None
        seat.room.take(seat.pod, seat.parts)
        homes.append(seat)
    return homes
