"""Several services side by side, with a pool of warm machines that they share.

Called by the benchmark. A warm machine has booted and holds the image; a replica on one is ready after loading its
model (`warm_s`) instead of after a whole boot. Each taken machine is replaced by one that boots; a replica that is
given back becomes a warm machine where one is missing. The pool is billed whole, warm or booting; how large it is
may change while it is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from dure.sim.serving import kernel as k
from dure.sim.serving.run import STEP_S, first_replicas
from dure.sim.serving.scalers import Scaler
from dure.sim.serving.service import Engine, Outcome, Promise, Requests, Service


class WarmPool:
    """`slots` holds the moment from which each machine is warm."""

    def __init__(self, size: int, boot_s: float, warm_s: float) -> None:
        self.boot_s, self.warm_s = boot_s, warm_s
        self.slots = [0.0] * size
        self.gpu_s = 0.0

    def resize(self, size: int, now_s: float) -> None:
        """Boot further machines, or let those go that would be warm last."""
        self.slots = sorted(self.slots)[:size]
        self.slots += [now_s + self.boot_s - self.warm_s] * (size - len(self.slots))

    def take(self, count: int, now_s: float) -> int:
        """Use up to `count` warm machines; others begin to boot in their place."""
        warm = [index for index, since_s in enumerate(self.slots) if since_s <= now_s][:count]
        for index in warm:
            self.slots[index] = now_s + self.boot_s - self.warm_s
        return len(warm)

    def give(self, count: int, now_s: float) -> None:
        """Machines that replicas have left; those that boot longest are called off for them."""
        for _ in range(count):
            index = max(range(len(self.slots)), key=lambda slot: self.slots[slot], default=-1)
            if index < 0 or self.slots[index] <= now_s:
                return
            self.slots[index] = now_s


class PooledService(Service):
    """A service whose new replicas use warm machines while there are some."""

    pool: WarmPool | None = None

    def resize(self, target: int) -> None:
        alive = self._alive()
        super().resize(target)
        if self.pool is None:
            return
        if self._alive() < alive:
            self.pool.give(alive - self._alive(), self.now_s)
        fresh = np.flatnonzero(
            (self.ri[:, k.STATE] == k.BOOTING) & (self.rf[:, k.READY_AT] == self.now_s + self.boot_s)
        )
        warm = self.pool.take(len(fresh), self.now_s)
        self.rf[fresh[:warm], k.READY_AT] = self.now_s + self.pool.warm_s

    def _alive(self) -> int:
        states = self.ri[:, k.STATE]
        return int(np.count_nonzero((states == k.BOOTING) | (states == k.READY)))


class Together(msgspec.Struct, frozen=True):
    """What all services cost and missed together."""

    requests: int
    misses: int
    gpu_hours: float
    changes: int

    @property
    def miss_rate(self) -> float:
        return self.misses / max(self.requests, 1)


def play_together(
    streams: Sequence[Requests],
    scalers: Sequence[Scaler],
    boot_s: float,
    engine: Engine,
    promise: Promise,
    pool: WarmPool | None,
    warm_up_s: float = 3600.0,
    most: int = 96,
    pool_size: Callable[[], int] | None = None,
) -> Together:
    """One whole run of all services; `pool_size` is asked each interval. Deterministic."""
    horizon_s = min(stream.horizon_s for stream in streams)
    services = []
    for stream in streams:
        service = PooledService(stream, engine, promise, boot_s, limit=most, mean_output=float(stream.output.mean()))
        service.start_with(first_replicas(stream, engine, most))
        service.pool = pool
        services.append(service)
    while services[0].now_s < horizon_s:
        if pool is not None:
            pool.gpu_s = 0.0 if services[0].now_s <= warm_up_s else pool.gpu_s
            pool.gpu_s += STEP_S * len(pool.slots)
        for service, scaler in zip(services, scalers, strict=True):
            if service.now_s <= warm_up_s:
                service.count_from_now()
            service.resize(scaler.decide(service.advance(STEP_S)))
        if pool is not None and pool_size is not None:
            pool.resize(pool_size(), services[0].now_s)
    for service in services:
        service.pool = None
    outcomes: list[Outcome] = [service.outcome() for service in services]
    held = pool.gpu_s / 3600.0 if pool is not None else 0.0
    return Together(
        sum(one.requests for one in outcomes),
        sum(one.misses for one in outcomes),
        sum(one.gpu_hours for one in outcomes) + held,
        sum(one.changes for one in outcomes),
    )
