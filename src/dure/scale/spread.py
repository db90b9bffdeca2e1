"""What minutes have been like, of late and for hours: the forecast of a service whose bursts nobody sees coming.

Called by `forecast`. Where a deviation is over before a replica has booted, to foresee demand is to be wrong; what
can be provided for is how demand spreads. The last minutes tell that sooner, the last hours better, and as misses
rise ever faster with demand over replicas, the mean of both answers is better than either. A pure function of what
was added. Cost: O(1) per step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dure.scale.rolling import Rolling


class Spread:
    """Mean and standard deviation of demand, each a mean over spans of so many steps."""

    def __init__(self, spans: Sequence[int]) -> None:
        self.values = [Rolling(span, 0.0) for span in spans]
        self.squares = [Rolling(span, 0.0) for span in spans]

    def add(self, value: float) -> tuple[float, float]:
        """Add one step's demand; the mean and the standard deviation with it."""
        for value_of, square_of in zip(self.values, self.squares, strict=True):
            value_of.add(value)
            square_of.add(value * value)
        means = [one.mean for one in self.values]
        found = (square.mean - mean * mean for square, mean in zip(self.squares, means, strict=True))
        deviations = [math.sqrt(max(square, 0.0)) for square in found]
        return sum(means) / len(means), sum(deviations) / len(deviations)
