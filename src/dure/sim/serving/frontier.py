"""Curves of misses over GPU-hours: lower envelopes and what they say at equal cost.

Called by the benchmark. A curve is a list of (GPU-hours, miss rate); between points the miss rate is interpolated on
a logarithmic scale, because it falls by factors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Point = tuple[float, float]
LEAST = 1e-5


def envelope(points: Sequence[Point]) -> list[Point]:
    """The points that nothing beats in both cost and misses, by rising cost."""
    kept: list[Point] = []
    for hours, misses in sorted(points):
        if not kept or misses < kept[-1][1]:
            kept.append((hours, misses))
    return kept


def misses_at(points: Sequence[Point], hours: float) -> float:
    """Miss rate of the envelope at a cost; the ends hold beyond the measured range, with 1.0 below it."""
    curve = envelope(points)
    if not curve or hours < curve[0][0]:
        return 1.0
    for (low, worse), (high, better) in itertools.pairwise(curve):
        if hours <= high:
            share = (hours - low) / (high - low)
            return math.exp((1 - share) * math.log(max(worse, LEAST)) + share * math.log(max(better, LEAST)))
    return curve[-1][1]


def hours_at(points: Sequence[Point], misses: float) -> float | None:
    """Cost at which the envelope reaches a miss rate; None when it never does."""
    curve = envelope(points)
    for (low, worse), (high, better) in itertools.pairwise(curve):
        if better <= misses <= worse:
            top, bottom = math.log(max(worse, LEAST)), math.log(max(better, LEAST))
            share = (top - math.log(max(misses, LEAST))) / max(top - bottom, 1e-12)
            return low + share * (high - low)
    if curve and curve[0][1] <= misses:
        return curve[0][0]
    return None
