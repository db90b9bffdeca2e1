"""Requests to a serving: how many come by the hour, and how many of them are answered in time.

Demo figures of a demo world. The rate follows the clock of a working day; answers follow a queue with as many servers
as replicas are ready (Sakasegawa's approximation of the wait, an exponential tail). Counted lazily in steps of five
minutes, so that a quiet week costs nothing.
"""

from __future__ import annotations

import math

from dure.adapters.memory import chance
from dure.adapters.memory.world import Work, World
from dure.model.catalogue import Catalogue
from dure.model.cluster import PodPhase
from dure.model.pulse import Pulse
from dure.model.units import DAY_S, HOUR_S, Instant
from dure.model.workload import Workload

_STEP_S = 300.0
# What the smallest number of replicas carries on the first accepted class, in multiples of the mean rate.
_HEADROOM = 2.6
# The mean service time is this part of the latency target.
_SERVICE_PART = 1 / 6
# However long the queue, this part of the requests is in time just before it grows without end.
_LUCKY = 0.1
_USERS_UTC_OFFSET_S = 9 * HOUR_S


def count(world: World, work: Work) -> None:
    """Bring the counters up to the world's present. Call it before the number of ready replicas changes."""
    if work.counted_s is None:
        return
    spec, since_s = work.desired.spec, work.counted_s
    ready = sum(world.pods[name].phase is PodPhase.RUNNING for name in work.pods)
    while since_s < world.now_s:
        until_s = min(world.now_s, (since_s // _STEP_S + 1) * _STEP_S, _edge(work, since_s))
        rate = _rate(world, work, since_s)
        asked = rate * (until_s - since_s)
        work.requests += asked
        work.requests_good += asked * good_part(spec, rate, ready, work.speed)
        since_s = until_s
    work.counted_s = world.now_s


def pulse(world: World, work: Work, catalogue: Catalogue) -> Pulse | None:
    """What the engines of a language-model service would show; None for any other. Counters are those of `count`."""
    spec = work.desired.spec
    model = catalogue.models.get(spec.model)
    if model is None or model.output_tokens <= 0.0 or work.counted_s is None:
        return None
    ready = sum(world.pods[name].phase is PodPhase.RUNNING for name in work.pods)
    rate, capacity = _rate(world, work, world.now_s), _capacity(spec, ready, work.speed)
    # Beyond what they carry a minute's surplus stands in the queue, below it those that it holds on average.
    load = rate / capacity if capacity > 0.0 else math.inf
    waiting = rate * _queue(load, ready) * _mean_s(spec) if load < 1.0 else (rate - capacity) * 60.0
    asked = int(work.requests)
    return Pulse(
        at_s=world.now_s,
        asked=asked,
        prompt_tokens=int(asked * model.prompt_tokens),
        answered=asked,
        output_tokens=int(asked * model.output_tokens),
        waiting=int(waiting),
        running=int(min(rate, capacity) * _mean_s(spec)),
        cache=min(load, 1.0),
    )


def _mean_s(spec: Workload) -> float:
    """The mean service time, a part of the latency target."""
    return (spec.slo.latency_p95_ms or 1000.0) / 1000.0 * _SERVICE_PART


def _edge(work: Work, since_s: Instant) -> Instant:
    """The next moment at which a surge begins or ends."""
    return min((edge for edge in work.surge[1:] if edge > since_s), default=math.inf)


def _rate(world: World, work: Work, at_s: Instant) -> float:
    """Requests per second, a surge that was asked for included."""
    factor, from_s, to_s = work.surge
    spec = work.desired.spec
    return spec.rate_per_s * factor if from_s <= at_s < to_s else rate_at(spec, at_s, world.seed)


def open_doors(world: World, work: Work) -> None:
    """The first replica is up. Nobody calls a service before that; from now on every request counts."""
    if work.started_s is None:
        work.started_s = world.now_s
    if work.counted_s is None and work.desired.spec.rate_per_s > 0:
        work.counted_s = world.now_s


def rate_at(spec: Workload, at_s: Instant, seed: int) -> float:
    """Requests per second: low before dawn, high in the afternoon and evening, quieter on weekends."""
    local_s = at_s + _USERS_UTC_OFFSET_S
    hour = local_s % DAY_S / HOUR_S
    day = 1.0 - 0.45 * math.cos(2 * math.pi * (hour - 3.5) / 24) + 0.15 * math.sin(4 * math.pi * (hour - 9.5) / 24)
    # Day 0 of the epoch was a Thursday.
    weekend = 0.75 if int(local_s // DAY_S) % 7 in (2, 3) else 1.05
    noise = 0.9 + 0.2 * chance.smooth(seed, at_s / HOUR_S, "rate", spec.name)
    return spec.rate_per_s * day * weekend * noise


def good_part(spec: Workload, rate_per_s: float, ready: int, speed: float) -> float:
    """The share of requests answered within the latency target (all that are answered, if there is none)."""
    if ready == 0:
        return 0.0
    speed = _speed(spec, speed)
    load = rate_per_s / _capacity(spec, ready, speed)
    if spec.slo.latency_p95_ms is None:
        return min(1.0, 1 / load) if load > 0 else 1.0
    if load >= 1:
        # The queue grows without end; only those that jump in while it is drained are in time.
        return _LUCKY / load
    response = _SERVICE_PART / speed * (1 + _queue(load, ready))
    return max(_LUCKY, 1 - math.exp(-1 / response))


def _speed(spec: Workload, speed: float) -> float:
    """A share is measured on the first class and given in full: a slower device gives more of itself."""
    return speed if spec.demand.whole else 1.0


def _capacity(spec: Workload, ready: int, speed: float) -> float:
    """Requests per second that `ready` replicas answer at most."""
    return spec.rate_per_s * _HEADROOM * _speed(spec, speed) * ready / max(1, spec.replicas.min)


def _queue(load: float, servers: int) -> float:
    """The mean wait, in service times (Sakasegawa 1977)."""
    return math.pow(load, math.sqrt(2 * (servers + 1)) - 1) / (servers * (1 - load))
