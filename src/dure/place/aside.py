"""One plan for those who wait and those who run: who runs may stay, or stand aside where that saves enough.

Called by `rearrange` for the plane and by `bench place` for its row `ours+moves`: what is measured is what decides.
It is the same `agreed` as for those who wait alone. Each of those who run has an option that is staying; any other
(another row, or a later start anywhere) has to save a share of what staying costs on top of all that an interruption
costs, which is in the options themselves. Nobody who runs is left out: all of them are let in first, where they are.
O(options) beside `agreed`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from dure.place.agree import agreed
from dure.place.instance import Floats, Instance, Ints, Longs
from dure.place.solver import Solver


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
    return agreed(msgspec.structs.replace(inst, cost=cost), order, solver, seed, meant)


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
