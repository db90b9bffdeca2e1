"""Limits of tenants while they run: threads at most, when one who had more than its share may go on, who is next.

State of the executor's thread; the arithmetic is `dure.share.allowance` and `dure.share.turns`. A limit of whole
threads needs no pacing: who never has more than its threads never has more than its share. Those who are paced share
threads in time. Among them whoever has least inside goes first, and stops the others in mid-piece: allowances bound
what each may take of the rest, so nobody starves, and one with a backlog waits for itself anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dure.device.config import TenantConfig
from dure.share.allowance import Allowance, opened, spent, wait_ms
from dure.share.turns import Turns

SAVED_MS = 20.0
"""Time a tenant may save up while it idles: about one request, so that a lone request is not torn into pieces."""

KEPT = 0.1
"""Of a thread that is shared in time, the part that nobody owns: hand-overs are paid from it, not by a neighbour."""


class Pace:
    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._most: dict[str, int] = {}
        self._allowances: dict[str, Allowance] = {}
        self._turns = Turns()

    def come(self, tenant: TenantConfig, now_ms: float) -> None:
        if tenant.limit <= 0.0:
            return
        self._turns.come(tenant.name, tenant.limit)
        rate = tenant.limit * self._cores
        self._most[tenant.name] = max(1, math.ceil(rate - 1e-9))
        if rate < self._most[tenant.name] - 1e-9:
            rate *= 1.0 - KEPT
            self._allowances[tenant.name] = opened(rate, SAVED_MS * rate, now_ms)

    def go(self, name: str) -> None:
        self._most.pop(name, None)
        self._allowances.pop(name, None)
        self._turns.go(name)

    def first(self, inside: Mapping[str, int], free: int) -> set[str]:
        """Of those who wait everybody without a limit, and of the others those whose turn it is."""
        chosen = {name for name in inside if name not in self._most}
        for name in sorted(self._turns.ordered(inside), key=lambda n: inside[n] if n in self._allowances else 0):
            if free <= 0:
                break
            chosen.add(name)
            free -= self._most[name]
        return chosen

    def yields(self, waiting: Mapping[str, int], running: Mapping[str, int]) -> str | None:
        """Who must stop for one that waits: the paced one with most inside, if that is more than the other has."""
        least = min((inside for name, inside in waiting.items() if name in self._allowances), default=None)
        paced = [name for name in running if name in self._allowances]
        if least is None or not paced:
            return None
        most = max(paced, key=lambda n: (running[n], n))
        return most if running[most] > least else None

    def shares(self, name: str) -> bool:
        """Whether it owns less than its threads, and so has them in turn with others."""
        return name in self._allowances

    def begin(self, name: str) -> None:
        self._turns.begin(name)

    def pause(self, name: str, threads: int, held_ms: float) -> None:
        """Stopped in mid-piece: this part of its turn is over, its share is charged when the piece is done."""
        self._turns.end(name, threads * held_ms)

    def most_parts(self, name: str) -> int:
        """Threads at most; 0 means no limit."""
        return self._most.get(name, 0)

    def spend(self, name: str, now_ms: float, threads: int, held_ms: float, used_ms: float) -> None:
        """After a piece: its turn lasted as long as it held threads; of its share goes what it could use of all."""
        self._turns.end(name, threads * held_ms)
        if name in self._allowances:
            self._allowances[name] = spent(self._allowances[name], now_ms, threads * used_ms)

    def wait_ms(self, name: str, now_ms: float) -> float:
        return wait_ms(self._allowances[name], now_ms) if name in self._allowances else 0.0
