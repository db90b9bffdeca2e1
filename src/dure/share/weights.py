"""Equation 3: w <- w * exp(alpha * (target - actual)), kept from running away.

Raw, the update rises up to 49 times faster than it falls (a target of 0.99 can be beaten by at most 0.01), so one
tenant whose promise cannot be kept would starve everyone. Hence a leak towards the base weight, a mean of one, and a
clamp. Called once for each window of observation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec


class WeightSettings(msgspec.Struct, frozen=True):
    alpha: float = 1.0
    leak: float = 0.05
    """Part of the distance to the base weight (in logs) that is forgotten in each window."""
    least: float = 0.1
    most: float = 10.0


class Standing(msgspec.Struct, frozen=True):
    """A tenant's base weight, today's weight, promised and actual attainment (0 to 1)."""

    base: float
    weight: float
    target: float
    actual: float


def update(standings: Mapping[str, Standing], settings: WeightSettings | None = None) -> dict[str, float]:
    """Tomorrow's weights: mean one before the clamp, each within [least, most] times its base over the mean base."""
    s = settings or WeightSettings()
    if not standings:
        return {}
    raw: dict[str, float] = {}
    for name, standing in sorted(standings.items()):
        moved = math.log(standing.weight / standing.base) * (1.0 - s.leak) + s.alpha * (
            standing.target - standing.actual
        )
        raw[name] = math.log(standing.base) + moved
    shift = math.log(sum(math.exp(v) for v in raw.values()) / len(raw))
    return {name: min(max(math.exp(v - shift), s.least), s.most) for name, v in raw.items()}
