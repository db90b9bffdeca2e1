"""What the time until a deadline is worth on a market that comes and goes: what each action would cost to the end.

Called by `spot`. Backward induction over (time left, work left, market up or down and for how long, what runs): a
tick is as long as a restart, so that a launch is one tick without progress. What has lasted tends to last: the rate
at which a spell ends falls with its age `a` as `k / (a + grain)` (Lomax's law), and `spot` has learned `k` for spells
up and down. Ages are kept in classes that double in width. On-demand is always there. Cost O(ticks x work x ages),
some milliseconds of array steps without a compiler; a table serves all smaller questions and is kept for a while.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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
_PASSING = (1.0 / _WIDTHS)[:, None]
_MIDDLES = np.array([0.0, 1.0, 2.5, 5.5, 11.5, 23.5, 47.5, 95.5])
# What can be, as planes of a table: the market and what runs on it. Nothing runs on spot that is down.
_PLANES = ((UP, IDLE), (DOWN, IDLE), (UP, ON_DEMAND), (DOWN, ON_DEMAND), (UP, SPOT))
_PLANE = {one: plane for plane, one in enumerate(_PLANES)}
# Tables are made for work up to a multiple of this, so that few are made.
_WORK_STEP = 32


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


def costs(left: int, work: int, cell: tuple[int, int, int], markets: tuple[Market, ...]) -> list[tuple[float, ...]]:
    """On each market, of each action, to the end, with `left` ticks left for `work` ticks of work.

    `cell` is whether the market is up, the class of its age, and what runs. Where the deadline is hardly reached any
    more it is at least `HOPELESS`.
    """
    after = _table(_WORK_STEP * (work // _WORK_STEP + 1), markets).after(left - 1)
    return [_costs(after[:, number], work, cell, market) for number, market in enumerate(markets)]


def _costs(after: Floats, work: int, cell: tuple[int, int, int], market: Market) -> tuple[float, ...]:
    """The plain twin of `_Table`: one cell, from what is still to be paid a tick later."""
    state, age, running = cell
    ends = float(ending(market.lost if state == UP else market.back, market.grain)[age])
    older, passing = min(age + 1, len(_BEGINS) - 1), float(1.0 / _WIDTHS[age])
    found = []
    for action, paid in ((IDLE, _WAIT), (SPOT, market.price), (ON_DEMAND, 1.0)):
        if action == SPOT and state == DOWN:
            found.append(_NEVER)
            continue
        there = after[:, :, work - 1 if action == running and action != IDLE else work]
        own, plane = IDLE if action == SPOT else action, _PLANE[state, action]
        stays = passing * there[plane, older] + (1.0 - passing) * there[plane, age]
        turns = there[_PLANE[UP, own], 0]
        if state == UP:
            turns = market.elsewhere * turns + (1.0 - market.elsewhere) * there[_PLANE[DOWN, own], 0]
        found.append(min(float(paid + (1.0 - ends) * stays + ends * turns), _NEVER))
    return tuple(found)


class _Table:
    """What is still to be paid, `[plane, market, class of age, work left]` for each tick left; grows with who asks.

    All is kept in one line of figures, so that a step over it is some twenty array operations on the whole: the class
    that follows is one row further (what lies behind the oldest, which does not pass, counts nothing), and one tick
    of work less is one figure before.
    """

    def __init__(self, work: int, markets: tuple[Market, ...]) -> None:
        self._shape = len(_PLANES), len(markets), len(_BEGINS), work + 1
        chances = {
            UP: [ending(market.lost, market.grain) for market in markets],
            DOWN: [ending(market.back, market.grain) for market in markets],
        }
        prices = {IDLE: [_WAIT] * len(markets), SPOT: [one.price for one in markets], ON_DEMAND: [1.0] * len(markets)}
        ends = np.array([chances[state] for state, _ in _PLANES])[..., None]
        self._ends, self._lasts = self._spread(ends), self._spread(1.0 - ends)
        self._paid = self._spread(np.array([prices[runs] for _, runs in _PLANES])[..., None, None])
        self._passing, self._staying = self._spread(_PASSING), self._spread(1.0 - _PASSING)
        self._elsewhere = np.array([market.elsewhere for market in markets])[:, None, None]
        self._cost, self._part = np.empty(self._ends.size), np.empty(self._ends.size)
        self._turns = np.empty((*self._shape[:2], 1, work + 1))
        self._rows = [np.zeros(self._ends.size + work + 1)]
        self._open(self._rows[0])[..., 1:] = _NEVER

    def after(self, left: int) -> Floats:
        while len(self._rows) <= left:
            self._rows.append(self._before(self._rows[-1]))
        return self._open(self._rows[left])

    def _before(self, after: Floats) -> Floats:
        """One tick more: first what it costs to have each thing run for a tick, then the least of what can be done.

        Planes come in pairs, the market up and down: two idle, two on-demand, and spot, which is up.
        """
        cost, part, pair = self._cost, self._part, 2 * self._ends.size // len(_PLANES)
        np.multiply(self._passing, after[self._shape[-1] :], out=cost)
        np.multiply(self._staying, after[: -self._shape[-1]], out=part)
        cost += part
        cost *= self._lasts
        cost += self._paid
        np.multiply(self._open(self._ends), self._turned(self._open(after)), out=self._open(part))
        cost += part
        before = np.zeros(after.size)
        idle, rented, spot = cost[:pair], cost[pair : 2 * pair], cost[2 * pair :]
        best_idle, best_rented, best_spot = before[:pair], before[pair : 2 * pair], before[2 * pair : len(cost)]
        np.minimum(idle, rented, out=best_idle)
        np.minimum(idle[1:], rented[:-1], out=best_rented[1:])
        np.minimum(best_idle[1 : len(spot)], spot[:-1], out=best_spot[1:])
        for best in (best_idle[: len(spot)], best_rented[: len(spot)]):
            np.minimum(best, spot, out=best)
        np.minimum(before, _NEVER, out=before)
        self._open(before)[..., 0] = 0.0
        return before

    def _turned(self, after: Floats) -> Floats:
        """The same where the market has just turned: who loses spot is idle, unless another pool is up."""
        turns, up, down = self._turns, after[:3:2, :, :1], after[1:4:2, :, :1]
        turns[:3:2] = self._elsewhere * up + (1.0 - self._elsewhere) * down
        turns[1:4:2] = up
        turns[4] = turns[0]
        return turns

    def _open(self, line: Floats) -> Floats:
        return line[: self._ends.size].reshape(self._shape)

    def _spread(self, figures: Floats) -> Floats:
        return np.ascontiguousarray(np.broadcast_to(figures, self._shape)).ravel()


@lru_cache(maxsize=3)
def _table(work: int, markets: tuple[Market, ...]) -> _Table:
    return _Table(work, markets)
