"""Equation 1: how much neighbours slow a tenant, with rho learnt online from observed slowdowns.

Effective speed = solo speed x product over neighbours of (1 - rho_mk * phi(s_m, s_k)), phi = (4 s_m s_k)^0.3.
Rho of an ordered pair is a sum of shared parts (everybody's mean, the victim, the aggressor, their batch sizes)
and a part of the pair's own, each with a normal prior: a pair never seen gets what its members' other pairs
suggest, and its uncertainty says so. The squad engine asks, the device daemon and the benchmark teach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

PRIOR_RHO = 0.09
"""Mean slowdown share of a pair of which nothing is known: measured partitioned pairs average 0.09."""
PRIOR_SD = 0.05
NOISE_SD = 0.02
EXPONENT = 0.3

Phi = Callable[[float, float], float]


class App(msgspec.Struct, frozen=True, order=True):
    """What runs: a model at a batch size. `memory` is the part of its time in memory-bound kernels, if known."""

    model: str
    batch: int = 1
    memory: float | None = None


class Observation(msgspec.Struct, frozen=True):
    """`app` with share `own` ran at `speed` (1 = as alone with that share) beside `other` with share `theirs`."""

    app: App
    other: App
    own: float
    theirs: float
    speed: float


class Rho(msgspec.Struct, frozen=True):
    mean: float
    sd: float


def phi(own: float, theirs: float) -> float:
    """Weight of a pairing: 1 at an even split, 0 when one side has nothing."""
    return float((4.0 * own * theirs) ** EXPONENT)


def constant_phi(_own: float, _theirs: float) -> float:
    """For comparison: interference that does not depend on the split."""
    return 1.0


def neighbour_phi(_own: float, theirs: float) -> float:
    """For comparison: interference that grows with the neighbour's share alone."""
    return theirs


class Book:
    """What is known of rho: a Gaussian over named parts. A value: `learn` answers a new book."""

    def __init__(self, names: tuple[str, ...], mean: NDArray[np.float64], precision: NDArray[np.float64], phi: Phi):
        self._names = names
        self._at = {name: index for index, name in enumerate(names)}
        self._mean = mean
        self._precision = precision
        self._phi = phi
        self._asked: dict[tuple[App, App], Rho] = {}

    @property
    def size(self) -> int:
        return len(self._names)

    def learn(self, observations: Sequence[Observation]) -> Book:
        """The book after these observations; their order does not matter."""
        if not observations:
            return self
        rows = [_parts(o.app, o.other) for o in observations]
        grown = self._grown(sorted({name for row in rows for name in row} - set(self._names)))
        x = np.zeros((len(rows), grown.size))
        for i, (row, o) in enumerate(zip(rows, observations, strict=True)):
            weight = self._phi(o.own, o.theirs)
            for name, value in row.items():
                x[i, grown._at[name]] = value * weight
        lost = np.array([1.0 - o.speed for o in observations])
        precision = grown._precision + x.T @ x / NOISE_SD**2
        target = grown._precision @ grown._mean + x.T @ lost / NOISE_SD**2
        return Book(grown._names, np.linalg.solve(precision, target), precision, self._phi)

    def rho(self, app: App, other: App) -> Rho:
        """The belief about an ordered pair, seen or not."""
        if (app, other) not in self._asked:
            self._asked[app, other] = self._belief(app, other)
        return self._asked[app, other]

    def speed(self, app: App, own: float, neighbours: Sequence[tuple[App, float]]) -> float:
        """Equation 1: speed beside these neighbours, relative to alone with the same share."""
        speed = 1.0
        for other, theirs in neighbours:
            speed *= max(0.05, 1.0 - self.rho(app, other).mean * self._phi(own, theirs))
        return speed

    def _belief(self, app: App, other: App) -> Rho:
        row = _parts(app, other)
        known = np.zeros(self.size)
        unseen = 0.0
        for name, value in row.items():
            if name in self._at:
                known[self._at[name]] = value
            else:
                unseen += (value * PRIOR_SD) ** 2
        mean = float(known @ self._mean)
        if app.memory is not None and other.memory is not None and not self._seen(app, other):
            mean *= 0.5 + 0.5 * (app.memory + other.memory)
        variance = float(known @ np.linalg.solve(self._precision, known)) + unseen
        return Rho(min(max(mean, 0.0), 0.95), math.sqrt(variance))

    def _seen(self, app: App, other: App) -> bool:
        return f"{app.model}|{other.model}" in self._at

    def _grown(self, names: Sequence[str]) -> Book:
        if not names:
            return self
        size = self.size + len(names)
        precision = np.eye(size) / PRIOR_SD**2
        precision[: self.size, : self.size] = self._precision
        mean = np.concatenate((self._mean, np.zeros(len(names))))
        return Book((*self._names, *names), mean, precision, self._phi)


def empty_book(weighting: Phi = phi) -> Book:
    """Nothing observed yet: every pair has the prior."""
    return Book(("all",), np.array([PRIOR_RHO]), np.eye(1) / PRIOR_SD**2, weighting)


def _parts(app: App, other: App) -> dict[str, float]:
    """The parts whose weighted sum is rho of this ordered pair."""
    own, theirs = _size(app.batch), _size(other.batch)
    m, k = app.model, other.model
    return {
        "all": 1.0,
        f"victim {m}": 1.0,
        f"aggressor {k}": 1.0,
        f"{m}|{k}": 1.0,
        "own batch": own,
        "other batch": theirs,
        f"victim {m} own batch": own,
        f"victim {m} other batch": theirs,
        f"aggressor {k} batch": theirs,
        f"{m}|{k} own batch": 0.6 * own,
        f"{m}|{k} other batch": 0.6 * theirs,
    }


def _size(batch: int) -> float:
    """Batch sizes on a scale where 2 to 32 is -1 to 1."""
    return (math.log2(max(batch, 1)) - 3.0) / 2.0
