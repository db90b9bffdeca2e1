"""What a tenant of a shared device was promised, how well it is kept, and whether it is about to be broken.

Three kinds of promise: a latency quantile, a throughput, an availability. Risk is seen before the miss from two
signs: the slack of the worst recent answers and the trend over the window. Pure over a window of samples that the
daemon keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np


class Promise(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is left out was not promised."""

    latency_ms: float | None = None
    quantile: float = 0.95
    throughput_per_s: float | None = None
    availability: float | None = None


class Answered(msgspec.Struct, frozen=True):
    """One request's end: when, how long it took, and whether it was answered at all."""

    at_ms: float
    latency_ms: float
    ok: bool = True


class Attainment(msgspec.Struct, frozen=True):
    """`actual` and `target` are parts of one for equation 3; `risk` runs from 0 (calm) to 1 (being missed).

    `ahead` is the part that will be attained when the trend of the window goes on; None where none is followed.
    """

    target: float
    actual: float
    risk: float
    kind: str
    ahead: float | None = None

    @property
    def foreseen(self) -> float:
        """What equation 3 should reckon with: what is, or what is coming if that is worse."""
        return self.actual if self.ahead is None else min(self.actual, self.ahead)


HORIZON = 0.5
"""How far ahead the trend is followed, as a part of the window."""


def attainment(promise: Promise, window: Sequence[Answered], span_ms: float) -> tuple[Attainment, ...]:
    """How each promise stands over the last `span_ms`. No requests means no complaint."""
    found = []
    if promise.latency_ms is not None:
        found.append(_latency(promise, promise.latency_ms, window))
    if promise.throughput_per_s is not None:
        found.append(_throughput(promise.throughput_per_s, window, span_ms))
    if promise.availability is not None:
        found.append(_availability(promise.availability, window))
    return tuple(found)


def worst(standings: Sequence[Attainment]) -> Attainment | None:
    """The promise most at risk; ties by the larger gap."""
    return max(standings, key=lambda a: (a.risk, a.target - a.actual), default=None)


def _latency(promise: Promise, limit_ms: float, window: Sequence[Answered]) -> Attainment:
    if not window:
        return Attainment(promise.quantile, 1.0, 0.0, "latency")
    times = np.array([a.latency_ms if a.ok else np.inf for a in window])
    within = float(np.mean(times <= limit_ms))
    finite = np.where(np.isfinite(times), times, 10.0 * limit_ms)
    level = float(np.quantile(finite, promise.quantile))
    drift = _slope(finite) * HORIZON * len(finite)
    ahead = float(np.mean(finite + max(drift, 0.0) <= limit_ms))
    return Attainment(promise.quantile, within, _risk((level + drift) / limit_ms), "latency", ahead)


def _throughput(rate: float, window: Sequence[Answered], span_ms: float) -> Attainment:
    if span_ms <= 0.0:
        return Attainment(1.0, 1.0, 0.0, "throughput")
    actual = 1000.0 * sum(a.ok for a in window) / span_ms / rate
    return Attainment(1.0, min(actual, 1.0), _risk(1.0 / max(actual, 1e-3)), "throughput")


def _availability(target: float, window: Sequence[Answered]) -> Attainment:
    if not window:
        return Attainment(target, 1.0, 0.0, "availability")
    actual = sum(a.ok for a in window) / len(window)
    budget = max(1.0 - target, 1e-6)
    return Attainment(
        target, actual, _risk(0.8 + 0.2 * (1.0 - actual) / budget) if actual < 1.0 else 0.0, "availability"
    )


def _slope(values: np.ndarray) -> float:
    """Least-squares rise for each further request."""
    if len(values) < 4:
        return 0.0
    x = np.arange(len(values)) - (len(values) - 1) / 2.0
    return float(x @ (values - values.mean()) / (x @ x))


def _risk(ratio: float) -> float:
    """0 up to four fifths of the limit, 1 at the limit."""
    return float(min(max((ratio - 0.8) / 0.2, 0.0), 1.0))
