"""How much demand one replica carries within its promise, found by playing a fixed fleet at rising load.

Called by the benchmark and by `dure scale tune` before they scale: a replica of a service with long prompts carries
about half the nominal work of one with short prompts, and with a better router it carries more. So what a prompt
token and an output token weigh is found from three mixes of the same requests. Lengths are drawn from requests that
the service has already seen; arrivals are random. Cost: seven short runs for each mix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dure.scale.demand import WorkModel
from dure.sim.serving.service import Engine, Promise, Requests, Service

Floats = NDArray[np.float64]

REPLICAS = 12
LASTS_S = 900.0
SETTLES_S = 180.0
ALLOWED = 0.01
RANGE = (0.2, 1.6)
ROUNDS = 7
SEED = 20
# How many of a mix's requests are of the half with the longer prompts, for what they say.
MIXES = (0.25, 0.5, 0.75)
DRAWN = 20_000


def capacity(
    seen: Requests, engine: Engine, promise: Promise, router: str = "requests", order: str = "arrival"
) -> float:
    """The highest demand of a replica, in GPU-seconds per second, at which at most `ALLOWED` of requests miss."""
    low, high = RANGE
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        if _misses(seen, engine, promise, router, order, middle) <= ALLOWED:
            low = middle
        else:
            high = middle
    return low


def weights(
    seen: Requests, engine: Engine, promise: Promise, router: str = "requests", order: str = "arrival"
) -> WorkModel:
    """What tokens take of a replica, so that it carries a demand of one whatever the mix of requests.

    The inverse of the rate that a replica carries is linear in the mean tokens of a request; least squares over the
    mixes, no weight below zero. The fixed part of a request is the engine's.
    """
    rng = np.random.default_rng(SEED)
    tokens = np.stack([engine.prefill_s * seen.context, engine.decode_s * seen.output])
    halves = np.array_split(np.argsort(tokens[0] / tokens.sum(axis=0), kind="stable"), 2)
    means, rests = [], []
    for share in MIXES:
        drawn = np.where(rng.uniform(size=DRAWN) < share, rng.choice(halves[-1], DRAWN), rng.choice(halves[0], DRAWN))
        mix = Requests(np.zeros(DRAWN), seen.context[drawn], seen.output[drawn], seen.horizon_s)
        means.append(tokens[:, drawn].mean(axis=1))
        computed_s = means[-1].sum() + engine.request_s
        rests.append(computed_s / capacity(mix, engine, promise, router, order) - engine.request_s)
    prefill, decode = _parts(np.array(means), np.array(rests))
    return WorkModel(prefill * engine.prefill_s, decode * engine.decode_s, engine.request_s)


def early(requests: Requests, seconds: float) -> Requests:
    """What a service has seen after some time."""
    count = max(int(np.searchsorted(requests.arrival_s, seconds)), 1)
    parts = (requests.arrival_s[:count], requests.context[:count], requests.output[:count])
    return Requests(*parts, horizon_s=min(seconds, requests.horizon_s))


def _parts(means: Floats, rests: Floats) -> tuple[float, float]:
    """Least squares of two parts; where one would be negative, the other alone."""
    prefill, decode = (float(part) for part in np.linalg.lstsq(means, rests, rcond=None)[0])
    if min(prefill, decode) >= 0.0:
        return prefill, decode
    kept = 0 if decode < 0.0 else 1
    alone = float(means[:, kept] @ rests / (means[:, kept] @ means[:, kept]))
    return (alone, 0.0) if kept == 0 else (0.0, alone)


def _misses(seen: Requests, engine: Engine, promise: Promise, router: str, order: str, load: float) -> float:
    rng = np.random.default_rng(SEED)
    work = engine.prefill_s * seen.context + engine.decode_s * seen.output + engine.request_s
    rate = load * REPLICAS / float(work.mean())
    count = rng.poisson(rate * LASTS_S)
    arrival = np.sort(rng.uniform(0.0, LASTS_S, count))
    drawn = rng.integers(0, len(seen.context), count)
    stream = Requests(arrival, seen.context[drawn], seen.output[drawn], LASTS_S)
    mean_output = float(seen.output.mean())
    service = Service(stream, engine, promise, 0.0, router, order, limit=REPLICAS, mean_output=mean_output)
    service.start_with(REPLICAS)
    service.advance(SETTLES_S)
    service.count_from_now()
    while service.now_s < LASTS_S:
        service.advance(5.0)
    return service.outcome().miss_rate
