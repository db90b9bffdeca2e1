"""A seat for a held pod by moving at most two others: the search of the replays (`relocate`) on a live cluster.

The arrays find the moves; rules of migration, disruption budgets and tenants' budgets say beforehand who may be asked
to go; and the rooms confirm on copies, seat by seat, what the arrays found before anybody is told to go. Called by
`clearing` for a pod that was just refused and by `defrag` for plans, in clusters that have a `board`. Invariant:
board and rooms are as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dure.model.cluster import Pod
from dure.pack import seating
from dure.pack.ask import Ask
from dure.pack.board import Board
from dure.pack.budget import Allowance
from dure.pack.held import Held
from dure.pack.relocate import relocate
from dure.pack.room import copied

# A pair may be two too many of one budget: then somebody else is asked, so often.
_TRIES = 4


class Moves(NamedTuple):
    """On `node` the pod has a seat once the victims have left, each for its `home`."""

    node: str
    victims: tuple[Pod, ...]
    homes: tuple[seating.Seat, ...]


def moves_for(
    pod: Pod, world: seating.World, allowance: Allowance, allowed: Callable[[Pod, Sequence[Pod]], bool]
) -> Moves | None:
    """`allowed` says whether a pod may go when some others go already."""
    board = world.board
    asks = board.asks(pod) if board is not None else None
    if board is None or not asks:
        return None
    held = board.held()
    barred = {row for row, victim in held.pods.items() if not allowed(victim, ())}
    for _ in range(_TRIES):
        found = _search(board, held, asks, allowance, barred)
        if found is None:
            return None
        rows, nodes, target = found
        victims = [held.pods[row] for row in rows]
        if all(allowed(victim, victims[:at]) for at, victim in enumerate(victims)):
            return _confirmed(pod, victims, nodes, target, world)
        barred.add(rows[-1])
    return None


def _search(
    board: Board, held: Held, asks: Sequence[Ask], allowance: Allowance, barred: set[int]
) -> tuple[tuple[int, ...], list[str], str] | None:
    """Rows that leave, where each goes, and whose node the pod gets; the arrays are written back from the rooms."""
    nodes = held.holders.node
    kept = {row: int(nodes[row]) for row in barred}
    for row in barred:
        nodes[row] = -1
    found = None
    for ask in asks:
        way = relocate(board.grid, ask, held.holders, allowance.most, allowance.net)
        if way is not None:
            homes = [board.names[int(nodes[row])] for row in way.moved]
            found = way.moved, homes, board.names[way.seat.node]
            break
    for row, node in kept.items():
        nodes[row] = node
    if found is not None:
        victims = [held.pods[row].node for row in found[0]]
        board.write_again({*victims, *found[1], found[2]})
    return found


def _confirmed(
    pod: Pod, victims: Sequence[Pod], nodes: Sequence[str], target: str, world: seating.World
) -> Moves | None:
    """Every seat as the packer gives it, on copies of the rooms concerned."""
    names = {target, *nodes, *(victim.node for victim in victims)}
    rooms = {name: copied(world.rooms[name]) for name in names}
    for victim in victims:
        rooms[victim.node].give_back(victim, victim.slices)
    there = seating.best_seat(pod, world, {target: rooms[target]}, ())
    if there is None:
        return None
    there.room.take(there.pod, there.parts)
    homes: dict[str, seating.Seat] = {}
    by_size = sorted(
        zip(victims, nodes, strict=True), key=lambda one: (-one[0].demand.device_milli, -one[0].demand.cpu_milli)
    )
    for victim, home in by_size:
        seat = seating.best_seat(victim, world, {home: rooms[home]}, ())
        if seat is None:
            return None
        seat.room.take(seat.pod, seat.parts)
        homes[victim.name] = seat
    return Moves(target, tuple(victims), tuple(homes[victim.name] for victim in victims))
