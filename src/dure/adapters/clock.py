"""Three kinds of time behind `ports.Clock`: real, scaled (the demo) and virtual (sim and tests).

Processes take a clock and never ask the operating system for the time themselves. Invariant: `now` never goes back,
and a stopped clock lets every waiter go at once.
"""

from __future__ import annotations

import math
import threading
import time

from dure.model.errors import InvalidInput
from dure.model.units import Instant, Seconds


class RealClock:
    """The machine's own time. Steps of the system clock are not followed, so that `now` never goes back."""

    def __init__(self) -> None:
        self._scaled = ScaledClock(1.0, time.time())

    def now(self) -> Instant:
        return self._scaled.now()

    def wait(self, duration_s: Seconds) -> bool:
        return self._scaled.wait(duration_s)

    def stop(self) -> None:
        self._scaled.stop()


class ScaledClock:
    """From `start_s` on, `speed` seconds pass in each real one. To go on after a restart give the saved `now`.

    With a leash it stands still once it is `leash_s` ahead of the last `beat`: a loop on a slow machine then lives
    in slower time, instead of finding everything it knows too old.
    """

    def __init__(self, speed: float, start_s: Instant, leash_s: Seconds = math.inf) -> None:
        if not speed > 0:
            raise InvalidInput(f"the clock's speed must be above 0, found {speed:g}", remedy="Try --speed 60")
        self.speed = speed
        self._leash_s = leash_s
        self._since = start_s, time.monotonic()
        self._stopped = threading.Event()
        self._stopped_at_s: Instant | None = None

    def now(self) -> Instant:
        if self._stopped_at_s is not None:
            return self._stopped_at_s
        start_s, origin = self._since
        return start_s + min((time.monotonic() - origin) * self.speed, self._leash_s)

    def beat(self) -> Instant:
        """The loop has come round: time may go on. Answers what it is."""
        now_s = self.now()
        self._since = now_s, time.monotonic()
        return now_s

    def wait(self, duration_s: Seconds) -> bool:
        return not self._stopped.wait(max(0.0, duration_s) / self.speed)

    def stop(self) -> None:
        """Time stands still from here and nobody waits any more."""
        if self._stopped_at_s is None:
            self._stopped_at_s = self.now()
        self._stopped.set()


class VirtualClock:
    """Time moves only when told. Waiters of other threads wake when `advance` passes their moment."""

    def __init__(self, start_s: Instant = 0.0) -> None:
        self._now_s = start_s
        self._stopped = False
        self._moved = threading.Condition()

    def now(self) -> Instant:
        return self._now_s

    def advance(self, to_s: Instant) -> None:
        """Move to `to_s`; an earlier moment is an error, the same one is fine."""
        with self._moved:
            if to_s < self._now_s:
                raise InvalidInput(f"time cannot go back from {self._now_s:.3f} to {to_s:.3f}")
            self._now_s = to_s
            self._moved.notify_all()

    def wait(self, duration_s: Seconds) -> bool:
        with self._moved:
            until_s = self._now_s + max(0.0, duration_s)
            self._moved.wait_for(lambda: self._stopped or self._now_s >= until_s)
            return not self._stopped

    def stop(self) -> None:
        with self._moved:
            self._stopped = True
            self._moved.notify_all()
