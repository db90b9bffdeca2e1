"""Elastic slices for serving: granted at once when latency will pass its target, given back in steps when calm.

The trend is a least-squares slope over a window, so one bad sample grants nothing; two thresholds and a calm time
between steps keep it from flapping. `instances` sizes a workload from its rate, queue and latency. Pure: the caller
keeps the `BurstState` and hands it back. Called by the agent's serving loop and by the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dure.model.units import Instant, Seconds


class LatencySample(NamedTuple):
    at_s: Instant
    latency_ms: float


class BurstSettings(msgspec.Struct, frozen=True):
    """Grant when the trend passes the target within `horizon_s`; calm means below `calm` of the target."""

    window_s: Seconds = 60.0
    horizon_s: Seconds = 30.0
    least_samples: int = 4
    calm: float = 0.6
    calm_s: Seconds = 120.0
    step_back: int = 1
    most_at_once: int = 4


class BurstState(msgspec.Struct, frozen=True):
    """Extra slices held now, and when the last step (up or down) was taken or calm began."""

    extra: int = 0
    since_s: Instant = 0.0


USUAL = BurstSettings()


def burst(
    state: BurstState,
    samples: Sequence[LatencySample],
    now_s: Instant,
    target_ms: float,
    elastic_free: int,
    settings: BurstSettings = USUAL,
) -> BurstState:
    """The extra slices from now on; never more than the elastic share has free on top of what is held."""
    recent = [sample for sample in samples if now_s - settings.window_s <= sample.at_s <= now_s]
    if len(recent) < settings.least_samples:
        return state
    level, slope = trend(recent, now_s)
    ahead = level + slope * settings.horizon_s
    if ahead > target_ms and (slope > 0 or level > target_ms):
        wanted = min(settings.most_at_once, max(1, math.ceil((ahead / target_ms - 1.0) * 4)))
        grant = min(wanted, max(0, elastic_free))
        return BurstState(state.extra + grant, now_s) if grant else state
    if state.extra == 0 or level > settings.calm * target_ms or slope * settings.horizon_s > 0.1 * target_ms:
        # Not calm: the calm time starts again, nothing is given back.
        return BurstState(state.extra, now_s) if state.extra else state
    if now_s - state.since_s < settings.calm_s:
        return state
    return BurstState(max(0, state.extra - settings.step_back), now_s)


def trend(samples: Sequence[LatencySample], now_s: Instant) -> tuple[float, float]:
    """Least-squares latency at `now_s` in ms, and its slope in ms per second."""
    count = len(samples)
    mean_t = sum(sample.at_s for sample in samples) / count
    mean_y = sum(sample.latency_ms for sample in samples) / count
    spread = sum((sample.at_s - mean_t) ** 2 for sample in samples)
    if spread == 0:
        return mean_y, 0.0
    slope = sum((sample.at_s - mean_t) * (sample.latency_ms - mean_y) for sample in samples) / spread
    return mean_y + slope * (now_s - mean_t), slope


def instances(rate_per_s: float, service_s: float, waiting: int, target_s: float, utilisation: float = 0.7) -> int:
    """Warm instances for a load: enough that each stays below `utilisation`, and the queue drains within the target.

    Little's law for the arrivals, plus `waiting` requests worked off in the part of the target that service leaves.
    """
    if service_s <= 0:
        return 1
    steady = rate_per_s * service_s / utilisation
    slack = max(target_s - service_s, service_s)
    return max(1, math.ceil(steady + waiting * service_s / slack))
