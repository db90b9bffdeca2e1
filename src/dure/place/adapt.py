"""Online adaptation: after each window the three weights of `steer` follow what was observed.

Congestion price of a pool (and hour of the day): up where use exceeds its target, down elsewhere. SLO weight: up on
misses. Locality weight: follows how often warm weights and near data were in fact reused. Every update is
multiplicative, clamped, and leaks towards 1; the congestion prices are normalised so that their mean stays 1. Without
clamp and leak such weights rise far faster than they fall. Called by the plane after a window, by `sim` likewise.
"""

from __future__ import annotations

import math

import msgspec

from dure.model.snapshot import Weights


class Adaptation(msgspec.Struct, frozen=True):
    """`gain` is the largest step per window as an exponent, `leak` the share of the way back to 1 per window."""

    gain: float = 0.25
    leak: float = 0.05
    low: float = 0.25
    high: float = 4.0
    use_target: float = 0.8
    miss_target: float = 0.01
    reuse_target: float = 0.5


class Window(msgspec.Struct, frozen=True):
    """What was seen: use of each pool (0 to 1, by 'cluster/pool'), share of deadlines and requests missed, share of
    starts that found weights or data in place; None where nothing happened."""

    use: dict[str, float]
    missed: float | None = None
    reused: float | None = None


DEFAULT = Adaptation()


def adapted(weights: Weights, window: Window, rule: Adaptation = DEFAULT) -> Weights:
    """The weights for the next window."""
    congestion = {
        pool: _step(weights.congestion.get(pool, 1.0), (use - rule.use_target) / rule.use_target, rule)
        for pool, use in sorted(window.use.items())
    }
    missed = 0.0 if window.missed is None else _relative(window.missed, rule.miss_target)
    reused = 0.0 if window.reused is None else _relative(window.reused, rule.reuse_target)
    return Weights(
        slo=_step(weights.slo, missed, rule),
        locality=_step(weights.locality, reused, rule),
        congestion=_normalised(congestion, rule),
    )


def _relative(seen: float, target: float) -> float:
    return (seen - target) / max(target, 1e-9)


def _step(weight: float, error: float, rule: Adaptation) -> float:
    """w <- clamp(w^(1 - leak) x exp(gain x error)), the error held between -1 and 1: down as fast as up."""
    pulled = math.exp((1 - rule.leak) * math.log(weight))
    moved = pulled * math.exp(rule.gain * max(-1.0, min(1.0, error)))
    return max(rule.low, min(rule.high, moved))


def _normalised(prices: dict[str, float], rule: Adaptation) -> dict[str, float]:
    """Geometric mean 1: a fleet that is full everywhere is not dearer everywhere, only its differences count."""
    if not prices:
        return {}
    mean = math.exp(sum(math.log(price) for price in prices.values()) / len(prices))
    return {pool: max(rule.low, min(rule.high, price / mean)) for pool, price in prices.items()}
