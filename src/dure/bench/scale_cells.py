"""The cells of the scaling benchmark: which policy on which signal with which threshold, and how one is played."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dure.bench.result import Cell
from dure.bench.streams import make_stream
from dure.model.errors import InvalidInput
from dure.scale.demand import WorkModel
from dure.scale.presets import PRESETS
from dure.scale.serving import ServingSettings
from dure.sim.serving.profile import early, weights
from dure.sim.serving.run import play
from dure.sim.serving.scalers import DureScaler, HpaScaler, KedaScaler, OracleScaler, Scaler
from dure.sim.serving.service import Engine, Promise, Requests

ENGINE = Engine()
PROMISE = Promise()
MOST = 96
# Router and order of everybody: a plain balancer, or what `dure front` does.
PLAIN, FRONT = ("requests", "arrival"), ("tokens", "fewest-late")

THRESHOLDS: dict[str, tuple[float, ...]] = {
    "utilization": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    "cache": (0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
    "inflight": (2.0, 4.0, 8.0, 12.0, 16.0, 24.0),
    "rate": (0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 1.75, 1.9, 2.05, 2.2),
    "waiting": (1.0, 4.0),
}
KEDA_SIGNALS = ("inflight", "rate", "waiting")
# Standard errors of the forecast that Dure provides for; without a forecast, parts of what a replica carries.
SAFETIES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0)
PARTS = (0.7, 0.85, 1.0)
ORACLE_LOADS = (0.4, 0.55, 0.7, 0.85, 1.0, 1.15)


class BenchCell(msgspec.Struct, frozen=True):
    """One run: `knob` is the threshold, the oracle's load of a replica, or how careful Dure is."""

    policy: str
    signal: str
    knob: float
    router: str = "requests"
    order: str = "arrival"

    def labels(self) -> dict[str, Cell]:
        return {
            "policy": self.policy,
            "signal": self.signal,
            "knob": self.knob,
            "router": self.router,
            "order": self.order,
        }


def cells_of(scenario: str, quick: bool, way: tuple[str, str] = PLAIN) -> list[BenchCell]:
    """All runs of the main table of a scenario; everybody's requests go the same `way`."""
    every = 2 if quick else 1
    parse(scenario)
    cells = [BenchCell("oracle", "future", load) for load in ORACLE_LOADS[::every]]
    for signal, thresholds in THRESHOLDS.items():
        policy = "keda" if signal in KEDA_SIGNALS else "hpa"
        cells += [BenchCell(policy, signal, threshold) for threshold in thresholds[::every]]
    if not quick:
        cells += [BenchCell("preset", name, preset.up_at / 100.0) for name, preset in PRESETS.items()]
        cells += [BenchCell("dure-no-forecast", "work", part) for part in PARTS]
    cells += [BenchCell("dure", "work", safety) for safety in SAFETIES[::every]]
    return [msgspec.structs.replace(cell, router=way[0], order=way[1]) for cell in cells]


# A threshold near two per cent of misses: it asks for the same replicas whatever the router, so only that differs.
ORDERS_AT = {"conv-150": 2.05, "code-150": 1.9}
WAYS = [(router, order) for router in ("requests", "tokens") for order in ("arrival", "deadline", "fewest-late")]


def orders_of(scenario: str, quick: bool) -> list[BenchCell]:
    """The runs of the second table: what router and order are worth."""
    if quick or scenario not in ORDERS_AT:
        return []
    return [BenchCell("keda", "rate", ORDERS_AT[scenario], *way) for way in WAYS if way != PLAIN]


def play_cell(scenario: str, seed: int, hours: float | None, cell: BenchCell) -> dict[str, Cell]:
    """Run one cell; the figures of its row."""
    trace, boot_s = parse(scenario)
    requests = _stream(trace, seed, hours)
    warm_up_s = min(3600.0, requests.horizon_s / 4)
    work = measured(trace, seed, hours, cell.router, cell.order) if cell.policy.startswith("dure") else WorkModel()
    scaler = _scaler(cell, requests, boot_s, work)
    outcome = play(requests, scaler, boot_s, ENGINE, PROMISE, cell.router, cell.order, warm_up_s, MOST)
    counted_h = (requests.horizon_s - warm_up_s) / 3600.0
    return {
        "miss_rate": outcome.miss_rate,
        "gpu_hours": outcome.gpu_hours,
        "ttft_miss_rate": outcome.ttft_misses / max(outcome.requests, 1),
        "tpot_miss_rate": outcome.tpot_misses / max(outcome.requests, 1),
        "requests": outcome.requests,
        "changes_per_hour": outcome.changes / counted_h,
        "flaps_per_hour": outcome.reversals / counted_h,
    }


def parse(scenario: str) -> tuple[str, float]:
    """`conv-150` as (conv, 150.0)."""
    trace, dash, boot = scenario.rpartition("-")
    if not dash or not boot.isdigit():
        raise InvalidInput(f"'{scenario}' is no scenario", remedy="Write TRACE-BOOTSECONDS, for example conv-150.")
    return trace, float(boot)


@lru_cache(maxsize=2)
def _stream(trace: str, seed: int, hours: float | None) -> Requests:
    return make_stream(trace, seed, hours)


def _scaler(cell: BenchCell, requests: Requests, boot_s: float, work: WorkModel) -> Scaler:
    match cell.policy:
        case "oracle":
            return OracleScaler(requests, ENGINE, boot_s, cell.knob)
        case "hpa" | "keda":
            return threshold(cell)
        case "preset":
            preset = PRESETS[cell.signal]
            return HpaScaler("utilization", cell.knob, MOST, preset.window_s, preset.down_at / 100.0)
        case "dure":
            settings = ServingSettings(boot_s, safety=cell.knob, max_replicas=MOST)
            return DureScaler(settings, work, 200.0)
        case _:
            settings = ServingSettings(boot_s, load=cell.knob, max_replicas=MOST, forecast=False)
            return DureScaler(settings, work, 200.0)


def threshold(cell: BenchCell) -> Scaler:
    """HPA or KEDA on one signal."""
    return (HpaScaler if cell.policy == "hpa" else KedaScaler)(cell.signal, cell.knob, MOST)


@lru_cache(maxsize=8)
def measured(trace: str, seed: int, hours: float | None, router: str, order: str) -> WorkModel:
    """What tokens take of a replica behind that router, judged by the warm-up's requests alone."""
    requests = _stream(trace, seed, hours)
    return weights(early(requests, min(3600.0, requests.horizon_s / 4)), ENGINE, PROMISE, router, order)
