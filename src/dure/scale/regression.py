"""A small linear regression that learns as it goes and forgets.

Called by `forecast`. Least squares with exponential forgetting, drawn to a first guess that is worth `WORTH_S`
seconds of features of size one, so that it can be asked from the beginning (ridge regression, recursively). Time
counts, not samples: neighbours in a series say nearly the same. Cost: O(features^3) per question, for a handful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WORTH_S = 150.0


class Regression:
    """Mutable, but a pure function of what it was taught."""

    def __init__(self, guess: Sequence[float], memory_s: float) -> None:
        self.memory_s = memory_s
        self.squares: Floats = np.eye(len(guess)) * WORTH_S
        self.products: Floats = np.array(guess) * WORTH_S

    def learn(self, features: Floats, truth: float, seconds: float) -> None:
        """`features` were followed by `truth`, for so many seconds."""
        keep = math.exp(-seconds / self.memory_s)
        self.squares = self.squares * keep + features[:, None] * features * seconds
        self.products = self.products * keep + features * (truth * seconds)

    def expected(self, features: Floats) -> float:
        return float(features @ np.linalg.solve(self.squares, self.products))
