"""Elastic Slice Packing of one cluster: a Bind for every pending pod that fits, else the cheapest way to make room.

Training gangs are seated whole, in the nearest part of the cluster that holds them; serving replicas are spread over
failure domains; everything else goes where the least is stranded by the usual mix of demands. What does not fit is
held with the nearest miss, unless lower priorities can give way or a few moves would free the place (`clearing`).
Cost: O(pending pods x nodes) in small clusters; in large ones, whose `board` is kept from call to call, O(pending
pods) looks at a few nodes each. Called by the agent; the state is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, PodPhase
from dure.model.decision import Bind, Decision, Hold
from dure.model.reason import Reason, Verdict
from dure.pack.clearing import guarded, make_room
from dure.pack.memory import Memory
from dure.pack.misses import misses
from dure.pack.seating import USUAL, PackSettings, World, bound, kind_of, seat_gang, world_of

# Verdicts by who was refused; see `_alike`.
Refused = dict[tuple[object, ...], tuple[Verdict, ...]]


def pack(
    state: ClusterState, catalogue: Catalogue, memory: Memory | None = None, settings: PackSettings = USUAL
) -> tuple[Decision, ...]:
    """Decisions for every pending pod: Resize and Evict before the Bind that needs them, or a Hold."""
    waiting = gangs(state.pods)
    if not waiting:
        return ()
    world = world_of(state, catalogue, memory, settings)
    decisions: list[Decision] = []
    refused: Refused = {}
    for gang in waiting:
        decisions.extend(_pack_gang(gang, world, refused))
    world.budget.placed += sum(isinstance(one, Bind) for one in decisions)
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


def _pack_gang(gang: list[Pod], world: World, refused: Refused) -> list[Decision]:
    first = gang[0]
    if len(gang) < first.gang:
        clash = Verdict(first.pool or "gang", Reason.GANG_INCOMPLETE, f"{first.gang} pods", f"{len(gang)} are here")
        return [Hold(pod.workload, (clash,), pod=pod.name) for pod in gang]
    alike = _alike(gang, world)
    verdicts = refused.get(alike) if alike is not None else None
    if verdicts is None:
        found = _seated(gang, world)
        if found is not None:
            # Whoever comes next finds another cluster.
            refused.clear()
            return found
        verdicts = (*guarded(gang, world), *misses(gang, world.rooms, world.catalogue))
        if alike is not None:
            refused[alike] = verdicts
    return [Hold(one.workload, verdicts, pod=one.name) for one in gang]


def _seated(gang: list[Pod], world: World) -> list[Decision] | None:
    seats = seat_gang(gang, world, world.rooms)
    if seats is not None:
        return [decision for seat in seats for decision in bound(seat)]
    return make_room(gang, world)


def _alike(gang: list[Pod], world: World) -> tuple[object, ...] | None:
    """The same for gangs who are refused for the same reasons while nobody is seated; None for who has own wishes."""
    first = gang[0]
    kinds = tuple(kind_of(pod, world) for pod in gang)
    if None in kinds:
        return None
    labels = tuple(sorted(first.labels.items()))
    return kinds, first.pool, first.priority, first.preempts, first.namespace, labels
