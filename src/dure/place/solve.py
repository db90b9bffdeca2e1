"""One function in front of all solvers: regret, ruin (default), exact, rolling.

Called by `plan` for every decision cycle and by the gap benchmark. Anytime: the regret-greedy answer exists first,
and each later step only replaces it by one that costs no more; `go_on` answers False when the time is up. With a
`go_on` that never ends it, the same instance and seed give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec
import numpy as np

from dure.place.exact import solve_exact
from dure.place.few import cheapest
from dure.place.instance import HELD, Instance, Longs, alone, instance, spread, total
from dure.place.plain import plain_insert, plain_regret_order, plain_settle
from dure.place.solver import PLAIN_OPTIONS, Method, Solver

DEFAULT = Solver()


class Answer(msgspec.Struct, frozen=True):
    """`choice` per job (option or -1), its cost, and the best bound that was proven on the way."""

    choice: Longs
    cost: float
    bound: float
    optimal: bool = False


def never_ends() -> bool:
    return True


def solve(
    inst: Instance,
    solver: Solver = DEFAULT,
    seed: int = 0,
    go_on: Callable[[], bool] = never_ends,
    start: Longs | None = None,
) -> Answer:
    """The best plan the method finds before `go_on` says stop; no dearer than `start` where one is given."""
    choice = first_answer(inst, compiled(inst, solver))
    if start is not None and total(inst, start) <= total(inst, choice):
        choice = start
    if undisputed(inst, choice):
        return Answer(choice, total(inst, choice), total(inst, choice), True)
    if solver.method is Method.REGRET or not go_on():
        return Answer(choice, total(inst, choice), float("-inf"))
    match solver.method:
        case Method.RUIN:
            return _ruined(inst, choice, solver, seed, go_on)
        case Method.ROLLING:
            ruined = _ruined(inst, choice, solver, seed, go_on)
            choice = _rolled(inst, ruined.choice, solver, go_on)
            return Answer(choice, total(inst, choice), ruined.bound)
        case Method.EXACT:
            proof = cheapest(inst, choice) or solve_exact(inst, solver.limits, choice)
            return Answer(proof.choice, proof.cost, proof.bound, proof.optimal)
        case _:
            assert_never(solver.method)


def undisputed(inst: Instance, choice: Longs) -> bool:
    """Everybody already has the cheapest option that would fit if he were alone: nothing can be better."""
    cost = np.where(alone(inst), inst.cost, np.inf)
    cheapest = sum(
        min(float(cost[inst.first[j] : inst.first[j + 1]].min(initial=np.inf)), float(inst.hold[j]))
        for j in range(inst.jobs)
    )
    return total(inst, choice) <= cheapest * (1 + 1e-12) + 1e-9


def compiled(inst: Instance, solver: Solver) -> bool:
    """Whether compiled code is worth its loading: for many options, and where the method needs it anyway."""
    return inst.options > PLAIN_OPTIONS or solver.method in (Method.RUIN, Method.ROLLING)


def first_answer(inst: Instance, quick: bool = True) -> Longs:
    """Regret-greedy: within milliseconds, before anything is improved. `quick` loads compiled code for it."""
    if not quick:
        return plain_settle(inst, plain_insert(inst, plain_regret_order(inst)))
    from dure.place.greedy import insert_in_order, regret_order

    return insert_in_order(inst, inst.cost, regret_order(inst, inst.cost))


def _ruined(inst: Instance, choice: Longs, solver: Solver, seed: int, go_on: Callable[[], bool]) -> Answer:
    """Prices, then ruin and recreate. Imported here: compiled code loads in a second, small batches do without."""
    from dure.place.prices import congestion_prices
    from dure.place.ruin import improve

    prices = congestion_prices(inst, total(inst, choice), solver.ascent)
    if go_on():
        choice = improve(inst, choice, prices.rent, solver.search, seed, go_on)
    return Answer(choice, total(inst, choice), prices.bound)


def _rolled(inst: Instance, choice: Longs, solver: Solver, go_on: Callable[[], bool]) -> Longs:
    """Window by window, the exact optimum of a few jobs while all others stay; never dearer than before."""
    choice = choice.copy()
    from dure.place.ruin import blocks

    for lo, hi in blocks(inst.jobs, solver.window):
        if not go_on():
            break
        part = _window(inst, choice, lo, hi)
        offset = inst.first[lo]
        start = np.where(choice[lo:hi] >= 0, choice[lo:hi] - offset, HELD)
        found = solve_exact(part, solver.limits, start).choice
        choice[lo:hi] = np.where(found >= 0, found + offset, HELD)
    return choice


def _window(inst: Instance, choice: Longs, lo: int, hi: int) -> Instance:
    """Jobs lo..hi alone, with what all others leave."""
    others = choice.copy()
    others[lo:hi] = HELD
    left = inst.left.copy()
    for j in np.flatnonzero((others >= 0) & (inst.ledger >= 0)):
        left[inst.ledger[j]] -= inst.drain[others[j]]
    span = slice(inst.first[lo], inst.first[hi])
    return instance(
        inst.first[lo : hi + 1] - inst.first[lo],
        inst.option[span],
        inst.cost[span],
        inst.hold[lo:hi],
        inst.need,
        inst.capacity - spread(inst, others),
        inst.ledger[lo:hi],
        inst.drain[span],
        left,
    )
