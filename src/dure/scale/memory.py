"""Whether to follow a service's demand or to keep what the last half hour needed.

Called by `serving` once per control interval. A service whose demand swings faster than a replica boots must not be
followed: what arrives now says the opposite of what arrives when the replica is ready, and capacity bought for a
burst comes when the burst is over. There a slow quantile of the recent demand is the better guide; for every other
service it is the worse one. The swing is read from the service's own last hour: how large it is, and the correlation
of demand with itself one boot time later. Cost: O(look) once a minute, O(log span) otherwise. Not for a service's
first twenty minutes.
"""

from __future__ import annotations

import bisect

import msgspec
import numpy as np


class MemorySettings(msgspec.Struct, frozen=True):
    """Below `enter` the demand of one boot time later is the opposite of now's; above `leave` no longer.

    Only swings count whose standard deviation is at least `swing` of the mean; once kept, half of that will do.
    What is kept is a quantile of the span, and never less than `least` of its highest demand.
    """

    boot_s: float
    step_s: float = 5.0
    span_s: float = 1800.0
    quantile: float = 0.9
    least: float = 0.75
    look_s: float = 3600.0
    learn_s: float = 1200.0
    every_s: float = 60.0
    enter: float = -0.1
    leave: float = 0.1
    swing: float = 0.3


class Memory:
    """Mutable, but a pure function of what was fed to it."""

    def __init__(self, settings: MemorySettings) -> None:
        self.settings = settings
        self.demand: list[float] = []
        self.sorted: list[float] = []
        self.lasting = False

    def feed(self, demand: float) -> float | None:
        """Add one interval's demand; the level to keep, or None where demand should be followed."""
        settings = self.settings
        self.demand.append(demand)
        bisect.insort(self.sorted, demand)
        span = round(settings.span_s / settings.step_s)
        if len(self.demand) > span:
            del self.sorted[bisect.bisect_left(self.sorted, self.demand[-span - 1])]
        steps = len(self.demand)
        if steps * settings.step_s >= settings.learn_s and steps % round(settings.every_s / settings.step_s) == 0:
            self.lasting = self._swings()
        if not self.lasting:
            return None
        level = self.sorted[min(int(settings.quantile * len(self.sorted)), len(self.sorted) - 1)]
        return max(level, settings.least * self.sorted[-1])

    def _swings(self) -> bool:
        settings = self.settings
        limit, least = (settings.leave, settings.swing / 2) if self.lasting else (settings.enter, settings.swing)
        recent = np.array(self.demand[-round(settings.look_s / settings.step_s) :])
        return bool(float(recent.std()) >= least * float(recent.mean())) and self.echo() < limit

    def echo(self) -> float:
        """How demand one boot time later goes with demand now: 1 the same way, -1 the opposite way."""
        look = round(self.settings.look_s / self.settings.step_s)
        boot = max(1, round(self.settings.boot_s / self.settings.step_s))
        recent = np.array(self.demand[-look:])
        if len(recent) <= 2 * boot or float(np.ptp(recent)) == 0.0:
            return 1.0
        now, later = recent[:-boot], recent[boot:]
        if float(np.ptp(now)) == 0.0 or float(np.ptp(later)) == 0.0:
            return 1.0
        return float(np.corrcoef(now, later)[0, 1])
