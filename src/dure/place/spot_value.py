"""What the time until a deadline is worth on a market that comes and goes: a table of best actions.

Called by `spot`. Backward induction over (time left, work left, market up or down and for how long, what runs): a
tick is as long as a restart, so that a launch is one tick without progress. What has lasted tends to last: the rate
at which a spell ends falls with its age `a` as `k / (a + grain)` (Lomax's law), and `spot` has learned `k` for spells
up and down. Ages are kept in classes that double in width. On-demand is always there. Cost O(ticks x work x ages),
some milliseconds; kept for equal questions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Actions = npt.NDArray[np.int8]

IDLE, SPOT, ON_DEMAND = 0, 1, 2
DOWN, UP = 0, 1
_NEVER = 1e12
# Above this the deadline is hardly reached any more.
HOPELESS = _NEVER / 2
# What waiting a tick costs: next to nothing, so that of two ways of one price the one that gets on is taken.
_WAIT = 1e-6
# The first tick of each class of ages, and how many ticks it is wide; the last is open.
_BEGINS = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
_WIDTHS = np.array([1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, np.inf])
_MIDDLES = np.array([0.0, 1.0, 2.5, 5.5, 11.5, 23.5, 47.5, 95.5])


class Market(msgspec.Struct, frozen=True):
    """`lost` and `back` are the `k` of spells up and down, `grain` is in ticks.

    `elsewhere` is the chance that another pool is up at the moment of a loss. `price` is spot over on-demand.
    """

    lost: float
    back: float
    price: float
    elsewhere: float = 0.0
    grain: float = 1.0


def age_class(ticks: float) -> int:
    return int(np.searchsorted(_BEGINS, ticks, side="right")) - 1


def ending(k: float, grain: float) -> Floats:
    """The chance, by the class of its age, that a spell ends within a tick."""
    return np.asarray(1.0 - ((_MIDDLES + grain) / (_MIDDLES + grain + 1.0)) ** k)


@lru_cache(maxsize=32)
def best_actions(ticks: int, work: int, market: Market) -> Actions:
    """`[time left, work left, market, class of its age, running]` -> what to run in the next tick."""
    shape = (work + 1, 2, len(_BEGINS), 3)
    actions = np.full((ticks + 1, *shape), ON_DEMAND, np.int8)
    after, values = np.full(shape, _NEVER), np.zeros(shape)
    after[0] = 0.0
    step = _stepping(market)
    for left in range(1, ticks + 1):
        step(after, values, actions[left])
        after, values = values, after
    return actions


@lru_cache(maxsize=6)
def worth(ticks: int, work: int, market: Market) -> Floats:
    """`[time left, work left, market, class of its age, running]` -> what is still to be paid."""
    values = np.full((ticks + 1, work + 1, 2, len(_BEGINS), 3), _NEVER)
    values[:, 0] = 0.0
    step, unused = _stepping(market), np.empty(values.shape[1:], np.int8)
    for left in range(1, ticks + 1):
        step(values[left - 1], values[left], unused)
    return values


def costs(after: Floats, todo: int, state: int, age: int, running: int, market: Market) -> tuple[float, ...]:
    """Of each action in one cell, to the end; `after` is `worth` a tick later. The plain twin of `_step`."""
    ends = float(ending(market.lost if state == UP else market.back, market.grain)[age])
    older, passing = min(age + 1, len(_BEGINS) - 1), 1.0 / _WIDTHS[age]
    found = []
    for action, paid in ((IDLE, _WAIT), (SPOT, market.price), (ON_DEMAND, 1.0)):
        there = after[todo - 1 if action == running and action != IDLE else todo]
        own = IDLE if action == SPOT else action
        stays = passing * there[state, older, action] + (1.0 - passing) * there[state, age, action]
        turns = there[UP, 0, own]
        if state == UP:
            turns = market.elsewhere * turns + (1.0 - market.elsewhere) * there[DOWN, 0, own]
        cost = float(paid + (1.0 - ends) * stays + ends * turns)
        found.append(_NEVER if action == SPOT and state == DOWN else min(cost, _NEVER))
    return tuple(found)


def _stepping(market: Market) -> Callable[[Floats, Floats, Actions], None]:
    """From the values a tick later to those before and the actions, which are filled in."""
    lost, back = ending(market.lost, market.grain), ending(market.back, market.grain)
    return partial(_compiled(), lost, back, 1.0 / _WIDTHS, market.price, market.elsewhere)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Only who asks for a table waits for the compiler to be loaded."""
    from numba import njit

    return njit(cache=True)(_step)


def _step(
    lost: Floats, back: Floats, passing: Floats, price: float, elsewhere: float, after: Floats,
    values: Floats, actions: Actions,
) -> None:  # fmt: skip
    """Fills in the values and actions of every cell with work left. With none left nothing is to be paid."""
    classes = after.shape[2]
    for todo in range(1, after.shape[0]):
        for state in range(2):
            for age in range(classes):
                ends = lost[age] if state == UP else back[age]
                older = min(age + 1, classes - 1)
                for running in range(3):
                    best, wish = _NEVER, ON_DEMAND
                    for action in range(3):
                        if action == SPOT and state == DOWN:
                            continue
                        at = todo - 1 if action == running and action != IDLE else todo
                        own = IDLE if action == SPOT else action
                        stays = passing[age] * after[at, state, older, action]
                        stays += (1.0 - passing[age]) * after[at, state, age, action]
                        turns = after[at, UP, 0, own]
                        if state == UP:
                            turns = elsewhere * turns + (1.0 - elsewhere) * after[at, DOWN, 0, own]
                        paid = _WAIT if action == IDLE else (price if action == SPOT else 1.0)
                        cost = paid + (1.0 - ends) * stays + ends * turns
                        if cost < best:
                            best, wish = cost, action
                    # Where nothing reaches the deadline any more, on-demand is late by the least.
                    values[todo, state, age, running] = best
                    actions[todo, state, age, running] = wish if best < HOPELESS else ON_DEMAND
