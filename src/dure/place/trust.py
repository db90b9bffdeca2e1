"""How far an estimate is to be trusted: of work that was said to take twice as long, how much longer does it take?

Called by `eta`. Within a group the logarithm of what work took is laid over that of its estimate, a line through both
means (least squares; five observations of a prior say that an estimate means what it says). A slope below one is
regression to the mean: an estimate far above those of its group is too high, one far below too low. Without it a
queue of work with high estimates is forecast many times as long as it is. O(past).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dure.model.units import Instant, Seconds

# How many observations the prior weighs, each an e-fold off the mean of its group.
_OF_PRIOR = 5.0
_LEAST_S = 1.0
_LEAST = 1e-9


class Past(NamedTuple):
    """One observation: a group, real over estimated time, the estimate and when it began."""

    group: str
    ratio: float
    estimate_s: Seconds = _LEAST_S
    began_s: Instant = 0.0


class Trust(NamedTuple):
    """`centre` is the mean logarithm of the estimates of a group, `slope` between 0 (not at all) and 1."""

    centre: dict[str, float]
    slope: float

    def corrected(self, group: str, estimate_s: Seconds) -> Seconds:
        """The estimate as far as it is trusted; that of a group without a past as it is."""
        said_s, centre = max(estimate_s, _LEAST_S), self.centre.get(group)
        if centre is None:
            return said_s
        return math.exp(centre + self.slope * (math.log(said_s) - centre))

    def held_against(self, one: Past) -> Past:
        """The same observation, its ratio that to the corrected estimate."""
        said_s = max(one.estimate_s, _LEAST_S)
        return one._replace(ratio=one.ratio * said_s / self.corrected(one.group, said_s))


def trust_in(ended: Sequence[Past]) -> Trust:
    """What those that ended teach of estimates."""
    names = sorted({one.group for one in ended})
    number = {name: index for index, name in enumerate(names)}
    rows = np.array([number[one.group] for one in ended], np.int64)
    said = np.log(np.maximum(np.array([one.estimate_s for one in ended], np.float64), _LEAST_S))
    took = said + np.log(np.maximum(np.array([one.ratio for one in ended], np.float64), _LEAST))
    centre, usual = (_means(rows, values, len(names)) for values in (said, took))
    off, longer = said - centre[rows], took - usual[rows]
    slope = (float(off @ longer) + _OF_PRIOR) / (float(off @ off) + _OF_PRIOR)
    return Trust(dict(zip(names, centre.tolist(), strict=True)), min(1.0, max(0.0, slope)))


def _means(
    rows: npt.NDArray[np.int64], values: npt.NDArray[np.float64], groups: int
) -> npt.NDArray[np.float64]:  # fmt: skip
    counts = np.bincount(rows, minlength=groups)
    return np.asarray(np.bincount(rows, values, minlength=groups) / np.maximum(counts, 1))
