"""What the time until a deadline is worth on a market that comes and goes: a table of best actions.

Called by `spot`. Backward induction over (time left, work left, market up or down and for how long, what runs): a
tick is as long as a restart, so that a launch is one tick without progress. What has lasted tends to last: the rate
at which a spell ends falls with its age `a` as `k / (a + grain)` (Lomax's law), and `spot` has learned `k` for spells
up and down. Ages are kept in classes that double in width. On-demand is always there. Cost O(ticks x work x ages),
about a tenth of a second; kept for equal questions.
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


@lru_cache(maxsize=256)
def best_actions(ticks: int, work: int, market: Market) -> Actions:
    """`[time left, work left, market, class of its age, running]` -> what to run in the next tick."""
    shape = (work + 1, 2, len(_BEGINS), 3)
    actions = np.full((ticks + 1, *shape), ON_DEMAND, np.int8)
    values = np.full(shape, _NEVER)
    values[0] = 0.0
    for left in range(1, ticks + 1):
        values, actions[left] = _earlier(values, market)
    return actions


def _earlier(after: Floats, market: Market) -> tuple[Floats, Actions]:
    """Values and actions one tick before `after`."""
    values, actions = np.full_like(after, _NEVER), np.full(after.shape, ON_DEMAND, np.int8)
    older = _older(after)
    lost, back = ending(market.lost, market.grain), ending(market.back, market.grain)
    gone = market.elsewhere * after[:, UP, :1] + (1.0 - market.elsewhere) * after[:, DOWN, :1]
    follows = {
        UP: (1.0 - lost)[:, None] * older[:, UP] + lost[:, None] * gone,
        DOWN: (1.0 - back)[:, None] * older[:, DOWN] + back[:, None] * after[:, UP, :1],
    }
    for state in (DOWN, UP):
        idle, rented = follows[state][..., IDLE], follows[state][..., ON_DEMAND]
        on_spot = np.full(idle.shape, _NEVER)
        if state == UP:
            on_spot = (1.0 - lost) * older[:, UP, :, SPOT] + lost * gone[..., IDLE]
        for running in (IDLE, SPOT, ON_DEMAND):
            choices = np.stack(
                [
                    _WAIT + idle,
                    market.price + (_worked(on_spot) if running == SPOT else on_spot),
                    1.0 + (_worked(rented) if running == ON_DEMAND else rented),
                ]
            )
            best = choices.min(axis=0)
            values[:, state, :, running] = best
            # Where nothing reaches the deadline any more, on-demand is late by the least.
            actions[:, state, :, running] = np.where(best < _NEVER / 2, choices.argmin(axis=0), ON_DEMAND)
    values[0] = 0.0
    return np.minimum(values, _NEVER), actions


def _older(after: Floats) -> Floats:
    """The values where the spell goes on: some of each class pass into the next."""
    pass_on = (1.0 / _WIDTHS)[:, None]
    following = np.concatenate([after[:, :, 1:], after[:, :, -1:]], axis=2)
    return np.asarray((1.0 - pass_on) * after + pass_on * following)


def _worked(values: Floats) -> Floats:
    """The same one unit of work further on."""
    return np.concatenate([np.full((1, *values.shape[1:]), _NEVER), values[:-1]])
