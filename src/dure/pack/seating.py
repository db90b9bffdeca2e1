"""Where a pod or a gang would sit best, on a scratch copy of the cluster. For `packer`, `clearing` and `defrag`.

Invariant: a gang is seated whole or not at all, and a seat that is not kept leaves the rooms as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dure.model.affinity import NO_RULES
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, Slice
from dure.model.decision import Bind, Decision, Evict, Resize
from dure.model.reason import Verdict
from dure.model.workload import WorkloadType
from dure.pack.allot import allot
from dure.pack.budget import USUAL as MOVES
from dure.pack.budget import Budget, MoveSettings
from dure.pack.fit import fits_node
from dure.pack.guard import Guards
from dure.pack.memory import Memory
from dure.pack.neighbours import Gate, gate_of
from dure.pack.room import DeviceRoom, NodeRoom
from dure.pack.score import Scorer

if TYPE_CHECKING:
    from dure.pack.board import Board
    from dure.pack.codes import Ints


class PackSettings(msgspec.Struct, frozen=True):
    """`moves_per_tenant` bounds how many pods of one tenant a call may move to make room; 0 moves none.

    Clusters of `arrays_from` nodes or more are searched as arrays, and `moves` bounds what is moved there in all;
    loading the compiler is not worth it for fewer nodes.
    """

    preempt: bool = True
    moves_per_tenant: int = 2
    arrays_from: int = 200
    moves: MoveSettings = MOVES


USUAL = PackSettings()
# Asking the arrays about so few nodes costs more than looking at them.
_FEW = 48


class Seat(NamedTuple):
    """Where one pod would sit, and what of it it would take."""

    pod: Pod
    room: NodeRoom
    parts: tuple[Slice, ...]


Rooms = dict[str, NodeRoom]


class World(NamedTuple):
    """All that one call works on; `rooms` is its scratch copy, `spent` what it has used of disruption budgets.

    `kinds` numbers pods that no node can tell apart; `guards` keep rooms for wide demand; `budget` counts moves.
    `board` has the rooms as arrays; None in small clusters, where every node is looked at.
    """

    state: ClusterState
    catalogue: Catalogue
    rooms: Rooms
    scorer: Scorer
    settings: PackSettings
    spent: dict[str, int]
    kinds: dict[object, int]
    guards: Guards
    budget: Budget
    board: Board | None = None


def world_of(
    state: ClusterState, catalogue: Catalogue, memory: Memory | None = None, settings: PackSettings = USUAL
) -> World:
    """Without a memory there is nobody to keep arrays for."""
    kept = memory is not None
    memory = memory if memory is not None else Memory()
    memory.learn(state, catalogue)
    rooms = memory.rooms.of(state, catalogue)
    board = memory.board(rooms, catalogue) if kept and len(rooms) >= settings.arrays_from else None
    budget = memory.allowed(state)
    return World(state, catalogue, rooms, memory.scorer(), settings, {}, memory.kinds, memory.guards(), budget, board)


def seat_gang(gang: Sequence[Pod], world: World, rooms: Rooms) -> list[Seat] | None:
    """Seat all of the gang or none: in one rack if one holds it, else one zone, else anywhere; taken from `rooms`."""
    if len(gang) == 1:
        seat = best_seat(gang[0], world, rooms, ())
        if seat is not None:
            seat.room.take(seat.pod, seat.parts)
        return [seat] if seat is not None else None
    for domain in _domains(rooms, [term.topology for term in gang[0].rules.together]):
        seats = _seat_within(gang, world, domain) if _roomy(domain, gang) else None
        if seats is not None:
            return seats
    return None


def _domains(rooms: Rooms, topologies: Sequence[str] = ()) -> list[Rooms]:
    """Racks, then zones, each with the fewest free devices first (the tightest that holds the gang), then all.

    A gang that must be together in a `topology` is tried in each of its domains before anything wider.
    """
    found: list[Rooms] = []
    for topology in topologies:
        named: dict[str, Rooms] = {}
        for key, room in rooms.items():
            named.setdefault(room.node.domain(topology) or "", {})[key] = room
        found.extend(sorted(named.values(), key=_free_devices))
    for name in ("rack", "zone"):
        parts: dict[str, Rooms] = {}
        for key, room in rooms.items():
            label = f"{room.node.zone}/{room.node.rack}" if name == "rack" else room.node.zone
            if getattr(room.node, name):
                parts.setdefault(label, {})[key] = room
        found.extend(sorted(parts.values(), key=_free_devices))
    return [*found, rooms]


def _roomy(rooms: Rooms, gang: Sequence[Pod]) -> bool:
    """Whether there are enough free whole devices at all: most of the domains that cannot hold a gang fail here."""
    wanted = sum(pod.demand.devices for pod in gang)
    return wanted == 0 or sum(room.free_whole for room in rooms.values()) >= wanted


def _free_devices(rooms: Rooms) -> tuple[int, int]:
    return sum(room.free_whole for room in rooms.values()), sum(room.cpu_milli for room in rooms.values())


def _seat_within(gang: Sequence[Pod], world: World, rooms: Rooms) -> list[Seat] | None:
    seats: list[Seat] = []
    among = _rows(rooms, world)
    for pod in gang:
        seat = best_seat(pod, world, rooms, [seat.room for seat in seats], among)
        if seat is None:
            for taken in seats:
                taken.room.give_back(taken.pod, taken.parts)
            return None
        seat.room.take(seat.pod, seat.parts)
        seats.append(seat)
    return seats


def _rows(rooms: Rooms, world: World) -> Ints | None:
    """A part of the cluster that is worth asking the arrays about: of a few nodes each is looked at."""
    if world.board is None or rooms is world.rooms or len(rooms) < _FEW:
        return None
    return world.board.rows_of(rooms)


def best_seat(
    pod: Pod, world: World, rooms: Rooms, gang_nodes: Sequence[NodeRoom], among: Ints | None = None
) -> Seat | None:
    """The cheapest seat for one pod: its wishes first, then the gang's nodes, then serving spread; no names.

    The arrays, if there are any, say which of the world's rooms (or of those `among` it) are worth a look. Who has
    rules about others, claims or a wish for a whole node is sought on every node, as in a small cluster.
    """
    board = world.board if rooms is world.rooms or among is not None else None
    asks = board.asks(pod) if board is not None else None
    if board is None or asks is None:
        crowd = _crowd(pod, world.rooms.values()) if _spreads(pod) else {}
        gate = gate_of(pod, {**world.rooms, **rooms} if rooms is not world.rooms else rooms)
        guarded = world.guards.prices(pod, world.rooms) if len(rooms) > 1 else []
        return _choose(pod, world, rooms.values(), Told(gate, gang_nodes, crowd, guarded))
    crowd = _crowd(pod, board.mates(pod.workload)) if _spreads(pod) else {}
    told = Told(None, gang_nodes, crowd, world.guards.extra(pod, *board.stock()))
    beside = _choose(pod, world, [room for room in gang_nodes if room.node.name in rooms], told)
    if beside is not None:
        return beside
    if crowd or among is not None:
        names = board.near_of(asks, among, board.crowds(crowd) if crowd else None)
    else:
        names = board.near(asks)
    return _choose(pod, world, [rooms[name] for name in (*names, *board.odd) if name in rooms], told)


class Told(NamedTuple):
    """What the rest of the cluster says about a seat: neighbours, the nodes of the gang, mates, guarded lanes."""

    gate: Gate | None
    gang_nodes: Sequence[NodeRoom]
    crowd: dict[str, int]
    guarded: Sequence[int]


def _choose(pod: Pod, world: World, rooms: Iterable[NodeRoom], told: Told) -> Seat | None:
    """Of these rooms the cheapest seat."""
    best: tuple[tuple[object, ...], Seat] | None = None
    look: tuple[object, ...] = ()
    kind = kind_of(pod, world) if told.gate is None else None
    for room in rooms:
        if pod.pool and room.node.pool != pod.pool:
            continue
        answers, costs = _ways(pod, room, world, told.gate, kind)
        if not answers:
            continue
        dislike = _dislike(pod, room, told.gate)
        spread = _spread(room, told.crowd)
        stray = room not in told.gang_nodes if told.gang_nodes else False
        guard = told.guarded[world.guards.lane(room)] if told.guarded else 0
        for parts, cost in zip(answers, costs, strict=True):
            rank = (dislike, stray, spread, cost + guard, room.cpu_milli, room.memory_mib)
            if best is None or rank < best[0]:
                best, look = (rank, Seat(pod, room, parts)), ()
            elif rank == best[0]:
                look = look or _look(best[1].room, best[1].parts)
                other = _look(room, parts)
                if other < look:
                    best, look = (rank, Seat(pod, room, parts)), other
    return _with_claims(best[1]) if best else None


def _spreads(pod: Pod) -> bool:
    return pod.type is WorkloadType.SERVING and bool(pod.workload)


def kind_of(pod: Pod, world: World) -> int | None:
    """The same number for pods that fit and cost the same everywhere; None for one with wishes of its own."""
    if pod.claims or pod.rules != NO_RULES:
        return None
    told = (
        pod.tenant, pod.isolation, pod.demand, pod.classes, pod.share, pod.tolerations,
        tuple(sorted(pod.selector.items())),
    )  # fmt: skip
    return world.kinds.setdefault(told, len(world.kinds))


def _ways(
    pod: Pod, room: NodeRoom, world: World, gate: Gate | None, kind: int | None
) -> tuple[Sequence[tuple[Slice, ...]], Sequence[int]]:
    """Every seat on one node and what each costs; asked once for a kind of pods while nothing changes there."""
    known = room.ways.get(kind) if kind is not None else None
    if known is not None and known[2] is world.scorer:
        return known[0], known[1]
    answers = fits_node(pod, room, world.catalogue, gate)
    seats = () if isinstance(answers, Verdict) else answers
    costs = world.scorer.costs(pod, room, seats) if seats else ()
    if kind is not None:
        room.ways[kind] = seats, costs, world.scorer
    return seats, costs


def _with_claims(seat: Seat) -> Seat:
    """The seat of a pod that knows which of the offered devices it gets there."""
    if not seat.pod.claims:
        return seat
    given = allot(seat.pod, seat.room)
    assert not isinstance(given, Verdict)
    return seat._replace(pod=msgspec.structs.replace(seat.pod, allotted=given))


def _dislike(pod: Pod, room: NodeRoom, gate: Gate | None) -> int:
    """What the pod would rather have; a wish of its owner goes before what packs well."""
    liked = sum(term.weight for term in pod.rules.likes if term.holds(room.node.name, room.node.labels))
    return (gate.dislike(room) if gate is not None else 0) - liked


def _look(room: NodeRoom, parts: Sequence[Slice]) -> tuple[object, ...]:
    """What tells seats of equal cost apart: the state of the devices taken, then of all. Only seats that are alike in
    all of that tie, and the name picks between equals."""
    taken = sorted(_left(room.devices[part.device]) for part in parts)
    devices = sorted(_left(device) for device in room.devices.values())
    return (taken, devices, room.node.name, parts[0].device if parts else "")


def _left(device: DeviceRoom) -> tuple[int, int, int, int, int]:
    return device.memory_mib, device.compute_milli, device.bandwidth_milli, device.clients, device.mask


def _crowd(pod: Pod, rooms: Iterable[NodeRoom]) -> dict[str, int]:
    """How many replicas of the pod's workload are in each zone, rack and node; seats of this call included."""
    counts: dict[str, int] = {}
    for room in rooms:
        mates = room.workloads.get(pod.workload, 0)
        if mates:
            for key in _places(room):
                counts[key] = counts.get(key, 0) + mates
    return counts


def _spread(room: NodeRoom, crowd: dict[str, int]) -> tuple[int, int, int]:
    zone, rack, node = (crowd.get(key, 0) for key in _places(room))
    return zone, rack, node


def _places(room: NodeRoom) -> tuple[str, str, str]:
    node = room.node
    return f"zone {node.zone}", f"rack {node.zone}/{node.rack}", f"node {node.name}"


def bound(seat: Seat, evicts: Sequence[Evict] = ()) -> list[Decision]:
    """The Bind of a seat that was taken, after the changes of mode it needs."""
    decisions: list[Decision] = []
    for part in seat.parts:
        room = seat.room.devices[part.device]
        if room.device.mode is not part.mode and room.clients == 1:
            why = Verdict(part.device, None, f"{part.mode} for {seat.pod.name}", f"was {room.device.mode} and empty")
            decisions.append(Resize(seat.room.node.name, part.device, part.mode, why))
    gone = tuple(evict.pod for evict in evicts)
    node, pod = seat.room.node.name, seat.pod
    decisions.append(Bind(pod.name, pod.uid, node, seat.parts, pod.workload, gone, pod.allotted))
    return decisions
