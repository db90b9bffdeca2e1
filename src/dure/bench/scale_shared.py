"""Three services side by side: the cells of `dure bench scale --scenarios shared-150`.

Each on machines of its own, by a threshold or by Dure's policy, or all on machines that they share: with a start for
every change of hands, or with the engines of all of them asleep on every machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from dure.bench.result import Cell, Row
from dure.bench.scale_cells import ENGINE, MOST, PROMISE, BenchCell, parse, threshold
from dure.bench.streams import make_stream
from dure.scale.demand import WorkModel
from dure.scale.serving import ServingSettings
from dure.scale.warm import LOAD_S, WarmPolicy, WarmSettings, asleep
from dure.sim.serving.frontier import Point, envelope, hours_at, misses_at
from dure.sim.serving.profile import early, weights
from dure.sim.serving.scalers import DureScaler, Scaler
from dure.sim.serving.service import Requests
from dure.sim.serving.shared import Together, play_apart, play_shared_machines

NAME = "shared"
SERVICES = {"conv": 0, "code": 0, "conv-2": 1000}
ALONE, POOLED, ASLEEP = "dure", "dure-warm-pool", "dure-asleep-pool"
SHARED = {POOLED: "warm_pool", ASLEEP: "asleep_pool"}
WARM_S = 20.0
SAFETIES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
# The signals that ever were the best of one of these streams, and their thresholds around two per cent of misses.
THRESHOLDS = {"rate": (1.0, 1.25, 1.5, 1.75, 1.9, 2.05, 2.2), "utilization": (0.7, 0.8, 0.9)}
SIGNALS = {"rate": "keda", "utilization": "hpa"}
AT_MISSES = 0.02


def shared_cells(way: tuple[str, str]) -> list[BenchCell]:
    cells = [BenchCell(policy, "work", safety) for policy in (ALONE, *SHARED) for safety in SAFETIES]
    for signal, policy in SIGNALS.items():
        cells += [BenchCell(policy, signal, value) for value in THRESHOLDS[signal]]
    return [msgspec.structs.replace(cell, router=way[0], order=way[1]) for cell in cells]


def play_shared(scenario: str, seed: int, hours: float | None, cell: BenchCell) -> dict[str, Cell]:
    """Two conversation services of other hours of the day and a code service.

    Alone each keeps the margin of its forecast over a whole boot; together they keep that of their common forecast,
    and machines change hands in the time of a warm start, or of waking an engine. Of those alone the figures of each
    are given too, so that every service can have the threshold that suits it.
    """
    boot_s, streams = parse(scenario)[1], _streams(seed, hours)
    warm_up_s = min(3600.0, streams[0].horizon_s / 4)
    found = _played(cell, boot_s, streams, _works(seed, hours, cell.router, cell.order), warm_up_s)
    counted_h = (streams[0].horizon_s - warm_up_s) / 3600.0
    row: dict[str, Cell] = {
        "miss_rate": found.miss_rate,
        "gpu_hours": found.gpu_hours,
        "requests": found.requests,
        "changes_per_hour": found.changes / counted_h,
    }
    for name, outcome in zip(SERVICES, found.outcomes, strict=True):
        row[f"{name}_misses"] = outcome.misses
        row[f"{name}_gpu_hours"] = None if cell.policy in SHARED else outcome.gpu_hours
    return row


def _played(
    cell: BenchCell, boot_s: float, streams: Sequence[Requests], works: Sequence[WorkModel], warm_up_s: float
) -> Together:
    way = (cell.router, cell.order)
    if cell.policy in SHARED:
        started = WarmSettings(boot_s, WARM_S, cell.knob)
        how = started if cell.policy == POOLED else asleep(boot_s, cell.knob, loading_s=(len(streams) - 1) * LOAD_S)
        return play_shared_machines(streams, WarmPolicy(how, works), ENGINE, PROMISE, warm_up_s, MOST, way)
    settings = ServingSettings(boot_s, safety=cell.knob, max_replicas=MOST)
    scalers: list[Scaler] = [
        DureScaler(settings, work, 200.0) if cell.policy == ALONE else threshold(cell) for work in works
    ]
    return play_apart(streams, scalers, boot_s, ENGINE, PROMISE, warm_up_s, MOST, way)


def shared_summary(rows: list[Row]) -> dict[str, Any]:
    """Misses on shared machines at the GPU-hours where two per cent are missed without: by Dure's policy on machines
    of its own, and by the best threshold of each service."""
    curves = {
        policy: [
            (float(row["gpu_hours"] or 0.0), float(row["miss_rate"] or 0.0))
            for row in rows
            if row["policy"] == policy
        ]
        for policy in (ALONE, *SHARED)
    }
    rivals = _best_thresholds([row for row in rows if row["policy"] in SIGNALS.values()])
    return {
        "to_alone": _at_equal_hours(curves[ALONE], curves),
        "to_best_thresholds": _at_equal_hours(rivals, curves),
    }


def _best_thresholds(rows: list[Row]) -> list[Point]:
    """Every service with any of its thresholds that nothing beats there."""
    if not rows:
        return []
    curves = [
        envelope([(float(row[f"{name}_gpu_hours"] or 0.0), float(row[f"{name}_misses"] or 0.0)) for row in rows])
        for name in SERVICES
    ]
    requests = float(rows[0]["requests"] or 1.0)
    return [
        (sum(hours for hours, _ in chosen), sum(misses for _, misses in chosen) / requests)
        for chosen in itertools.product(*curves)
    ]


def _at_equal_hours(without: Sequence[Point], curves: dict[str, list[Point]]) -> dict[str, Any]:
    hours = hours_at(without, AT_MISSES)
    if hours is None:
        return {"note": "two per cent of misses are not reached without the pool"}
    found = misses_at(without, hours)
    told = {"gpu_hours": hours, "without": found, "alone": misses_at(curves[ALONE], hours)}
    for policy, name in SHARED.items():
        if curves[policy]:
            told[name] = misses_at(curves[policy], hours)
            told[f"{name}_to_without"] = told[name] / found
    return told


@lru_cache(maxsize=1)
def _streams(seed: int, hours: float | None) -> tuple[Requests, ...]:
    return tuple(make_stream(name.partition("-")[0], seed + apart, hours) for name, apart in SERVICES.items())


@lru_cache(maxsize=2)
def _works(seed: int, hours: float | None, router: str, order: str) -> tuple[WorkModel, ...]:
    """What tokens take of a replica of each service behind that router, from its requests of the first half hour."""
    seen = [early(stream, 1800.0) for stream in _streams(seed, hours)]
    return tuple(weights(one, ENGINE, PROMISE, router, order) for one in seen)
