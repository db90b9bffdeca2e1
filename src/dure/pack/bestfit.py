"""Best fit: each pod goes where the least is left over; gangs all or nothing, on as few nodes as they need.

Cost: O(pending pods x nodes). When not to use it: it counts what is left now and not what the usual mix of demands
could still do with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, PodPhase, Slice
from dure.model.decision import Bind, Decision, Hold, Resize
from dure.model.reason import Reason, Verdict
from dure.pack.fit import fits_node
from dure.pack.room import NodeRoom, rooms_of

_MAX_VERDICTS = 8


class _Seat(NamedTuple):
    """Where one pod would sit, and what of it it would take."""

    pod: Pod
    room: NodeRoom
    parts: tuple[Slice, ...]


def pack(state: ClusterState, catalogue: Catalogue) -> tuple[Decision, ...]:
    """A Bind for every pending pod that fits (with the Resize it needs before), a Hold for every other."""
    rooms = rooms_of(state, catalogue)
    decisions: list[Decision] = []
    for gang in _gangs(state.pods):
        decisions.extend(_pack_gang(gang, rooms, catalogue))
    return tuple(decisions)


def _gangs(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Pending pods by gang, most urgent first, then the oldest; a replica of a serving workload stands alone."""
    groups: dict[tuple[str, int] | str, list[Pod]] = {}
    for pod in pods:
        if pod.phase is PodPhase.PENDING and not pod.node:
            key = (pod.workload, pod.generation) if pod.workload and pod.gang > 1 else pod.uid
            groups.setdefault(key, []).append(pod)
    for group in groups.values():
        group.sort(key=lambda pod: pod.index)
    return sorted(groups.values(), key=lambda group: (-group[0].priority, group[0].created_s, group[0].name))


def _pack_gang(gang: list[Pod], rooms: dict[str, NodeRoom], catalogue: Catalogue) -> list[Decision]:
    first = gang[0]
    if len(gang) < first.gang:
        clash = Verdict(first.pool or "gang", Reason.GANG_INCOMPLETE, f"{first.gang} pods", f"{len(gang)} are here")
        return [Hold(pod.workload, (clash,), pod=pod.name) for pod in gang]
    seats: list[_Seat] = []
    for pod in gang:
        found = _best_seat(pod, rooms, catalogue, [seat.room for seat in seats])
        if isinstance(found, _Seat):
            found.room.take(pod, found.parts)
            seats.append(found)
            continue
        for seat in seats:
            seat.room.give_back(seat.pod, seat.parts)
        verdicts = _with_gang(gang, len(seats), found)
        return [Hold(one.workload, verdicts, pod=one.name) for one in gang]
    return [decision for seat in seats for decision in _bound(seat)]


def _best_seat(
    pod: Pod, rooms: dict[str, NodeRoom], catalogue: Catalogue, gang_nodes: list[NodeRoom]
) -> _Seat | list[Verdict]:
    """The node that is left with the least; a gang member prefers a node that already has one."""
    verdicts: list[Verdict] = []
    best: tuple[tuple[bool, int, int, str], _Seat] | None = None
    for name, room in rooms.items():
        if pod.pool and room.node.pool != pod.pool:
            continue
        answer = fits_node(pod, room, catalogue)
        if isinstance(answer, Verdict):
            verdicts.append(answer)
            continue
        left = sum(one.compute_milli for one in room.devices.values()) - sum(one.compute_milli for one in answer)
        rank = (room not in gang_nodes, left, room.cpu_milli, name)
        if best is None or rank < best[0]:
            best = (rank, _Seat(pod, room, answer))
    if best is not None:
        return best[1]
    if not verdicts:
        verdicts.append(Verdict(pod.pool or "cluster", Reason.NO_CAPACITY, "a node", "the pool has none"))
    return _nearest(verdicts)


def _nearest(verdicts: list[Verdict]) -> list[Verdict]:
    """One verdict for each reason, so that a person is not shown a thousand equal lines."""
    by_reason: dict[Reason | None, Verdict] = {}
    for verdict in verdicts:
        by_reason.setdefault(verdict.reason, verdict)
    return list(by_reason.values())[:_MAX_VERDICTS]


def _with_gang(gang: list[Pod], placed: int, verdicts: list[Verdict]) -> tuple[Verdict, ...]:
    if len(gang) == 1:
        return tuple(verdicts)
    whole = Verdict(gang[0].pool or "cluster", Reason.GANG_INCOMPLETE, f"{len(gang)} at once", f"{placed} fit now")
    return (whole, *verdicts)


def _bound(seat: _Seat) -> list[Decision]:
    decisions: list[Decision] = []
    for part in seat.parts:
        room = seat.room.devices[part.device]
        if room.device.mode is not part.mode and room.clients == 1:
            why = Verdict(part.device, None, f"{part.mode} for {seat.pod.name}", f"was {room.device.mode} and empty")
            decisions.append(Resize(seat.room.node.name, part.device, part.mode, why))
    decisions.append(Bind(seat.pod.name, seat.pod.uid, seat.room.node.name, seat.parts, seat.pod.workload))
    return decisions
