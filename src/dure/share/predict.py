"""How long the next kernels will take: the profile, corrected by what was observed.

A tenant's correction is a running mean of log(observed / predicted), so one outlier moves it little and drift is
followed in about `MEMORY` squads. The squad engine asks before, the executor reports after.
"""

from __future__ import annotations

import math

import msgspec

MEMORY = 20.0
"""Squads after which an observation has lost most of its weight."""
LIMIT = math.log(4.0)
"""No correction beyond a factor of four: more is a broken profile, which the error below shows."""


class Correction(msgspec.Struct, frozen=True):
    """`log_ratio` of observed over predicted time, and the mean absolute error left after it, in log units."""

    log_ratio: float = 0.0
    error: float = 0.0
    count: int = 0

    @property
    def factor(self) -> float:
        return math.exp(self.log_ratio)


def corrected_ms(profile_ms: float, correction: Correction) -> float:
    """The profile's time under today's correction."""
    return profile_ms * correction.factor


def observe(correction: Correction, profile_ms: float, actual_ms: float) -> Correction:
    """The correction after one more squad. Times of zero or less carry no information and change nothing."""
    if not (profile_ms > 0.0 and actual_ms > 0.0):
        return correction
    # Two logarithms, not one of the quotient: the quotient of a tiny time underflows to zero.
    seen = min(max(math.log(actual_ms) - math.log(profile_ms), -LIMIT), LIMIT)
    count = correction.count + 1
    step = max(1.0 / count, 1.0 / MEMORY)
    return Correction(
        log_ratio=correction.log_ratio + step * (seen - correction.log_ratio),
        error=correction.error + step * (abs(seen - correction.log_ratio) - correction.error),
        count=count,
    )
