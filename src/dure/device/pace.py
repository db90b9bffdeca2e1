"""Limits of tenants while they run: how many threads at most, and when one who had more than its share may go on.

State of the executor's thread; the arithmetic is `dure.share.allowance`. A limit of whole threads needs no pacing:
who never has more than its threads never has more than its share.
"""

from __future__ import annotations

import math

from dure.device.config import TenantConfig
from dure.share.allowance import Allowance, opened, spent, wait_ms

SAVED_MS = 20.0
"""Time a tenant may save up while it idles: about one request, so that a lone request is not torn into pieces."""


class Pace:
    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._most: dict[str, int] = {}
        self._allowances: dict[str, Allowance] = {}

    def come(self, tenant: TenantConfig, now_ms: float) -> None:
        if tenant.limit <= 0.0:
            return
        rate = tenant.limit * self._cores
        self._most[tenant.name] = max(1, math.ceil(rate - 1e-9))
        if rate < self._most[tenant.name] - 1e-9:
            self._allowances[tenant.name] = opened(rate, SAVED_MS * rate, now_ms)

    def go(self, name: str) -> None:
        self._most.pop(name, None)
        self._allowances.pop(name, None)

    def most_parts(self, name: str) -> int:
        """Threads at most; 0 means no limit."""
        return self._most.get(name, 0)

    def spend(self, name: str, now_ms: float, threads: int, ms: float) -> None:
        if name in self._allowances:
            self._allowances[name] = spent(self._allowances[name], now_ms, threads * ms)

    def wait_ms(self, name: str, now_ms: float) -> float:
        return wait_ms(self._allowances[name], now_ms) if name in self._allowances else 0.0
