"""How much one caller may ask of the API: requests per second, and bytes of a body. Pure but for the given timer.

The gate asks on every request. Callers are known by their token; who guesses at tokens is known by the address. The
owner of the token file has no limit on requests, because the limit would only keep them from helping themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

MIB = 1024 * 1024
MAX_CALLERS = 10_000


class Limits(NamedTuple):
    """`rate_per_s` and `burst` of a token; `wrong_*` of an address whose secrets are wrong; bodies in bytes."""

    rate_per_s: float = 100.0
    burst: float = 400.0
    wrong_per_s: float = 2.0
    wrong_burst: float = 60.0
    body: int = MIB
    owner_body: int = 8 * MIB


class Buckets:
    """A token bucket for each caller. Full ones are forgotten first when there are too many."""

    def __init__(self, rate_per_s: float, burst: float, timer: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._timer = rate_per_s, burst, timer
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, caller: str) -> float:
        """0 when there was something left; else the seconds until there is."""
        now = self._timer()
        with self._lock:
            left = self._level(caller, now)
            if left < 1.0:
                self._left[caller] = (left, now)
                return (1.0 - left) / self._rate
            self._left[caller] = (left - 1.0, now)
            if len(self._left) > MAX_CALLERS:
                self._forget(now)
        return 0.0

    def empty(self, caller: str) -> float:
        """As `take`, but takes nothing."""
        now = self._timer()
        with self._lock:
            left = self._level(caller, now)
        return 0.0 if left >= 1.0 else (1.0 - left) / self._rate

    def _level(self, caller: str, now: float) -> float:
        left, at = self._left.get(caller, (self._burst, now))
        return min(self._burst, left + (now - at) * self._rate)

    def _forget(self, now: float) -> None:
        fullest = sorted(self._left, key=lambda caller: -self._level(caller, now))
        for caller in fullest[: len(fullest) // 2]:
            del self._left[caller]
