"""Means and highest values of the last steps of a series, at a cost that does not grow with what is remembered.

Used by `forecast`, `spread` and `warm`. Pure functions of what was added; every `keep` is in steps of the series.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Value = TypeVar("Value", float, Floats)


class Rolling(Generic[Value]):
    """Means over the last `span` values, numbers or rows of them; `keep` of them are remembered."""

    def __init__(self, span: int, zero: Value) -> None:
        self.span = self.keep = span
        self.sums: list[Value] = [zero]

    def add(self, value: Value) -> None:
        self.sums.append(self.sums[-1] + value)
        forget(self.sums, self.keep + 1)

    @property
    def count(self) -> int:
        return min(len(self.sums) - 1, self.span)

    @property
    def mean(self) -> Value:
        count = self.count
        return (self.sums[-1] - self.sums[-1 - count]) / max(count, 1)

    def around(self, ago: int, width: int) -> Value | None:
        """The mean of `width` values around the one that was added `ago` steps ago; None if that is forgotten."""
        end = len(self.sums) - 1 - ago + width // 2
        if end - width < 0:
            return None
        return (self.sums[end] - self.sums[end - width]) / width


class Highest:
    """The highest of the last `span` values, to a twentieth of the span: what is kept are the highest of blocks."""

    def __init__(self, span: int) -> None:
        self.block = max(span // 20, 1)
        self.count, self.blocks = 0, list[float]()

    def add(self, value: float) -> None:
        if self.count % self.block == 0:
            self.blocks = [*self.blocks, value][-20:]
        self.count += 1
        self.blocks[-1] = max(self.blocks[-1], value)

    @property
    def value(self) -> float:
        return max(self.blocks)


def forget(kept: list[Any], count: int) -> None:
    """Only what is still asked for; cut seldom, as cutting costs as much as what is kept."""
    if len(kept) > 2 * count:
        del kept[:-count]
