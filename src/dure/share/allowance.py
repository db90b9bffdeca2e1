"""A tenant's time on the device, so that a share below one partition holds too.

A bucket of partition-milliseconds: it fills at the tenant's rate and what runs is taken out of it afterwards, so it
may be overdrawn by one piece. Whoever is overdrawn waits until it is even again. Over any time t a tenant gets at
most rate x t, plus what it may save up, plus one piece. Called by the executor for tenants with a limit.
"""

from __future__ import annotations

import msgspec


class Allowance(msgspec.Struct, frozen=True):
    """`rate` is partition-milliseconds for each millisecond; `saved_ms` is the most that is kept."""

    rate: float
    saved_ms: float
    balance_ms: float
    at_ms: float


def opened(rate: float, saved_ms: float, now_ms: float) -> Allowance:
    """A full bucket."""
    return Allowance(rate, saved_ms, saved_ms, now_ms)


def refilled(allowance: Allowance, now_ms: float) -> Allowance:
    more = max(0.0, now_ms - allowance.at_ms) * allowance.rate
    balance = min(allowance.saved_ms, allowance.balance_ms + more)
    return msgspec.structs.replace(allowance, balance_ms=balance, at_ms=max(now_ms, allowance.at_ms))


def spent(allowance: Allowance, now_ms: float, used_ms: float) -> Allowance:
    """After a piece of so many partition-milliseconds."""
    full = refilled(allowance, now_ms)
    return msgspec.structs.replace(full, balance_ms=full.balance_ms - used_ms)


def wait_ms(allowance: Allowance, now_ms: float) -> float:
    """How long until it may run; 0 when it may."""
    balance = refilled(allowance, now_ms).balance_ms
    return 0.0 if balance >= 0.0 else -balance / allowance.rate
