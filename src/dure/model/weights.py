"""The three weights that `place` learns while it runs, and how they went over time.

They steer choices and never stand in a bill. The plane moves them after every window (`place.learn`), keeps them in
the store and shows them; a snapshot carries those of its moment.
"""

from __future__ import annotations

import msgspec

from dure.model.units import Instant

# Under which names the store keeps the weights in force and their past.
WEIGHTS_SETTING, HISTORY_SETTING = "weights", "weights-history"


class Weights(msgspec.Struct, frozen=True, omit_defaults=True):
    """1 is neutral. `congestion` has the price by 'cluster/class' and the factor of an hour of the day (UTC) on it by
    'cluster/class@14'."""

    slo: float = 1.0
    locality: float = 1.0
    congestion: dict[str, float] = {}


class WeightPoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """After one window: what was seen in it, the weights that follow, and which setting the bandit plays."""

    at_s: Instant
    slo: float
    locality: float
    congestion: dict[str, float]
    use: dict[str, float] = {}
    missed: float | None = None
    reused: float | None = None
    arm: int = 0


class WeightHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """`method` is rule, bandit or off; points are oldest first."""

    weights: Weights
    method: str = "rule"
    window_s: float = 3600.0
    points: tuple[WeightPoint, ...] = ()
