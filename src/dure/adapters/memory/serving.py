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
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds
from dure.model.workload import Workload

_STEP_S = 300.0
# What the smallest number of replicas carries on the first accepted class, in multiples of the mean rate.
_HEADROOM = 2.6
# The mean service time is this part of the latency target.
_SERVICE_PART = 1 / 6
# However long the queue, this part of the requests is in time just before it grows without end.
_LUCKY = 0.1
# Who has waited for so many times the latency target hangs up, which is an answer too late; and if none is promised.
_PATIENCE = 10
_NO_PROMISE_MS = 1000.0
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
        # Nobody is answered before it has come.
        waiting = min(
            queue_after(spec, work.waiting, rate, ready, work.speed, until_s - since_s), work.waiting + asked
        )
        answered, work.waiting = asked + work.waiting - waiting, waiting
        work.requests += answered
        work.requests_good += answered * good_part(spec, rate, ready, work.speed)
        since_s = until_s
    work.counted_s = world.now_s


def pulse(world: World, work: Work, catalogue: Catalogue) -> Pulse | None:
    """What the engines of a language-model service would show; None for any other. Counters are those of `count`."""
    spec = work.desired.spec
    model = catalogue.models.get(spec.model)
    if model is None or model.output_tokens <= 0.0 or work.counted_s is None:
        return None
    ready = sum(world.pods[name].phase is PodPhase.RUNNING for name in work.pods)
    speed = _given(spec, work.speed)
    rate, capacity = _rate(world, work, world.now_s), _capacity(spec, ready, speed)
    asked, answered = int(work.requests + work.waiting), int(work.requests)
    return Pulse(
        at_s=world.now_s,
        asked=asked,
        prompt_tokens=int(asked * model.prompt_tokens),
        answered=answered,
        output_tokens=int(answered * model.output_tokens),
        waiting=int(work.waiting),
        running=int(min(rate, capacity) * _SERVICE_PART * _promise_s(spec) / speed),
        cache=min(rate / capacity, 1.0) if capacity > 0.0 else 1.0,
    )


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
    speed = _given(spec, speed)
    load = rate_per_s / _capacity(spec, ready, speed)
    if spec.slo.latency_p95_ms is None:
        return min(1.0, 1 / load) if load > 0 else 1.0
    if load >= 1:
        # The queue grows without end; only those that jump in while it is drained are in time.
        return _LUCKY / load
    response = _SERVICE_PART / speed * (1 + _wait(load, ready))
    return max(_LUCKY, 1 - math.exp(-1 / response))


def queue_after(
    spec: Workload, waiting: float, rate_per_s: float, ready: int, speed: float, lasts_s: Seconds
) -> float:
    """How many wait after `lasts_s` of this rate: the rest that replicas cannot answer, as long as people stay."""
    speed = _given(spec, speed)
    capacity = _capacity(spec, ready, speed)
    most = rate_per_s * _PATIENCE * _promise_s(spec)
    grown = max(0.0, waiting + (rate_per_s - capacity) * lasts_s)
    if rate_per_s >= capacity:
        return min(grown, most)
    usual = rate_per_s * _SERVICE_PART * _promise_s(spec) / speed * _wait(rate_per_s / capacity, ready)
    return min(max(grown, usual), most)


def _promise_s(spec: Workload) -> Seconds:
    return (spec.slo.latency_p95_ms or _NO_PROMISE_MS) / 1000.0


def _given(spec: Workload, speed: float) -> float:
    """A share is measured on the first class and given in full: a slower device gives more of itself."""
    return speed if spec.demand.whole else 1.0


def _capacity(spec: Workload, ready: int, speed: float) -> float:
    """Requests per second that `ready` replicas answer at most."""
    return spec.rate_per_s * _HEADROOM * speed * ready / max(1, spec.replicas.min)


def _wait(load: float, ready: int) -> float:
    """The mean wait below a load of 1, in service times (Sakasegawa 1977)."""
    return math.pow(load, math.sqrt(2 * (ready + 1)) - 1) / (ready * (1 - load))
