"""How much demand one replica carries within its promise, found by playing a fixed fleet at rising load.

Called by the benchmark and by `dure scale tune` before they scale: a replica of a service with long prompts carries
about half the nominal work of one with short prompts, and with a better router it carries more. Lengths are drawn
from requests that the service has already seen; arrivals are random. Cost: eight short runs.
"""

from __future__ import annotations

import numpy as np

from dure.sim.serving.service import Engine, Promise, Requests, Service

REPLICAS = 12
LASTS_S = 900.0
SETTLES_S = 180.0
ALLOWED = 0.01
RANGE = (0.2, 1.6)
ROUNDS = 7
SEED = 20


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


def early(requests: Requests, seconds: float) -> Requests:
    """What a service has seen after some time."""
    count = max(int(np.searchsorted(requests.arrival_s, seconds)), 1)
    parts = (requests.arrival_s[:count], requests.context[:count], requests.output[:count])
    return Requests(*parts, horizon_s=min(seconds, requests.horizon_s))


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
