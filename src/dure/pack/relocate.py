"""One move to let a refused demand in: take a pod off a node where the demand would then fit, seat it elsewhere.

The array counterpart of `clearing`: used where pods never leave by themselves and only a small budget of moves is
given. Cost per call: one choice per shape that is held anywhere, then a few trials. Invariant: when nothing helps,
the grid is exactly as before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dure.pack.ask import Ask
from dure.pack.codes import D_CODE, H_CPU, H_FIRST, H_MEM, H_TYPE, NEVER, WHOLE
from dure.pack.grid import Grid, Seat
from dure.pack.kernels import node_cost

_TRIALS = 60


class Held(NamedTuple):
    """A demand that holds a seat; `key` is the caller's name for it."""

    key: int
    ask: Ask
    seat: Seat


class Moved(NamedTuple):
    """Who moved where, and where the new demand sits now."""

    key: int
    to: Seat
    seat: Seat


def relocate(grid: Grid, ask: Ask, held: dict[int, Held]) -> Moved | None:
    """Move one holder so that `ask` fits; the smallest holder that does it goes. None when no single move helps."""
    homes = _movable(grid, {one.ask for one in held.values()})
    codes = np.minimum(grid.devs[:, D_CODE], WHOLE)
    first = grid.hosts[:, H_FIRST]
    whole, most = np.add.reduceat(codes == WHOLE, first), np.maximum.reduceat(codes, first)
    candidates = sorted(
        (one.ask.milli * one.ask.pieces, one.ask.cpu, one.key)
        for one in held.values()
        if one.ask in homes
        and _might_fit(grid, ask, one)
        and _room_after(ask, one.ask, int(whole[one.seat.node]), int(most[one.seat.node]))
    )
    for _, _, key in candidates[:_TRIALS]:
        moved = _try(grid, ask, held[key])
        if moved is not None:
            return moved
    return None


def _movable(grid: Grid, asks: set[Ask]) -> set[Ask]:
    """Shapes that would find another seat right now."""
    trial = grid.fork()
    able = set()
    for ask in sorted(asks):
        seat = trial.seat(ask)
        if seat is not None:
            able.add(ask)
            trial.free(ask, seat)
    return able


def _might_fit(grid: Grid, ask: Ask, one: Held) -> bool:
    host = grid.hosts[one.seat.node]
    if not ask.types >> int(host[H_TYPE]) & 1:
        return False
    return bool(host[H_CPU] + one.ask.cpu >= ask.cpu and host[H_MEM] + one.ask.mem >= ask.mem)


def _room_after(ask: Ask, gone: Ask, whole: int, most: int) -> bool:
    """Whether the devices could be enough once a holder is gone; an optimistic guess that spares most trials."""
    if ask.milli >= WHOLE:
        return whole + gone.pieces >= ask.pieces
    return most + gone.milli >= ask.milli


def _try(grid: Grid, ask: Ask, one: Held) -> Moved | None:
    node = one.seat.node
    grid.free(one.ask, one.seat)
    if node_cost(grid.hosts, grid.devs, *grid.priced.tables, node, ask.row()) == NEVER:
        grid.put(one.ask, one.seat)
        return None
    seat = grid.seat_on(ask, node)
    to = grid.seat(one.ask)
    if to is None:
        grid.free(ask, seat)
        grid.put(one.ask, one.seat)
        return None
    return Moved(one.key, to, seat)
