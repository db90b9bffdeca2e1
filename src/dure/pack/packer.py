"""Elastic Slice Packing of one cluster: a Bind for every pending pod that fits, else the cheapest way to make room.

Training gangs are seated whole, in the nearest part of the cluster that holds them; serving replicas are spread over
failure domains; everything else goes where the least is stranded by the usual mix of demands. What does not fit is
held with the nearest miss, unless lower priorities can give way or a few moves would free the place (`clearing`).
Cost: O(pending pods x nodes). Called by the agent; the state is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, PodPhase
from dure.model.decision import Decision, Hold
from dure.model.reason import Reason, Verdict
from dure.pack.clearing import guarded, make_room
from dure.pack.memory import Memory
from dure.pack.misses import misses
from dure.pack.seating import USUAL, PackSettings, World, bound, seat_gang, world_of


def pack(
    state: ClusterState, catalogue: Catalogue, memory: Memory | None = None, settings: PackSettings = USUAL
) -> tuple[Decision, ...]:
    """Decisions for every pending pod: Resize and Evict before the Bind that needs them, or a Hold."""
    waiting = gangs(state.pods)
    if not waiting:
        return ()
    world = world_of(state, catalogue, memory, settings)
    decisions: list[Decision] = []
    for gang in waiting:
        decisions.extend(_pack_gang(gang, world))
    return tuple(decisions)


def gangs(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Pending pods by gang, most urgent first, then the oldest; a replica of a serving workload stands alone.

    One that was told to go before it got a seat gets none.
    """
    groups: dict[tuple[str, int] | str, list[Pod]] = {}
    for pod in pods:
        if pod.phase is PodPhase.PENDING and not pod.node and not pod.leaving:
            key = (pod.workload, pod.generation) if pod.workload and pod.gang > 1 else pod.name
            groups.setdefault(key, []).append(pod)
    for group in groups.values():
        group.sort(key=lambda pod: pod.index)
    return sorted(groups.values(), key=lambda group: (-group[0].priority, group[0].created_s, group[0].name))


def _pack_gang(gang: list[Pod], world: World) -> list[Decision]:
    first = gang[0]
    if len(gang) < first.gang:
        clash = Verdict(first.pool or "gang", Reason.GANG_INCOMPLETE, f"{first.gang} pods", f"{len(gang)} are here")
        return [Hold(pod.workload, (clash,), pod=pod.name) for pod in gang]
    seats = seat_gang(gang, world, world.rooms)
    if seats is not None:
        return [decision for seat in seats for decision in bound(seat)]
    cleared = make_room(gang, world)
    if cleared is not None:
        return cleared
    verdicts = (*guarded(gang, world), *misses(gang, world.rooms, world.catalogue))
    return [Hold(one.workload, verdicts, pod=one.name) for one in gang]
