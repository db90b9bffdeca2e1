"""One job on a recorded spot market, tick by tick: what it cost and when it was done, under any rule.

A market is the availability of one or several zones by the tick. A rule is asked at every tick before it knows what
follows; whatever it launches loads for `restart_s` (paid, without progress), a loss costs what was loaded and nothing
of what was done, as with a checkpoint at every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from dure.model.units import DAY_S, HOUR_S, Seconds
from dure.place.spot import Rent, Seen, SpotView
from dure.place.spot_days import days_of

Bools = npt.NDArray[np.bool_]
# How much of a zone's past is known when a job starts, at most.
PAST_S = 7 * 24 * HOUR_S


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
    """What is up tick by tick, and what each zone's past says; picks where to launch."""

    def __init__(self, up: Bools, gap_s: Seconds, past: Bools) -> None:
        self.up, self.gap_s = up, gap_s
        histories = [_history(zone, gap_s) for zone in past]
        self.seen = [seen for seen, _ in histories]
        # Of all zones together: a single one has too few losses in a day to tell days apart.
        by_day = zip(*(days for _, days in histories), strict=True)
        self._days = days_of([(sum(one[0] for one in day), sum(one[1] for one in day)) for day in by_day])
        self._lost, self._aged = _gathered(self.seen)
        everywhere = np.asarray(past.any(axis=0))
        losses = (past[:, :-1] & ~past[:, 1:]).sum() if past.shape[1] > 1 else 0
        covered = (past[:, :-1] & ~past[:, 1:] & everywhere[1:]).sum() if losses else 0
        self._losses, self._covered = 1.0 + losses, float(covered)
        self.home = -1
        self._now = up[:, 0]

    def look(self, tick: int) -> Bools:
        now = self._now = self.up[:, tick % self.up.shape[1]]
        before = self.up[:, (tick - 1) % self.up.shape[1]] if tick else now
        for zone, (was_up, is_up) in enumerate(zip(before.tolist(), now.tolist(), strict=True)):
            self.seen[zone] = self.seen[zone].after(was_up, is_up, self.gap_s)
            if was_up and not is_up:
                self._losses += 1
                self._covered += bool(now.any())
        return now

    def pick(self, now: Bools) -> int:
        """The zone that is up and least likely to be lost at its age."""
        ups = [zone for zone in range(len(now)) if now[zone]]
        return min(ups, key=lambda zone: (self.seen[zone].ends_per_h, zone), default=-1)

    def market(self) -> Seen:
        """The zones as one market: up while any is; where it runs, or would, says how soon it is lost."""
        if len(self.seen) == 1:
            return self.seen[0]
        at = self.home if self.home >= 0 else self.pick(self._now)
        down = [zone for zone, is_up in zip(self.seen, self._now.tolist(), strict=True) if not is_up]
        age_h = 0.0 if at >= 0 else min(zone.age_h for zone in down)
        back = sum(zone.back for zone in self.seen) - sum(zone.back * _faded(zone, age_h) for zone in down)
        home = self.seen[max(at, 0)]
        return msgspec.structs.replace(
            home,
            down=1.0,
            returns=back,
            elsewhere=self._covered / self._losses,
            age_h=home.age_h if at >= 0 else age_h,
            days=self._days.today(*self._since()),
        )

    def _since(self) -> tuple[float, float]:
        """Losses and age gathered since the job began."""
        losses, aged = _gathered(self.seen)
        return losses - self._lost, aged - self._aged


def _faded(zone: Seen, age_h: float) -> float:
    """The share of its returns that a zone has lost which has been down for longer than `age_h`."""
    return 1.0 - (age_h + zone.grain_h) / (zone.age_h + zone.grain_h)


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


def _gathered(zones: Sequence[Seen]) -> tuple[float, float]:
    return sum(zone.losses for zone in zones), sum(zone.up for zone in zones)


def _history(past: Bools, gap_s: Seconds) -> tuple[Seen, list[tuple[float, float]]]:
    """The prior and what the zone's last week says; of each whole day the losses and the age gathered."""
    seen, days, before = Seen(), [], Seen()
    a_day = round(DAY_S / gap_s)
    for tick, (was_up, is_up) in enumerate(pairwise(past.tolist()), 1):
        seen = seen.after(was_up, is_up, gap_s)
        if tick % a_day == 0:
            days.append((seen.losses - before.losses, seen.up - before.up))
            before = seen
    return seen, days
