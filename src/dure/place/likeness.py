"""How much those that come one after another are alike: a sweep that fails fails as a whole, in seconds.

Called by `lifetime` to learn it and by `eta` to draw it. What each took is a normal score against the table of what
came before it. Scores of a group are a sum of parts: one of its own and one for each block of 8, 64 and 512
neighbours; their variances are read off products of scores that share a block of the one size and of no smaller. Five
blocks of a prior say that half is shared. Sums of normal scores are normal again: what a single one
may take stays as its table says, only the fates of neighbours are tied. O(past).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

SCALES = (8, 64, 512)
_OF_PRIOR, _SHARED = 5.0, 0.5
# The most of a score that is shared: something is always its own.
_MOST = 0.98
# A single outcome is no stranger than this.
_FARTHEST = 3.5
_NORMAL = NormalDist()
_POINTS = np.linspace(-6.0, 6.0, 1201)
_SURVIVING = np.array([_NORMAL.cdf(-point) for point in _POINTS])
_PAID = -np.log(_SURVIVING)


class Likeness(NamedTuple):
    """Variances of the parts of a score: its own, and one for each of `SCALES`."""

    own: float
    shared: tuple[float, ...]

    def tolls(self, samples: int, members: int, draw: np.random.Generator) -> Floats:
        """`[sample, member]` cumulated hazards to be paid until the end, of members in their order."""
        found = np.sqrt(self.own) * draw.standard_normal((samples, members))
        for scale, variance in zip(SCALES, self.shared, strict=True):
            if variance > 0.0 and members:
                blocks = draw.standard_normal((samples, (members - 1) // scale + 1))
                found += np.sqrt(variance) * blocks[:, np.arange(members) // scale]
        return np.asarray(np.interp(found, _POINTS, _PAID))


def scores_of(ended: Floats) -> Floats:
    """Normal scores of those that ended when so much hazard was paid."""
    return np.asarray(np.clip(np.interp(ended, _PAID, _POINTS), -_FARTHEST, _FARTHEST))


def scores_beyond(paid: Floats) -> Floats:
    """The mean score of those that have paid so much and still run."""
    least = scores_of(paid)
    density = np.exp(-least * least / 2) / np.sqrt(2 * np.pi)
    return np.asarray(density / np.interp(least, _POINTS, _SURVIVING))


def likeness(rows: Longs, scores: Floats) -> Likeness:
    """Of `scores` in the order in which they began, each of the group that `rows` says."""
    products, pairs = np.zeros(len(SCALES)), np.zeros(len(SCALES))
    for row in np.unique(rows):
        found = _products(scores[rows == row])
        products, pairs = products + found[0], pairs + found[1]
    whole = np.array([scale * (scale - scale // 8) / 2 for scale in SCALES])
    tied = (products / whole + _OF_PRIOR * _SHARED) / (pairs / whole + _OF_PRIOR)
    # A forecast that was too wide is mended by `calibrate`; here nothing gets narrower than its table.
    total = max(1.0, (float(scores @ scores) + _OF_PRIOR) / (len(scores) + _OF_PRIOR))
    tied = np.minimum.accumulate(np.clip(tied, 0.0, _MOST * total))
    return Likeness(total - float(tied[0]), tuple((tied - np.append(tied[1:], 0.0)).tolist()))


def _products(scores: Floats) -> tuple[Floats, Floats]:
    """For each scale: the sum of products of pairs that share such a block and no smaller one, and how many."""
    products, pairs = [], []
    sums, counts, size = scores, np.ones(len(scores)), 1
    for scale in SCALES:
        inside = float(sums @ sums), float(counts @ counts)
        sums, counts, size = _gathered(sums, scale // size), _gathered(counts, scale // size), scale
        products.append((float(sums @ sums) - inside[0]) / 2)
        pairs.append((float(counts @ counts) - inside[1]) / 2)
    return np.array(products), np.array(pairs)


def _gathered(values: Floats, many: int) -> Floats:
    return np.asarray(np.pad(values, (0, -len(values) % many)).reshape(-1, many).sum(axis=1))
