"""Three services and a pool of warm machines: the cells of `dure bench scale --scenarios shared-150`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dure.bench.result import Cell, Row
from dure.bench.scale_cells import ENGINE, MOST, PROMISE, BenchCell, parse
from dure.bench.streams import make_stream
from dure.scale.demand import WorkModel
from dure.scale.serving import ServingSettings
from dure.scale.warm import WarmPolicy, WarmSettings
from dure.sim.serving.frontier import hours_at, misses_at
from dure.sim.serving.profile import early, weights
from dure.sim.serving.scalers import DureScaler
from dure.sim.serving.service import Requests
from dure.sim.serving.shared import Together, play_apart, play_shared_machines

NAME = "shared"
ALONE, POOLED = "dure", "dure-warm-pool"
WARM_S = 20.0
SAFETIES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
AT_MISSES = 0.02


def shared_cells() -> list[BenchCell]:
    return [BenchCell(policy, "work", safety) for policy in (ALONE, POOLED) for safety in SAFETIES]


def play_shared(scenario: str, seed: int, hours: float | None, cell: BenchCell) -> dict[str, Cell]:
    """Two conversation services of other hours of the day and a code service.

    Alone each keeps the margin of its forecast over a whole boot; together they keep that of their common forecast,
    and machines change hands in the time of a warm start.
    """
    boot_s, streams = parse(scenario)[1], _streams(seed, hours)
    warm_up_s = min(3600.0, streams[0].horizon_s / 4)
    found = _played(cell, boot_s, streams, _works(seed, hours), warm_up_s)
    counted_h = (streams[0].horizon_s - warm_up_s) / 3600.0
    return {
        "miss_rate": found.miss_rate,
        "gpu_hours": found.gpu_hours,
        "requests": found.requests,
        "changes_per_hour": found.changes / counted_h,
    }


def _played(
    cell: BenchCell, boot_s: float, streams: Sequence[Requests], works: Sequence[WorkModel], warm_up_s: float
) -> Together:
    if cell.policy == POOLED:
        policy = WarmPolicy(WarmSettings(boot_s, WARM_S, cell.knob), works)
        return play_shared_machines(streams, policy, ENGINE, PROMISE, warm_up_s, MOST)
    settings = ServingSettings(boot_s, safety=cell.knob, max_replicas=MOST)
    scalers = [DureScaler(settings, work, 200.0) for work in works]
    return play_apart(streams, scalers, boot_s, ENGINE, PROMISE, warm_up_s, MOST)


def shared_summary(rows: list[Row]) -> dict[str, Any]:
    """Misses with and without the pool at the GPU-hours where two per cent are missed without it."""
    curves = {
        policy: [
            (float(row["gpu_hours"] or 0.0), float(row["miss_rate"] or 0.0))
            for row in rows
            if row["policy"] == policy
        ]
        for policy in (ALONE, POOLED)
    }
    hours = hours_at(curves[ALONE], AT_MISSES)
    if hours is None:
        return {"note": "two per cent of misses are not reached without the pool"}
    alone, pooled = (misses_at(curves[policy], hours) for policy in (ALONE, POOLED))
    return {"gpu_hours": hours, "alone": alone, "warm_pool": pooled, "warm_pool_to_alone": pooled / alone}


@lru_cache(maxsize=1)
def _streams(seed: int, hours: float | None) -> tuple[Requests, ...]:
    return (
        make_stream("conv", seed, hours),
        make_stream("code", seed, hours),
        make_stream("conv", seed + 1000, hours),
    )


@lru_cache(maxsize=1)
def _works(seed: int, hours: float | None) -> tuple[WorkModel, ...]:
    """What tokens take of a replica of each service, from its requests of the first half hour."""
    return tuple(weights(early(stream, 1800.0), ENGINE, PROMISE) for stream in _streams(seed, hours))
