"""Spot under a deadline: run on spot, wait for it, or pay on-demand while there is still time.

The idea: slack is a reserve with a price. What it is worth follows from how often this market goes and how soon it
comes back, given how long it has been as it is (`Seen`, learned from what was observed of it, a prior of one e-fold
of age each), by dynamic programming in `spot_value`. Above the table stands a guard that no estimate can overrule:
while on-demand started now would end in time by less than one more look, on-demand it is. Called by `spot_rule` for
the plane's workloads and by `dure bench spot` tick by tick. Not for work without a deadline, which simply takes the
cheapest.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

import msgspec

from dure.model.units import HOUR_S, Seconds
from dure.place.spot_value import (
    DOWN,
    HOPELESS,
    IDLE,
    ON_DEMAND,
    SPOT,
    UP,
    Market,
    age_class,
    costs,
)

# How long until the plane looks again.
LOOK_S: Seconds = 600.0
# What was learned is rounded to steps of a sixth of an e-fold: equal questions share a table; no estimate is better.
_STEPS_PER_E = 6.0
# A table has at most this many ticks; longer deadlines get coarser ones.
_MOST_TICKS = 400


class Rent(enum.IntEnum):
    """What a workload runs on."""

    IDLE = IDLE
    SPOT = SPOT
    ON_DEMAND = ON_DEMAND


class Seen(msgspec.Struct, frozen=True):
    """What was observed of a market: how often it went and came, and how much age it gathered in between.

    A spell that lasts from age `a` to `b` gathers `ln((b + grain) / (a + grain))`: from one hour to two about as much
    as from four to eight, since what has lasted tends to last (`spot_value`). The defaults are the prior: one loss
    and one return in an e-fold of age. `age_h` is for how long it has been as it is now. `days` says how likely it is
    that today spells up end so many times as readily (`spot_days`).
    """

    up: float = 1.0
    down: float = 1.0
    losses: float = 1.0
    returns: float = 1.0
    elsewhere: float = 0.0
    age_h: float = 0.0
    grain_h: float = 1.0
    days: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    @property
    def lost(self) -> float:
        return self.losses / self.up

    @property
    def back(self) -> float:
        return self.returns / self.down

    @property
    def ends_per_h(self) -> float:
        """How soon a spell up of this age is lost."""
        return self.lost / (self.age_h + self.grain_h)


class SpotView(msgspec.Struct, frozen=True):
    """One moment. `left_s` is the time until the deadline, `work_s` the work that is not safe yet.

    `loading_s` is what is left of a restart, `look_s` how long until the next look, `price` spot over on-demand.
    """

    left_s: Seconds
    work_s: Seconds
    up: bool
    running: Rent
    restart_s: Seconds
    look_s: Seconds
    price: float
    loading_s: Seconds = 0.0

    @property
    def slack_s(self) -> Seconds:
        return self.left_s - self.work_s

    @property
    def at_ease(self) -> bool:
        """Whether it runs on spot and would have time for more than one loss: nothing is better then."""
        calm = self.slack_s >= 4 * (self.restart_s + self.look_s)
        return calm and self.up and self.running is Rent.SPOT and self.price < 1.0


def must_rent(view: SpotView) -> bool:
    """The guard: at the next look it may be too late for on-demand. True for good once it is."""
    if view.running is Rent.ON_DEMAND:
        return view.slack_s - view.loading_s < 2 * (view.restart_s + view.look_s)
    return view.slack_s < view.restart_s + view.look_s


def may_launch_spot(view: SpotView) -> bool:
    """Whether a launch on spot that is lost at once would still leave time for on-demand."""
    return view.slack_s >= 2 * (view.restart_s + view.look_s)


def choose(view: SpotView, seen: Seen) -> Rent:
    """What to run until the next look."""
    if must_rent(view):
        return Rent.ON_DEMAND
    if view.at_ease:
        return Rent.SPOT
    tick_s = max(view.restart_s, view.look_s, (view.left_s + view.work_s) / _MOST_TICKS)
    todo_s = view.work_s + view.loading_s
    work = max(1, math.ceil(todo_s / tick_s - 1e-9))
    # Slack is what is spent, so it is what is rounded; rounding time and work apart would cost two ticks of it.
    left = work + max(0, int((view.left_s - todo_s) // tick_s))
    grain = seen.grain_h * HOUR_S / tick_s
    back, elsewhere = _stepped(seen.back), _rounded_down(seen.elsewhere)
    markets = [
        (share, Market(_stepped(seen.lost * worse), back, view.price, elsewhere, grain)) for share, worse in seen.days
    ]
    cell = UP if view.up else DOWN, age_class(seen.age_h * HOUR_S / tick_s), int(view.running)
    wish = _best(left, work, cell, markets)
    if wish is Rent.IDLE and view.up:
        # With slack to spare it would wait for a young spell to get older: a gain too small to keep anybody waiting.
        wish = Rent.SPOT
    if wish is Rent.SPOT and (not view.up or (view.running is not Rent.SPOT and not may_launch_spot(view))):
        return Rent.ON_DEMAND
    return wish


def _best(left: int, work: int, cell: tuple[int, int, int], markets: Sequence[tuple[float, Market]]) -> Rent:
    """The action that costs least over all that the market may be, each with its share."""
    total = [0.0, 0.0, 0.0]
    found = costs(left, work, cell, tuple(market for _, market in markets))
    for (share, _), day in zip(markets, found, strict=True):
        total = [sum_ + share * cost for sum_, cost in zip(total, day, strict=True)]
    # Where nothing reaches the deadline any more, on-demand is late by the least.
    return Rent(total.index(min(total))) if min(total) < HOPELESS else Rent.ON_DEMAND


def _stepped(k: float) -> float:
    return math.exp(round(math.log(min(max(k, 0.01), 20.0)) * _STEPS_PER_E) / _STEPS_PER_E)


def _rounded_down(share: float) -> float:
    """In steps of a twentieth, never certain: pools that were never all down at once may be one day."""
    return min(19, int(20 * share)) / 20
