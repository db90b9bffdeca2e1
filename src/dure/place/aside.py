"""One plan for those who wait and those who run: who runs may stay, or stand aside where that saves enough.

Called by `rearrange` for the plane and by `bench place` for its row `ours+moves`: what is measured is what decides.
It is the same `agreed` as for those who wait alone. Each of those who run has an option that is staying; any other
(another row, or a later start anywhere) has to save a share of what staying costs on top of all that an interruption
costs, which is in the options themselves. Nobody who runs is left out: all of them are let in first, where they are.
Where the solver only inserts, each of those who run is also tried out of the way of all who wait: inserting alone
never takes a place from one who has it. O(running) insertions beside `agreed`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from dure.place.agree import agreed, let_in
from dure.place.instance import HELD, Floats, Instance, Ints, Longs, total
from dure.place.solve import compiled
from dure.place.solver import Method, Solver


class Standing(NamedTuple):
    """`stay[j]` is the option of job j that is to go on where it runs (-1: it waits), `meant[j]` what it had planned
    to take if it waits; `order` is who is let in first of those who wait."""

    stay: Longs
    meant: Longs
    order: Longs


def rearranged(inst: Instance, standing: Standing, threshold: float, solver: Solver, seed: int) -> Longs:
    """An option for every job of `inst` (-1: left out, only those who wait)."""
    runs = standing.stay >= 0
    needed = np.zeros(inst.jobs)
    needed[runs] = threshold * inst.cost[standing.stay[runs]]
    cost = inst.cost + np.repeat(needed, np.diff(inst.first))
    cost[standing.stay[runs]] = inst.cost[standing.stay[runs]]
    order = np.concatenate((np.flatnonzero(runs), standing.order[~runs[standing.order]]))
    meant = np.where(runs, standing.stay, standing.meant)
    priced = msgspec.structs.replace(inst, cost=cost)
    found = agreed(priced, order, solver, seed, meant)
    return found if solver.method is not Method.REGRET else _one_by_one(priced, standing, order, found, solver)


def _one_by_one(inst: Instance, standing: Standing, order: Longs, found: Longs, solver: Solver) -> Longs:
    """Each who stays in turn lets all who wait choose first, if that is cheaper and nobody is left out by it."""
    quick, cost = compiled(inst, solver), total(inst, found)
    for job in order[standing.stay[order] >= 0].tolist():
        if found[job] != standing.stay[job]:
            continue
        others = np.where(standing.stay >= 0, found, HELD)
        others[job] = HELD
        tried = let_in(inst, np.append(order[order != job], job), others, quick)
        if total(inst, tried) < cost and not ((found >= 0) & (tried < 0)).any():
            found, cost = tried, total(inst, tried)
    return found


def with_stays(made: Instance, jobs: Longs, rows: Ints, cost: Floats) -> tuple[Instance, Longs]:
    """One more option, the last, for each of `jobs` (rising): to go on where it is. Also which option that is for
    each job of `made`, -1 for those who wait. What is paid for already draws on no budget."""
    behind = made.first[jobs + 1]
    first = made.first.copy()
    first[1:] += np.cumsum(np.bincount(jobs, minlength=made.jobs))
    stay = np.full(made.jobs, -1, np.int64)
    stay[jobs] = first[jobs + 1] - 1
    grown = msgspec.structs.replace(
        made,
        first=first,
        option=np.insert(made.option, behind, rows, axis=0),
        cost=np.insert(made.cost, behind, cost),
        drain=np.insert(made.drain, behind, 0.0, axis=0),
    )
    return grown, stay
