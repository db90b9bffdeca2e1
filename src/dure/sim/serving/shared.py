"""Several services side by side: each on machines of its own, or on machines that they share.

Called by the benchmark. A machine that is there holds the image: a replica on it is ready after loading its model
(`warm_s`) instead of after a whole boot, or, where the engines of all services sleep on it, after waking one of them.
Whatever a service gives back stays warm, once its last requests are done,
until there are more machines than the policy wants. Every machine is billed from the moment that it boots until it is
let go, idle or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from dure.scale.warm import Machines, WarmPolicy
from dure.sim.serving import kernel as k
from dure.sim.serving.run import STEP_S, first_replicas
from dure.sim.serving.scalers import Scaler, seen_of
from dure.sim.serving.service import Engine, Outcome, Promise, Reading, Requests, Service


class Together(msgspec.Struct, frozen=True):
    """What all services cost and missed together; `outcomes` of each, whose GPU-hours add up where none is shared."""

    requests: int
    misses: int
    gpu_hours: float
    changes: int
    outcomes: tuple[Outcome, ...]

    @property
    def miss_rate(self) -> float:
        return self.misses / max(self.requests, 1)


class SharedMachines:
    """`free` machines are warm; `boots` are the moments from which others will be. Services boot in `warm_s`."""

    def __init__(self, services: Sequence[Service], boot_s: float, warm_s: float) -> None:
        self.services, self.ahead_s = services, boot_s - warm_s
        self.free, self.boots = 0, list[float]()
        self.gpu_s, self.changes = 0.0, 0

    def advance(self, seconds: float) -> list[Reading]:
        """Play one interval; machines whose replica has left or that have booted are free after it."""
        before = self._used()
        self.gpu_s += seconds * (before + self.free + len(self.boots))
        readings = [service.advance(seconds) for service in self.services]
        self.free += before - self._used()
        now_s = readings[0].now_s
        self.free += sum(warm_s <= now_s for warm_s in self.boots)
        self.boots = [warm_s for warm_s in self.boots if warm_s > now_s]
        return readings

    @property
    def machines(self) -> Machines:
        return Machines(self.free, len(self.boots), self._used() - sum(map(alive, self.services)))

    def resize(self, replicas: Sequence[int], machines: int) -> None:
        """Give back, take what is free, then boot machines or let some go: those first that would be warm last."""
        held = [alive(service) for service in self.services]
        self.changes += sum(before != after for before, after in zip(held, replicas, strict=True))
        for service, before, after in zip(self.services, held, replicas, strict=True):
            if after < before:
                self._set(service, after)
        for service, before, after in zip(self.services, held, replicas, strict=True):
            if after > before:
                self._set(service, before + min(after - before, self.free))
        lacking = machines - self._used() - self.free - len(self.boots)
        if lacking > 0:
            self.boots += [self.services[0].now_s + self.ahead_s] * lacking
        elif lacking < 0:
            called_off = min(-lacking, len(self.boots))
            self.boots = sorted(self.boots)[: len(self.boots) - called_off]
            self.free -= min(-lacking - called_off, self.free)

    def count_from_now(self) -> None:
        self.gpu_s, self.changes = 0.0, 0
        for service in self.services:
            service.count_from_now()

    def _set(self, service: Service, replicas: int) -> None:
        before = self._used()
        service.resize(replicas)
        self.free += before - self._used()

    def _used(self) -> int:
        return sum(int(np.count_nonzero(service.ri[:, k.STATE])) for service in self.services)


def alive(service: Service) -> int:
    """Replicas that are ready or start."""
    states = service.ri[:, k.STATE]
    return int(np.count_nonzero((states == k.BOOTING) | (states == k.READY)))


def play_shared_machines(
    streams: Sequence[Requests],
    policy: WarmPolicy,
    engine: Engine,
    promise: Promise,
    warm_up_s: float = 3600.0,
    most: int = 96,
    way: tuple[str, str] = ("requests", "arrival"),
) -> Together:
    """One whole run of all services on machines that they share. Deterministic."""
    settings = policy.settings
    services = _services(streams, engine, promise, settings.warm_s, most, way, settings.drain_s)
    shared = SharedMachines(services, settings.boot_s, settings.warm_s)
    while services[0].now_s < min(stream.horizon_s for stream in streams):
        if services[0].now_s <= warm_up_s:
            shared.count_from_now()
        readings = shared.advance(settings.step_s)
        division = policy.step([seen_of(reading) for reading in readings], shared.machines)
        shared.resize(division.replicas, division.machines)
    return _together(services, shared.gpu_s / 3600.0, shared.changes)


def play_apart(
    streams: Sequence[Requests],
    scalers: Sequence[Scaler],
    boot_s: float,
    engine: Engine,
    promise: Promise,
    warm_up_s: float = 3600.0,
    most: int = 96,
    way: tuple[str, str] = ("requests", "arrival"),
) -> Together:
    """The same streams, each service on its own. Deterministic."""
    services = _services(streams, engine, promise, boot_s, most, way)
    while services[0].now_s < min(stream.horizon_s for stream in streams):
        for service, scaler in zip(services, scalers, strict=True):
            if service.now_s <= warm_up_s:
                service.count_from_now()
            service.resize(scaler.decide(service.advance(STEP_S)))
    return _together(services, sum(one.gpu_s for one in services) / 3600.0, sum(one.changes for one in services))


def _services(
    streams: Sequence[Requests],
    engine: Engine,
    promise: Promise,
    boot_s: float,
    most: int,
    way: tuple[str, str],
    drain_s: float | None = None,
) -> list[Service]:
    services = []
    for stream in streams:
        mean_output = float(stream.output.mean())
        service = Service(stream, engine, promise, boot_s, *way, limit=most, mean_output=mean_output, drain_s=drain_s)
        service.start_with(first_replicas(stream, engine, most))
        services.append(service)
    return services


def _together(services: Sequence[Service], gpu_hours: float, changes: int) -> Together:
    outcomes = tuple(service.outcome() for service in services)
    requests, misses = (sum(getattr(one, name) for one in outcomes) for name in ("requests", "misses"))
    return Together(requests, misses, gpu_hours, changes, outcomes)
