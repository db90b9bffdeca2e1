"""`dure bench device`: three real ONNX models in one daemon, squads against naive threads and against strict turns.

One client for each model, the same requests under each way of running; every output is compared bit by bit with a
run of the whole model alone. Ratios are within one run of this machine. Models differ in length, so the slowest
requests of all are those of the longest model; `p99_over_promise` counts each request against what its own model was
promised, and `tenants` has each model's own figures. Small models are asked for without a pause; of the large ones
two have short requests, pauses and tight promises beside a third that is never idle. Needs the `device` extra.
"""

from __future__ import annotations

import tempfile
import threading
import time
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from dure.bench.result import Result, bench_options, emit
from dure.device.config import DeviceConfig, TenantConfig
from dure.files.params import FiniteRange
from dure.share.policies import POLICIES

MODES = ("squads", "threads", "turns")
PATIENCE_S = 120.0
FIELDS = ("mean_ms", "p99_ms", "p99_over_promise", "requests_per_s")
OWN = ("late", "p99_over_promise", "requests_per_s")


class Load(NamedTuple):
    """A model's shape; its promise in times of the tightest one's; its client's pause after an answer, in times of a
    request alone. One that fills asks until the others are done."""

    shape: dict[str, int]
    promise: float = 1.0
    pause: float = 0.0
    fills: bool = False


SIZES: dict[str, dict[str, Load]] = {
    "small": {"convolution": Load({}), "transformer": Load({}), "recommender": Load({})},
    "large": {
        "transformer": Load({"layers": 6, "width": 160, "length": 96}, pause=3.0),
        "recommender": Load({"layers": 10, "width": 768}, promise=2.0, pause=3.0),
        "convolution": Load({"blocks": 8, "channels": 40, "side": 48}, promise=6.0, fills=True),
    },
}


class Tenants(NamedTuple):
    """What is run: the same under each way. `pauses_s` are those of each client, request by request."""

    configs: tuple[TenantConfig, ...]
    inputs: dict[str, Any]
    expected: dict[str, Any]
    pauses_s: dict[str, list[float]]
    fills: frozenset[str]


@click.command()
@click.option("--requests", type=click.IntRange(1), default=60, show_default=True, help="Requests of each client.")
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Times each way is run, in turn."
)
@click.option(
    "--promise",
    type=FiniteRange(1.0),
    default=3.0,
    show_default=True,
    help="Latency promised to every model, in times alone on one thread; looser for some of the large ones.",
)
@click.option(
    "--size",
    type=click.Choice(sorted(SIZES)),
    default="small",
    show_default=True,
    help="Three small models that are always busy, or short requests with pauses beside long ones.",
)
@click.option("--one-row", is_flag=True, help="Squads without their second row: whoever has no thread waits.")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="slack-guarded", show_default=True)
@bench_options
def command(
    requests: int,
    rounds: int,
    promise: float,
    size: str,
    one_row: bool,
    policy: str,
    as_json: bool,
    report: Path | None,
) -> None:
    """Run three ONNX models in one daemon, in squads, in naive threads and in strict turns.

    \b
    Example:
      dure bench device --requests 100 --promise 1.5 --json
      dure bench device --size large --requests 200 --json
    """
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder:
        tenants = _prepare(Path(folder), SIZES[size], promise, requests)
        config = DeviceConfig(tenants.configs, policy=policy, admission=False, second_row=not one_row)
        rows = [_measure(mode, number, config, tenants) for number in range(rounds) for mode in MODES]
    emit(Result("device", rows, summarise(rows)), as_json=as_json, report=report, figures=_figures(rows))


def _prepare(folder: Path, loads: dict[str, Load], promise: float, requests: int) -> Tenants:
    import onnx

    from dure.adapters.onnx.models import sample_input, write_model
    from dure.adapters.onnx.runner import Runner, whole_model
    from dure.share.promise import Promise

    rng = np.random.default_rng(0)
    configs, inputs, expected, pauses_s = [], {}, {}, {}
    for kind, load in loads.items():
        path = write_model(kind, folder / f"{kind}.onnx", **load.shape)
        inputs[kind] = sample_input(onnx.load(str(path)))
        expected[kind] = whole_model(path, inputs[kind])
        alone_ms = sum(Runner(path, 1).profile(1))
        limit = Promise(latency_ms=promise * load.promise * alone_ms)
        configs.append(TenantConfig(kind, str(path), promise=limit, batch=load.fills))
        pauses_s[kind] = (rng.exponential(1.0, requests) * load.pause * alone_ms / 1000.0).tolist()
    fills = frozenset(kind for kind, load in loads.items() if load.fills)
    return Tenants(tuple(configs), inputs, expected, pauses_s, fills)


def _measure(mode: str, number: int, config: DeviceConfig, tenants: Tenants) -> dict[str, Any]:
    from dure.device.executor import Executor

    click.echo(f"device: {mode}, round {number + 1}", err=True)
    executor = Executor(config, mode)  # type: ignore[arg-type]
    try:
        _until_ready(executor)
        latencies, equal, took = _driven(executor, tenants)
        idle_ms = sum((b.end_ms - b.start_ms) * b.share for b in executor.record.timeline(0.0)[1])
    finally:
        executor.close()
    everything = np.array([ms for values in latencies.values() for ms in values])
    promised = {tenant.name: tenant.promise.latency_ms or np.inf for tenant in config.tenants}
    over = {name: np.array(values) / promised[name] for name, values in latencies.items()}
    together = np.concatenate(list(over.values()))
    row: dict[str, Any] = {
        "policy": mode,
        "input": "+".join(tenants.inputs),
        "seed": number,
        "mean_ms": round(float(everything.mean()), 4),
        "p99_ms": round(float(np.quantile(everything, 0.99)), 4),
        "p99_over_promise": round(float(np.quantile(together, 0.99)), 4),
        "late": round(float(np.mean(together > 1.0)), 4),
        "requests_per_s": round(len(everything) / took, 2),
        "idle_while_runnable": round(idle_ms / (1000.0 * took), 4),
        "outputs_equal": len(equal) == len(everything) and all(equal),
        "scheduler_us_per_segment": round(1000.0 * executor.overhead_ms / max(executor.dispatched, 1), 3),
    }
    for name, parts in over.items():
        row[f"{name} late"] = round(float(np.mean(parts > 1.0)), 4)
        row[f"{name} p99_over_promise"] = round(float(np.quantile(parts, 0.99)), 4)
        row[f"{name} requests_per_s"] = round(len(parts) / took, 2)
    return row


def _driven(executor: Any, tenants: Tenants) -> tuple[dict[str, list[float]], list[bool], float]:
    """All clients until those that do not fill have had their requests; latencies, whether outputs equal, seconds."""
    latencies: dict[str, list[float]] = {name: [] for name in tenants.inputs}
    equal: list[bool] = []
    over = threading.Event()
    clients = {
        name: threading.Thread(target=_client, args=(executor, name, tenants, latencies[name], equal, over))
        for name in tenants.inputs
    }
    began = time.perf_counter()
    for client in clients.values():
        client.start()
    for name in sorted(clients, key=lambda name: name in tenants.fills):
        if name in tenants.fills:
            over.set()
        clients[name].join()
    return latencies, equal, time.perf_counter() - began


def _client(
    executor: Any, name: str, tenants: Tenants, latencies: list[float], equal: list[bool], over: threading.Event
) -> None:
    given, expected = tenants.inputs[name], tenants.expected[name]
    pauses = repeat(0.0) if name in tenants.fills else tenants.pauses_s[name]
    for pause_s in pauses:
        began = time.perf_counter()
        outputs = executor.submit(name, given).result(PATIENCE_S)
        latencies.append((time.perf_counter() - began) * 1000.0)
        equal.append(all(outputs[key].tobytes() == expected[key].tobytes() for key in expected))
        if over.is_set():
            return
        if pause_s > 0.0:
            time.sleep(pause_s)


def _until_ready(executor: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not executor.ready() and time.monotonic() < until:
        time.sleep(0.02)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Squads over each opponent, medians over rounds: below one is better for latency, above for throughput."""
    mean = {
        (mode, field): float(np.median([row[field] for row in rows if row["policy"] == mode]))
        for mode in MODES
        for field in (*FIELDS, "late", "idle_while_runnable", "scheduler_us_per_segment")
    }
    summary: dict[str, Any] = {
        f"{field}_vs_{mode}": round(mean["squads", field] / mean[mode, field], 4)
        for mode in MODES[1:]
        for field in FIELDS
    }
    summary["late_pct"] = {mode: round(100.0 * mean[mode, "late"], 2) for mode in MODES}
    summary["idle_while_runnable_pct"] = round(100.0 * mean["squads", "idle_while_runnable"], 2)
    summary["tenants"] = [_own(rows, mode, name) for name in _names(rows) for mode in MODES]
    summary["outputs_equal"] = all(row["outputs_equal"] for row in rows)
    summary["scheduler_us_per_segment"] = round(mean["squads", "scheduler_us_per_segment"], 3)
    return summary


def _names(rows: list[dict[str, Any]]) -> list[str]:
    return [key.removesuffix(" late") for key in rows[0] if key.endswith(" late")]


def _own(rows: list[dict[str, Any]], mode: str, name: str) -> dict[str, Any]:
    """One model's figures under one way: medians over rounds."""
    own = [row for row in rows if row["policy"] == mode]
    return {"tenant": name, "policy": mode} | {
        field: round(float(np.median([row[f"{name} {field}"] for row in own])), 4) for field in OWN
    }


def _figures(rows: list[dict[str, Any]]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure(
        [
            go.Bar(
                name=field, x=list(MODES), y=[np.mean([r[field] for r in rows if r["policy"] == m]) for m in MODES]
            )
            for field in ("mean_ms", "p99_ms")
        ]
    )
    figure.update_layout(title="Latency of three models in one daemon", yaxis_title="ms", barmode="group")
    return [figure]
