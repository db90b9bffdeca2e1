"""Three services and a pool of warm machines: the cells of `dure bench scale --scenarios shared-150`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dure.bench.result import Cell, Row
from dure.bench.scale_cells import ENGINE, MOST, PROMISE, BenchCell, parse
from dure.bench.streams import make_stream
from dure.scale.serving import ServingSettings
from dure.sim.serving.frontier import hours_at, misses_at
from dure.sim.serving.scalers import DureScaler
from dure.sim.serving.service import Requests
from dure.sim.serving.shared import WarmPool, play_together

NAME = "shared"
ALONE, POOLED = "dure", "dure-warm-pool"
MACHINES = 12
WARM_S = 20.0
LOADS = (0.8, 0.95, 1.1, 1.2, 1.3, 1.45)
# Of the load that a conversation service carries within its promise, a code service carries about half.
CODE_PART = 0.5
AT_MISSES = 0.02


def shared_cells() -> list[BenchCell]:
    return [BenchCell(policy, "work", load) for policy in (ALONE, POOLED) for load in LOADS]


def play_shared(scenario: str, seed: int, hours: float | None, cell: BenchCell) -> dict[str, Cell]:
    """Two conversation services of other hours of the day and a code service."""
    boot_s = parse(scenario)[1]
    streams = _streams(seed, hours)
    pool = WarmPool(MACHINES, boot_s, WARM_S) if cell.policy == POOLED else None
    horizon_s = WARM_S if pool else boot_s
    loads = (cell.knob, cell.knob * CODE_PART, cell.knob)
    scalers = [DureScaler(ServingSettings(horizon_s, load=load, max_replicas=MOST), ENGINE, 200.0) for load in loads]
    warm_up_s = min(3600.0, streams[0].horizon_s / 4)
    found = play_together(streams, scalers, boot_s, ENGINE, PROMISE, pool, warm_up_s, MOST)
    counted_h = (streams[0].horizon_s - warm_up_s) / 3600.0
    return {
        "miss_rate": found.miss_rate,
        "gpu_hours": found.gpu_hours,
        "requests": found.requests,
        "changes_per_hour": found.changes / counted_h,
    }


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
