"""One job on a recorded spot market, tick by tick: what it cost and when it was done, under any rule.

A market is the availability of one or several zones by the tick. A rule is asked at every tick before it knows what
follows; whatever it launches loads for `restart_s` (paid, without progress), a loss costs what was loaded and nothing
of what was done, as with a checkpoint at every tick.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from dure.model.spell import NodeSpell, PoolSpells
from dure.model.units import HOUR_S, Instant, Seconds
from dure.place.spot import Rent, Seen, SpotView
from dure.place.spot_market import history, market, pick

Bools = npt.NDArray[np.bool_]


class Job(msgspec.Struct, frozen=True):
    work_s: Seconds = 24.0 * HOUR_S
    restart_s: Seconds = 0.2 * HOUR_S
    deadline_s: Seconds = 36.0 * HOUR_S
    price: float = 0.3

    @property
    def on_demand_cost(self) -> float:
        return self.work_s + self.restart_s


class Outcome(msgspec.Struct, frozen=True):
    """Costs in seconds of on-demand."""

    cost: float
    end_s: Seconds
    launches: int


class Moment(msgspec.Struct, frozen=True):
    """What a rule may look at."""

    job: Job
    now_s: Seconds
    done_s: Seconds
    view: SpotView
    seen: Seen
    bound: bool


Rule = Callable[[Moment], Rent]


class Zones:
    """What is up tick by tick; where to launch and what the market is like says `place.spot_market`."""

    def __init__(self, up: Bools, gap_s: Seconds, past: Bools) -> None:
        self.up, self.gap_s = up, gap_s
        self._now_s: Instant = 0.0
        since_s = -gap_s * past.shape[1]
        self._spells = [_spells(str(number), zone, gap_s, since_s) for number, zone in enumerate(past)]
        self._pools = [history(zone, 0.0) for zone in self._spells]
        self._now = past[:, -1] if past.shape[1] else np.zeros(len(past), np.bool_)
        self.home = -1

    def look(self, tick: int) -> Bools:
        before, now = self._now, self.up[:, tick % self.up.shape[1]]
        self._now, self._now_s = now, tick * self.gap_s
        for zone in np.flatnonzero(before != now).tolist():
            self._spells[zone] = _turned(self._spells[zone], self._now_s, bool(now[zone]))
            self._pools[zone] = history(self._spells[zone], 0.0)
        return now

    def pick(self, now: Bools) -> int:
        up = now.tolist()
        return pick([pool.seen(self._now_s, is_up) for pool, is_up in zip(self._pools, up, strict=True)], up)

    def market(self) -> Seen:
        at = self.home if self.home >= 0 else self.pick(self._now)
        return market(self._pools, self._now.tolist(), at, self._now_s)


def replay(job: Job, zones: Zones, rule: Rule) -> Outcome:
    now_s = done_s = cost = loading_s = 0.0
    running, launches, tick, bound = Rent.IDLE, 0, 0, False
    gap_s = zones.gap_s
    while True:
        up = zones.look(tick)
        if running is Rent.SPOT and not up[zones.home]:
            running, loading_s, zones.home = Rent.IDLE, 0.0, -1
        view = SpotView(
            job.deadline_s - now_s, job.work_s - done_s, bool(up.any()), running, job.restart_s, gap_s, job.price,
            loading_s,
        )  # fmt: skip
        wish = rule(Moment(job, now_s, done_s, view, zones.market(), bound))
        bound = bound or (wish is Rent.ON_DEMAND and view.slack_s < job.restart_s + gap_s)
        if wish is Rent.SPOT and not view.up:
            wish = Rent.IDLE
        if wish is not running:
            running, loading_s = wish, job.restart_s
            launches += wish is not Rent.IDLE
            zones.home = zones.pick(up) if wish is Rent.SPOT else -1
        rate = {Rent.IDLE: 0.0, Rent.SPOT: job.price, Rent.ON_DEMAND: 1.0}[running]
        progress_s = max(0.0, gap_s - loading_s) if running is not Rent.IDLE else 0.0
        if progress_s > 0 and done_s + progress_s >= job.work_s:
            last_s = loading_s + job.work_s - done_s
            return Outcome(cost + rate * last_s, now_s + last_s, launches)
        loading_s, done_s = max(0.0, loading_s - gap_s), done_s + progress_s
        cost, now_s, tick = cost + rate * gap_s, now_s + gap_s, tick + 1


def _spells(name: str, past: Bools, gap_s: Seconds, since_s: Instant) -> PoolSpells:
    """A zone as a pool of one node that comes and goes."""
    made = PoolSpells("", name, since_s)
    was_up = False
    for tick, is_up in enumerate(past.tolist()):
        if is_up is not was_up:
            made, was_up = _turned(made, since_s + tick * gap_s, is_up), is_up
    return made


def _turned(zone: PoolSpells, at_s: Instant, up: bool) -> PoolSpells:
    if up:
        return msgspec.structs.replace(zone, spells=(*zone.spells, NodeSpell(zone.pool, at_s)))
    last = msgspec.structs.replace(zone.spells[-1], end_s=at_s, lost=True)
    return msgspec.structs.replace(zone, spells=(*zone.spells[:-1], last))
