"""One plan for all who wait: who is let in first keeps a place, then the solver looks for the cheapest such plan.

Called by `plan` for every cycle in which not everybody can have what he likes best, and by `bench place`: what is
measured is what decides. Nobody who meant to start later loses his place to one behind him, and before one is left
out the search for room among those who wait goes on for longer.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dure.place.instance import Floats, Instance, Longs, alone
from dure.place.plain import plain_insert
from dure.place.solve import compiled, solve
from dure.place.solver import Method, Solver

# One who was let in and is dropped costs this many times as much as he would otherwise.
ADMITTED = 1e4


def agreed(inst: Instance, order: Longs, solver: Solver, seed: int, meant: Longs | None = None) -> Longs:
    """An option (or -1) for every job of `inst`. `order` is who is let in first; `meant` is what each had planned to
    take when it was last looked at (-1: nothing)."""
    admitted = let_in(inst, order, meant, compiled(inst, solver))
    found = solve(with_admitted(inst, admitted), solver, seed, start=admitted).choice
    if solver.method is not Method.RUIN or not _left_out(inst, found):
        return found
    longer = msgspec.structs.replace(solver.search, iterations_per_job=solver.search.rescue_per_job)
    return solve(with_admitted(inst, found), msgspec.structs.replace(solver, search=longer), seed, start=found).choice


def _left_out(inst: Instance, found: Longs) -> bool:
    """Whether somebody got nothing who could have been served, were it alone."""
    held = np.flatnonzero(found < 0)
    if len(held) == 0:
        return False
    possible = alone(inst)
    return any(possible[inst.first[job] : inst.first[job + 1]].any() for job in held)


def with_admitted(made: Instance, admitted: Longs) -> Instance:
    """The same instance, with those that were let in (`admitted` >= 0) all but undroppable."""
    hold = np.where(admitted >= 0, made.hold * ADMITTED, made.hold)
    return msgspec.structs.replace(made, hold=hold)


def let_in(inst: Instance, order: Longs, meant: Longs | None, quick: bool) -> Longs:
    """In turn each takes what it meant to take, or the cheapest that those before it leave."""
    steer = _with_meant(inst.cost, meant)
    if quick:
        from dure.place.greedy import insert_in_order

        return insert_in_order(inst, steer, order)
    return plain_insert(msgspec.structs.replace(inst, cost=steer), order)


def _with_meant(cost: Floats, meant: Longs | None) -> Floats:
    if meant is None or not (meant >= 0).any():
        return cost
    steer = cost.copy()
    steer[meant[meant >= 0]] = cost.min() - 1.0
    return steer
