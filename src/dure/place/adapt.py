"""Online adaptation: after each window the three weights of `steer` follow what was observed.

Congestion price of a class in a cluster: up where use exceeds its target, down elsewhere. On it a factor for each
hour of the day, which moves more slowly and has the mean 1 over the day: it pays to wait only for an hour that has
been emptier before, never because this one is full. SLO weight: up on misses, never below 1. Locality weight: follows
how often warm weights and near data were in fact reused. Every update is multiplicative, clamped, and leaks towards
1; the congestion prices are normalised so that their mean stays 1. Without clamp and leak such weights rise far
faster than they fall. Called through `learn` by the plane after a window.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from dure.model.once import once
from dure.model.units import HOUR_S
from dure.model.weights import Weights
from dure.place.instance import Floats

DAY_H = 24


class Adaptation(msgspec.Struct, frozen=True):
    """`gain` is the largest step per window as an exponent, `leak` the share of the way back to 1 per window.

    A promise is never worth less than its penalty: the floor of the SLO weight is 1. Congestion may decide between
    neighbours, never make a pool look twice as dear; an hour of the day may do less still, since waiting costs too.
    """

    gain: float = 0.1
    leak: float = 0.05
    slo_low: float = 1.0
    slo_high: float = 4.0
    locality_low: float = 0.5
    locality_high: float = 2.0
    price_gain: float = 0.02
    price_low: float = 0.9
    price_high: float = 1.1
    hour_gain: float = 0.01
    hour_low: float = 0.98
    hour_high: float = 1.02
    use_target: float = 0.95
    miss_target: float = 0.02
    reuse_target: float = 0.5


class Window(msgspec.Struct, frozen=True):
    """What was seen: use of each class (0 to 1, by 'cluster/class'), share of deadlines and requests missed, share of
    starts that found weights or data in place; None where nothing happened. `hour` of the day (UTC) it lay in."""

    use: dict[str, float]
    missed: float | None = None
    reused: float | None = None
    hour: int | None = None


DEFAULT = Adaptation()


def adapted(weights: Weights, window: Window, rule: Adaptation = DEFAULT) -> Weights:
    """The weights for the next window."""
    missed = 0.0 if window.missed is None else _relative(window.missed, rule.miss_target)
    reused = 0.0 if window.reused is None else _relative(window.reused, rule.reuse_target)
    return Weights(
        slo=_step(weights.slo, missed, rule.gain, rule.leak, rule.slo_low, rule.slo_high),
        locality=_step(weights.locality, reused, rule.gain, rule.leak, rule.locality_low, rule.locality_high),
        congestion=_congestion(weights.congestion, window, rule),
    )


def _congestion(old: dict[str, float], window: Window, rule: Adaptation) -> dict[str, float]:
    """Prices of classes that are gone are forgotten."""
    errors = {key: (use - rule.use_target) / rule.use_target for key, use in sorted(window.use.items())}
    prices = {
        key: _step(old.get(key, 1.0), error, rule.price_gain, rule.leak, rule.price_low, rule.price_high)
        for key, error in errors.items()
    }
    found = _normalised(prices, rule.price_low, rule.price_high)
    for key, error in errors.items():
        found |= _day(key, old, error, window.hour, rule)
    return found


def _day(key: str, old: dict[str, float], error: float, hour: int | None, rule: Adaptation) -> dict[str, float]:
    """The factors of the day of one class after a window in `hour`; empty before the first such window."""
    names = [hour_key(key, each) for each in range(DAY_H)]
    if hour is None and not any(name in old for name in names):
        return {}
    factors = {name: old.get(name, 1.0) for name in names}
    if hour is not None:
        name = hour_key(key, hour)
        factors[name] = _step(factors[name], error, rule.hour_gain, rule.leak, rule.hour_low, rule.hour_high)
    return _normalised(factors, rule.hour_low, rule.hour_high)


def hour_key(key: str, hour: int) -> str:
    return f"{key}@{hour % DAY_H:02d}"


def congestion_at(weights: Weights, key: str, starts: Floats) -> float | Floats:
    """The price of 'cluster/class' `key` for each start."""
    if not weights.congestion:
        return 1.0
    by_hour = _by_hour(weights).get(key)
    if by_hour is None:
        return 1.0
    return by_hour[(starts // HOUR_S).astype(np.int64) % DAY_H]


@once
def _by_hour(weights: Weights) -> dict[str, Floats]:
    """The price of each hour of the day, for every 'cluster/class' that has one."""
    prices = weights.congestion
    keys = {name.split("@")[0] for name in prices}
    return {
        key: np.array([prices.get(key, 1.0) * prices.get(hour_key(key, hour), 1.0) for hour in range(DAY_H)])
        for key in sorted(keys)
    }


def _relative(seen: float, target: float) -> float:
    return (seen - target) / max(target, 1e-9)


def _step(weight: float, error: float, gain: float, leak: float, low: float, high: float) -> float:
    """w <- clamp(w^(1 - leak) x exp(gain x error)), the error held between -1 and 1: down as fast as up."""
    pulled = math.exp((1 - leak) * math.log(weight))
    moved = pulled * math.exp(gain * max(-1.0, min(1.0, error)))
    return max(low, min(high, moved))


def _normalised(prices: dict[str, float], low: float, high: float) -> dict[str, float]:
    """Geometric mean 1: a fleet that is full everywhere is not dearer everywhere, only differences count."""
    if not prices:
        return {}
    mean = math.exp(sum(math.log(price) for price in prices.values()) / len(prices))
    return {key: max(low, min(high, price / mean)) for key, price in prices.items()}
