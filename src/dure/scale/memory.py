"""How long a service should be remembered: follow what arrives, or keep what the last half hour needed.

Called by `serving` once per control interval. A service whose demand swings faster than a replica boots must not be
followed: capacity bought for a burst comes when the burst is over. There a slow quantile of the recent demand is the
better guide, and elsewhere it is the worse one. Which of the two holds is decided from the service's own past: both
are replayed over the last hour with the boot time counted, scaled to equal cost, and the one with the smaller
expected loss leads until the other is clearly better. Cost: O(look) once a minute, O(log span) otherwise.
"""

from __future__ import annotations

import bisect

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class MemorySettings(msgspec.Struct, frozen=True):
    """`sharpness`: misses grow by e for each eighth of load, as the gentlest of the measured services do.

    Keeping must have lost less than `enter` of what following lost to take the lead, and gives it back above
    `leave`; between the two everything stays as it is.
    """

    boot_s: float
    step_s: float = 5.0
    span_s: float = 1800.0
    quantile: float = 0.9
    look_s: float = 3600.0
    learn_s: float = 1200.0
    every_s: float = 60.0
    sharpness: float = 8.0
    enter: float = 0.4
    leave: float = 1.2


class Memory:
    """Mutable, but a pure function of what was fed to it."""

    def __init__(self, settings: MemorySettings) -> None:
        self.settings = settings
        self.demand: list[float] = []
        self.quick: list[float] = []
        self.slow: list[float] = []
        self.sorted: list[float] = []
        self.lasting = False

    def feed(self, demand: float, quick: float, load: float) -> float | None:
        """Add one interval's demand and what following it would provide; the lasting level, or None to follow."""
        settings = self.settings
        self.demand.append(demand)
        self.quick.append(max(quick, 1e-9))
        bisect.insort(self.sorted, demand)
        span = round(settings.span_s / settings.step_s)
        if len(self.demand) > span:
            del self.sorted[bisect.bisect_left(self.sorted, self.demand[-span - 1])]
        level = self.sorted[min(int(settings.quantile * len(self.sorted)), len(self.sorted) - 1)]
        self.slow.append(max(level, 1e-9))
        steps = len(self.demand)
        if steps * settings.step_s >= settings.learn_s and steps % round(settings.every_s / settings.step_s) == 0:
            self._weigh(load)
        return level if self.lasting else None

    def _weigh(self, load: float) -> None:
        limit = self.settings.leave if self.lasting else self.settings.enter
        self.lasting = self._loss(self.slow, load) < limit * self._loss(self.quick, load)

    def _loss(self, levels: list[float], load: float) -> float:
        """Expected misses of the last hour, had these levels been provided at the cost of following."""
        look = round(self.settings.look_s / self.settings.step_s)
        boot = round(self.settings.boot_s / self.settings.step_s) + 1
        provided = np.array(levels[-look - boot :])
        cost = float(np.mean(self.quick[-look:])) / float(np.mean(levels[-look:]))
        padded = np.concatenate([np.full(boot, provided[0]), provided])
        ready = np.lib.stride_tricks.sliding_window_view(padded, boot + 1).min(axis=1)[-look:]
        demand = np.array(self.demand[-look:])
        use = demand * load / (ready[-len(demand) :] * cost)
        missed: Floats = np.minimum(1.0, np.exp(self.settings.sharpness * (use - 1.0)))
        return float((demand * missed).sum())
