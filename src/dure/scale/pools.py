"""Primary pools, the shared elastic pool, and what happens when one service surges.

Called by the agent and the plane each round with every service's wish; answers how many replicas each may run and
the steps that lead there. A surge takes the free elastic share first, then what others hold idle above their minimum,
lowest priority first; nobody is pushed below `min_replicas` or below what it needs now. Where it is known how sure
needs are (`needs`), a replica changes hands only if its owner is left with so many more standard errors in reserve
than who gets it has: else it would soon come back. Giving back goes in steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

Phase = Literal["drain", "move", "warm", "switch"]


class Service(msgspec.Struct, frozen=True):
    """One model: its own replicas' worth of devices, its bounds, what it runs and what it wants now.

    `need` is what it must not go below, if that is known apart from the wish, and `error` the standard error of it.
    """

    name: str
    primary: int
    min_replicas: int
    max_replicas: int
    running: int
    wanted: int
    priority: int = 0
    calm_rounds: int = 0
    need: float | None = None
    error: float = 1.0

    @property
    def wish(self) -> int:
        return max(self.min_replicas, min(self.wanted, self.max_replicas))

    @property
    def floor(self) -> int:
        """What nobody takes from it."""
        if self.need is None:
            return self.wish
        return max(self.min_replicas, min(math.ceil(self.need), self.max_replicas))


class PoolSettings(msgspec.Struct, frozen=True):
    """At most `give_back` replicas return in one round, after `calm` rounds of lower need. One changes hands where
    its owner keeps more than `apart` standard errors more in reserve than who gets it has: errors of both, as either
    may be wrong."""

    elastic: int
    give_back: int = 1
    calm: int = 3
    apart: float = 2.0


class Share(msgspec.Struct, frozen=True):
    """What a service may run from now on, and where the extra comes from."""

    service: str
    before: int
    after: int
    from_elastic: int
    reason: str


class ReallocationStep(msgspec.Struct, frozen=True):
    """One journalled step of moving a device from one service to another, with its undoing."""

    number: int
    phase: Phase
    service: str
    replicas: int
    undo: str


def shares(services: tuple[Service, ...], settings: PoolSettings) -> tuple[Share, ...]:
    """Divide primary and elastic devices. O(services^2 x devices)."""
    granted = {service.name: _keeps(service, settings) for service in services}
    total = sum(service.primary for service in services) + settings.elastic
    _shrink_to(total, services, granted)
    order = sorted(services, key=lambda s: (-s.priority, s.name))
    before: dict[str, int] = {}
    # What one takes may leave another in reach of a third. Every change of hands evens reserves out, so this ends.
    while granted != before:
        before = dict(granted)
        for service in order:
            _grow(service, order, granted, total, settings)
    return tuple(_share(service, granted[service.name]) for service in services)


def reallocation(before: tuple[Share, ...]) -> tuple[ReallocationStep, ...]:
    """The shares as one plan of drain, move, warm and switch; each step names how it is undone."""
    steps: list[ReallocationStep] = []

    def add(phase: Phase, service: str, replicas: int, undo: str) -> None:
        steps.append(ReallocationStep(len(steps) + 1, phase, service, replicas, undo))

    losers = [share for share in before if share.after < share.before]
    winners = [share for share in before if share.after > share.before]
    for share in losers:
        add("drain", share.service, share.before - share.after, f"let {share.service} take requests again")
    for share in losers:
        add("move", share.service, share.before - share.after, f"give the devices back to {share.service}")
    for share in winners:
        add("warm", share.service, share.after - share.before, f"stop the new replicas of {share.service}")
    for share in winners:
        add("switch", share.service, share.after, f"route {share.service} to its former {share.before} replicas")
    return tuple(steps)


def rollback(steps: tuple[ReallocationStep, ...], failed: int) -> tuple[str, ...]:
    """What to do when step `failed` did not work: undo the done ones, last first."""
    return tuple(step.undo for step in reversed(steps) if step.number < failed)


def _keeps(service: Service, settings: PoolSettings) -> int:
    """What a service runs now, less what it gives back this round."""
    if service.running <= service.wish or service.calm_rounds < settings.calm:
        return max(service.running, service.min_replicas)
    return max(service.wish, service.running - settings.give_back)


def _grow(
    service: Service, order: Sequence[Service], granted: dict[str, int], total: int, settings: PoolSettings
) -> None:
    """Towards its wish: what is free first, then what others can do without, the lowest priority first."""
    free = max(total - sum(granted.values()), 0)
    granted[service.name] += max(min(service.wish - granted[service.name], free), 0)
    for donor in reversed(order):
        while granted[service.name] < service.wish and _parts(donor, service, granted, settings):
            granted[donor.name] -= 1
            granted[service.name] += 1


def _parts(donor: Service, taker: Service, granted: dict[str, int], settings: PoolSettings) -> bool:
    """Whether a service can do without one of its replicas, for the sake of another."""
    left, has = granted[donor.name] - 1, granted[taker.name]
    if donor.name == taker.name or left < donor.floor:
        return False
    if donor.need is None or taker.need is None:
        return True
    return (left - donor.need) / donor.error > (has - taker.need) / taker.error + settings.apart


def _shrink_to(total: int, services: tuple[Service, ...], granted: dict[str, int]) -> None:
    """When more runs than there are devices, take from the lowest priority, never below the minimum."""
    over = sum(granted.values()) - total
    for service in sorted(services, key=lambda s: (s.priority, s.name)):
        if over <= 0:
            return
        taken = min(over, granted[service.name] - service.min_replicas)
        granted[service.name] -= max(taken, 0)
        over -= max(taken, 0)


def _share(service: Service, after: int) -> Share:
    extra = max(0, after - service.primary)
    if after > service.running:
        reason = "Surge" if extra else "Demand"
    elif after < service.running:
        reason = "GiveBack" if service.wanted < service.running else "Preempted"
    else:
        reason = "Steady"
    return Share(service.name, service.running, after, extra, reason)
