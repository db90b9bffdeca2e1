"""Let a refused demand in by moving at most two of those that hold seats.

Called by `moves` for a live cluster and by the replays of traces. Three ways, the fewest moves first: one holder
leaves a node for a seat it has elsewhere; two leave the same node; one leaves for a seat that another has to leave
first. Within a way the potential of the grid decides, as it does for every placement: the moves go where the usual
demand loses least, and they are made only if each brings, after that loss, what the caller asks for. Cost per call:
one choice per kind of holder, then O(holders) prices. Invariant: when nothing helps, grid and holders are exactly as
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dure.pack.ask import Ask
from dure.pack.budget import Budget
from dure.pack.codes import NEVER, WHOLE, Ints
from dure.pack.grid import Grid, Seat
from dure.pack.holders import Holders
from dure.pack.leaving import price_one, price_pairs
from dure.pack.worth import MICRO

# Prices are exact but for the seat elsewhere, which may be the one just freed: a few trials find one that holds.
_TRIALS = 40
_CHAINS = 48


class Way(NamedTuple):
    """Where the demand sits now, and the rows of those who moved for it."""

    seat: Seat
    moved: tuple[int, ...]


def relocate(grid: Grid, ask: Ask, holders: Holders, most: int = 2, net: float = 0.0) -> Way | None:
    """Seat `ask` with at most `most` (1 or 2) moves that each bring `net` devices beyond what others lose.

    Grid and holders' seats are changed only if that works.
    """
    elsewhere = grid.least_costs(holders.kinds)
    way = _one(grid, ask, holders, elsewhere, _dearest(grid, ask, net))
    if way is None and most > 1:
        dearest = _dearest(grid, ask, 2 * net)
        way = _pair(grid, ask, holders, elsewhere, dearest) or _chain(grid, ask, holders, elsewhere, dearest)
    return way


def move_for(grid: Grid, ask: Ask, holders: Holders, budget: Budget) -> Way | None:
    """Let a refused demand in by moves if it is worth them, and note what that used of the budget."""
    allowance = budget.allowance(ask.milli * ask.pieces)
    way = relocate(grid, ask, holders, allowance.most, allowance.net) if allowance is not None else None
    if way is not None:
        budget.used += len(way.moved)
    return way


def _dearest(grid: Grid, ask: Ask, net: float) -> int:
    """The most that the potential may rise so that `net` devices are won: a device's remainder is its measure."""
    return round((_size(ask) / WHOLE - net) * grid.settings.remainder * MICRO)


def _one(grid: Grid, ask: Ask, holders: Holders, elsewhere: Ints, dearest: int) -> Way | None:
    prices = _prices(grid, ask, holders, elsewhere)
    for row in _cheapest_first(prices, dearest):
        way = _try(grid, ask, holders, [int(row)])
        if way is not None:
            return way
    return None


def _prices(grid: Grid, ask: Ask, holders: Holders, elsewhere: Ints) -> Ints:
    out = np.empty(holders.rows(), np.int64)
    price_one(
        grid.hosts, grid.devs, *grid.priced.tables, grid.totals, holders.node, holders.kind, holders.devices,
        holders.bits, holders.asks, elsewhere, ask.row(), out,
    )  # fmt: skip
    return out


def _cheapest_first(prices: Ints, dearest: int) -> Ints:
    order = np.argsort(prices, kind="stable")[:_TRIALS]
    return order[prices[order] <= min(dearest, int(NEVER) - 1)]


def _pair(grid: Grid, ask: Ask, holders: Holders, elsewhere: Ints, dearest: int) -> Way | None:
    prices, who = np.full(_TRIALS, NEVER, np.int64), np.zeros((_TRIALS, 2), np.int64)
    first, here = holders.by_node(grid.hosts.shape[0])
    found = price_pairs(
        grid.hosts, grid.devs, *grid.priced.tables, grid.totals, first, here, holders.kind, holders.devices,
        holders.bits, holders.asks, elsewhere, ask.row(), prices, who,
    )  # fmt: skip
    for at in _cheapest_first(prices[:found], dearest):
        way = _try(grid, ask, holders, [int(row) for row in who[at]])
        if way is not None:
            return way
    return None


def _chain(grid: Grid, ask: Ask, holders: Holders, elsewhere: Ints, dearest: int) -> Way | None:
    """One of a kind without another seat leaves, for a seat that a second holder leaves: the smallest kinds first."""
    stuck = np.where(elsewhere >= NEVER, 0, NEVER)
    prices = _prices(grid, ask, holders, stuck)
    cheapest: dict[int, int] = {}
    for row in np.argsort(prices, kind="stable")[: np.count_nonzero(prices < NEVER)]:
        cheapest.setdefault(int(holders.kind[row]), int(row))
    smaller = [row for row in cheapest.values() if _size(holders.ask(row)) <= _size(ask)]
    for row in sorted(smaller, key=lambda row: (_size(holders.ask(row)), holders.ask(row)))[:_CHAINS]:
        gone, seat = holders.ask(row), holders.seat(row)
        grid.free(gone, seat)
        taken = grid.seat_on(ask, seat.node)
        holders.node[row] = -1
        way = _one(grid, gone, holders, grid.least_costs(holders.kinds), dearest - int(prices[row]))
        holders.sit(row, seat if way is None else way.seat)
        if way is not None:
            return Way(taken, (row, *way.moved))
        grid.free(ask, taken)
        grid.put(gone, seat)
    return None


def _try(grid: Grid, ask: Ask, holders: Holders, rows: Sequence[int]) -> Way | None:
    """Take the holders off their node, seat the demand there, seat them elsewhere, the largest first."""
    seats = {row: holders.seat(row) for row in rows}
    for row in rows:
        grid.free(holders.ask(row), seats[row])
    taken = grid.seat_on(ask, seats[rows[0]].node)
    found: dict[int, Seat] = {}
    for row in sorted(rows, key=lambda row: (-_size(holders.ask(row)), -holders.ask(row).cpu, row)):
        to = grid.seat(holders.ask(row))
        if to is None:
            break
        found[row] = to
    if len(found) == len(rows):
        for row, to in found.items():
            holders.sit(row, to)
        return Way(taken, tuple(rows))
    for row, to in found.items():
        grid.free(holders.ask(row), to)
    grid.free(ask, taken)
    for row in rows:
        grid.put(holders.ask(row), seats[row])
    return None


def _size(ask: Ask) -> int:
    return ask.pieces * ask.milli
