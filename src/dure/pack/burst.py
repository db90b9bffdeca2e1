"""Elastic slices for serving: granted at once when latency will pass its target, given back in steps when calm.

The trend is a least-squares slope over a window, so one bad sample grants nothing; two thresholds and a calm time
between steps keep it from flapping. `backlog` sizes a serving from its queue and from what a replica answers while
there is one. Pure: the caller keeps the `BurstState` and hands it back. Called by the plane's `bursting`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from dure.model.units import Instant, Seconds


class LatencySample(NamedTuple):
    at_s: Instant
    latency_ms: float


class QueueSample(NamedTuple):
    """So many wait at `at_s`; since the sample before `answered` were, in `ready_s` seconds of replicas."""

    at_s: Instant
    waiting: int
    answered: int
    ready_s: Seconds


class Backlog(NamedTuple):
    """A queue that stands: how long its last one waits, what comes, what a replica answers, how many are needed."""

    waiting: int
    wait_s: Seconds
    rate_per_s: float
    each_per_s: float
    replicas: int


class BurstSettings(msgspec.Struct, frozen=True):
    """Grant when the trend passes the target within `horizon_s`; calm means below `calm` of the target.

    Replicas for a queue are counted so that it is gone within `horizon_s` and each is `busy` for that part.
    """

    window_s: Seconds = 60.0
    horizon_s: Seconds = 30.0
    least_samples: int = 4
    calm: float = 0.6
    calm_s: Seconds = 120.0
    step_back: int = 1
    most_at_once: int = 4
    busy: float = 0.7


class BurstState(msgspec.Struct, frozen=True):
    """Extra slices held now, and when the last step (up or down) was taken or calm began."""

    extra: int = 0
    since_s: Instant = 0.0


USUAL = BurstSettings()
# A load that replicas carry exactly needs no further one, whatever the last digit of a quotient says.
_EVEN = 1e-9


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


def backlog(samples: Sequence[QueueSample], now_s: Instant, settings: BurstSettings = USUAL) -> Backlog | None:
    """What the queue means if it stood through the last two samples of the window, each with answers; else None.

    While somebody waits every replica is busy, so what it answered then is what it can.
    """
    recent = [sample for sample in samples if now_s - settings.window_s <= sample.at_s <= now_s]
    standing = [(one, two) for one, two in pairwise(recent) if one.waiting > 0 and two.waiting > 0]
    if not standing or standing[-1][1] is not recent[-1]:
        return None
    answered = sum(two.answered for _, two in standing)
    ready_s = sum(two.ready_s for _, two in standing)
    if answered <= 0 or ready_s <= 0:
        return None
    took_s = sum(two.at_s - one.at_s for one, two in standing)
    grown = sum(two.waiting - one.waiting for one, two in standing)
    each_per_s, rate_per_s = answered / ready_s, max(0.0, answered + grown) / took_s
    before, last = standing[-1]
    waiting = min(before.waiting, last.waiting)
    wait_s = waiting / (answered / took_s)
    needed = instances(rate_per_s, each_per_s * settings.busy, waiting, settings.horizon_s)
    return Backlog(waiting, wait_s, rate_per_s, each_per_s, needed)


def instances(rate_per_s: float, carried_per_s: float, waiting: float, drain_s: Seconds) -> int:
    """Warm replicas that answer what comes and work off those who wait within `drain_s`.

    `carried_per_s` is what one replica is given; a queue that is to be gone in `drain_s` is so much more load.
    """
    return max(1, math.ceil((rate_per_s + max(0.0, waiting) / drain_s) / carried_per_s - _EVEN))
