"""Equation 2: the weighted goodput of a squad, and the division of partitions that maximises it.

Goodput = sum over tenants of w_m * T_eff,m * Q_m. T_eff is normalised by the tenant's own solo speed, or a big model
would swamp the sum; Q is one when the promise is kept and (attained / promised)^GAMMA below. Exact dynamic
programming over partitions, O(K P^2); no solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

GAMMA = 2.0

Speed = Callable[[int], float]
"""Normalised speed of a tenant with this many partitions, neighbours counted."""


class Bidder(msgspec.Struct, frozen=True):
    """`required` is the normalised speed that keeps the promise; 0 for a tenant without one."""

    name: str
    weight: float
    speed: Speed
    required: float = 0.0
    least: int = 0
    """Partitions that are reserved for it."""


def quality(speed: float, required: float) -> float:
    """Q of equation 2."""
    if required <= 0.0 or speed >= required:
        return 1.0
    return float((speed / required) ** GAMMA)


def value(bidder: Bidder, parts: int) -> float:
    """One tenant's term of equation 2."""
    if parts <= 0:
        return 0.0
    speed = bidder.speed(parts)
    return bidder.weight * speed * quality(speed, bidder.required)


def maximise(bidders: Sequence[Bidder], parts: int) -> tuple[int, ...]:
    """Partitions of each tenant with the largest sum; ties give more to the earlier tenant.

    Raises `ValueError` when the reservations alone exceed the device.
    """
    if sum(b.least for b in bidders) > parts:
        raise ValueError(f"reservations of {sum(b.least for b in bidders)} partitions exceed the device's {parts}")
    best = np.zeros((len(bidders) + 1, parts + 1))
    taken = np.zeros((len(bidders) + 1, parts + 1), np.int64)
    for i in range(len(bidders) - 1, -1, -1):
        bidder = bidders[i]
        worth = [value(bidder, n) for n in range(parts + 1)]
        for room in range(parts + 1):
            top, at = -np.inf, bidder.least
            for n in range(room, bidder.least - 1, -1):
                total = worth[n] + best[i + 1, room - n]
                if total > top + 1e-12:
                    top, at = total, n
            best[i, room], taken[i, room] = top, at
    shares = []
    room = parts
    for i in range(len(bidders)):
        shares.append(int(taken[i, room]))
        room -= shares[-1]
    return tuple(shares)
