"""Plays one scaler on one request stream and counts what it missed and what it cost.

Called by the benchmark and by `dure scale tune`. The first part of a run only warms up: it is played by the same
scaler but neither its misses nor its GPU-hours count, for anybody.
"""

from __future__ import annotations

import math

import numpy as np

from dure.sim.serving.scalers import Scaler
from dure.sim.serving.service import Engine, Outcome, Promise, Requests, Service

STEP_S = 5.0


def play(
    requests: Requests,
    scaler: Scaler,
    boot_s: float,
    engine: Engine,
    promise: Promise,
    router: str = "requests",
    order: str = "arrival",
    warm_up_s: float = 3600.0,
    most: int = 96,
) -> Outcome:
    """One whole run. Deterministic."""
    mean_output = float(requests.output.mean())
    service = Service(requests, engine, promise, boot_s, router, order, limit=most, mean_output=mean_output)
    service.start_with(first_replicas(requests, engine, most))
    while service.now_s < requests.horizon_s:
        if service.now_s <= warm_up_s:
            service.count_from_now()
        service.resize(scaler.decide(service.advance(STEP_S)))
    return service.outcome()


def first_replicas(requests: Requests, engine: Engine, most: int) -> int:
    """Enough replicas for the first ten minutes, so that nobody starts in the red."""
    early = requests.arrival_s < 600.0
    if not np.any(early):
        return 1
    work = engine.prefill_s * requests.context[early] + engine.decode_s * requests.output[early] + engine.request_s
    return max(1, min(most, math.ceil(float(work.sum()) / 600.0 * 1.5)))
