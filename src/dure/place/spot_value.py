"""What the time until a deadline is worth on a market that comes and goes: a table of best actions.

Called by `spot`. Backward induction over (time left, work left, market up or down, what runs): a tick is as long as a
restart, so that a launch is one tick without progress. The market is a two-state Markov chain whose rates `spot` has
learned; on-demand is always there. Cost O(ticks x work), a few milliseconds; kept for equal questions.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Actions = npt.NDArray[np.int8]

IDLE, SPOT, ON_DEMAND = 0, 1, 2
DOWN, UP = 0, 1
_NEVER = 1e12
# What waiting a tick costs: next to nothing, so that of two ways of one price the one that gets on is taken.
_WAIT = 1e-6


class Market(msgspec.Struct, frozen=True):
    """Chances per tick. `lost`: a running spot node goes; `back`: a market that is down comes up again.

    `elsewhere` is the chance that another pool is up at the moment of a loss. `price` is spot over on-demand.
    """

    lost: float
    back: float
    price: float
    elsewhere: float = 0.0


@lru_cache(maxsize=4096)
def best_actions(ticks: int, work: int, market: Market) -> Actions:
    """`[time left, work left, market, running]` -> what to run in the next tick."""
    actions = np.full((ticks + 1, work + 1, 2, 3), ON_DEMAND, np.int8)
    values = np.full((work + 1, 2, 3), _NEVER)
    values[0] = 0.0
    for left in range(1, ticks + 1):
        values, actions[left] = _earlier(values, market)
    return actions


def _earlier(after: Floats, market: Market) -> tuple[Floats, Actions]:
    """Values and actions one tick before `after`."""
    values, actions = np.full_like(after, _NEVER), np.full(after.shape, ON_DEMAND, np.int8)
    for state in (DOWN, UP):
        up = 1.0 - market.lost * (1.0 - market.elsewhere) if state == UP else market.back
        idle, rented = (up * after[:, UP, own] + (1 - up) * after[:, DOWN, own] for own in (IDLE, ON_DEMAND))
        on_spot = _on_spot(after, market) if state == UP else np.full(len(after), _NEVER)
        for running in (IDLE, SPOT, ON_DEMAND):
            choices = np.stack(
                [
                    _WAIT + idle,
                    market.price + (_worked(on_spot) if running == SPOT else on_spot),
                    1.0 + (_worked(rented) if running == ON_DEMAND else rented),
                ]
            )
            best = choices.min(axis=0)
            values[:, state, running] = best
            # Where nothing reaches the deadline any more, on-demand is late by the least.
            actions[:, state, running] = np.where(best < _NEVER / 2, choices.argmin(axis=0), ON_DEMAND)
    values[0] = 0.0
    return np.minimum(values, _NEVER), actions


def _on_spot(after: Floats, market: Market) -> Floats:
    """Expected value after a tick on spot: it goes on, is lost to another pool that is up, or to none."""
    again = market.elsewhere * after[:, UP, IDLE] + (1 - market.elsewhere) * after[:, DOWN, IDLE]
    return np.asarray((1 - market.lost) * after[:, UP, SPOT] + market.lost * again)


def _worked(values: Floats) -> Floats:
    """The same one unit of work further on."""
    return np.concatenate([[_NEVER], values[:-1]])
