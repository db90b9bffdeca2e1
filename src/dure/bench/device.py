"""`dure bench device`: three real ONNX models in one daemon, squads against naive threads and against strict turns.

Closed-loop clients, one for each model, the same requests under each way of running; every output is compared bit by
bit with a run of the whole model alone. Ratios are within one run of this machine. Models differ in length, so the
slowest requests of all are those of the longest model; `p99_over_promise` counts each request against what its own
model was promised. Needs the `device` extra.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from dure.bench.result import Result, bench_options, emit
from dure.device.config import DeviceConfig, TenantConfig
from dure.files.params import FiniteRange
from dure.share.policies import POLICIES

MODES = ("squads", "threads", "turns")
PATIENCE_S = 120.0
FIELDS = ("mean_ms", "p99_ms", "p99_over_promise", "requests_per_s")


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
    help="Latency promised to every model, in times alone on one thread.",
)
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="slack-guarded", show_default=True)
@bench_options
def command(requests: int, rounds: int, promise: float, policy: str, as_json: bool, report: Path | None) -> None:
    """Run three ONNX models in one daemon, in squads, in naive threads and in strict turns.

    \b
    Example:
      dure bench device --requests 100 --promise 1.5 --json
    """
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder:
        tenants, inputs, expected = _prepare(Path(folder), promise)
        rows = [
            _measure(mode, number, DeviceConfig(tenants, policy=policy, admission=False), inputs, expected, requests)
            for number in range(rounds)
            for mode in MODES
        ]
    emit(Result("device", rows, summarise(rows)), as_json=as_json, report=report, figures=_figures(rows))


def _prepare(folder: Path, promise: float) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    import onnx

    from dure.adapters.onnx.models import KINDS, sample_input, write_model
    from dure.adapters.onnx.runner import Runner, whole_model
    from dure.share.promise import Promise

    tenants, inputs, expected = [], {}, {}
    for kind in KINDS:
        path = write_model(kind, folder / f"{kind}.onnx")
        inputs[kind] = sample_input(onnx.load(str(path)))
        expected[kind] = whole_model(path, inputs[kind])
        alone_ms = sum(Runner(path, 1).profile(1))
        tenants.append(TenantConfig(kind, str(path), promise=Promise(latency_ms=promise * alone_ms)))
    return tuple(tenants), inputs, expected


def _measure(
    mode: str, number: int, config: DeviceConfig, inputs: dict[str, Any], expected: dict[str, Any], requests: int
) -> dict[str, Any]:
    from dure.device.executor import Executor

    click.echo(f"device: {mode}, round {number + 1}", err=True)
    executor = Executor(config, mode)  # type: ignore[arg-type]
    try:
        _until_ready(executor)
        latencies: dict[str, list[float]] = {name: [] for name in inputs}
        equal: list[bool] = []
        clients = [
            threading.Thread(
                target=_client,
                args=(executor, name, inputs[name], expected[name], requests, latencies[name], equal),
            )
            for name in inputs
        ]
        began = time.perf_counter()
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        took = time.perf_counter() - began
        idle_ms = sum((b.end_ms - b.start_ms) * b.share for b in executor.record.timeline(0.0)[1])
    finally:
        executor.close()
    everything = np.array([ms for values in latencies.values() for ms in values])
    promised = {tenant.name: tenant.promise.latency_ms or np.inf for tenant in config.tenants}
    over = [ms / promised[name] for name, values in latencies.items() for ms in values]
    return {
        "policy": mode,
        "input": "+".join(inputs),
        "seed": number,
        "mean_ms": round(float(everything.mean()), 4),
        "p99_ms": round(float(np.quantile(everything, 0.99)), 4),
        "p99_over_promise": round(float(np.quantile(over, 0.99)), 4),
        "late": round(float(np.mean(np.array(over) > 1.0)), 4),
        "requests_per_s": round(len(everything) / took, 2),
        "idle_while_runnable": round(idle_ms / (1000.0 * took), 4),
        "outputs_equal": len(equal) == requests * len(inputs) and all(equal),
        "scheduler_us_per_segment": round(1000.0 * executor.overhead_ms / max(executor.dispatched, 1), 3),
    }


def _client(
    executor: Any, name: str, given: Any, expected: Any, requests: int, latencies: list[float], equal: list[bool]
) -> None:
    for _ in range(requests):
        began = time.perf_counter()
        outputs = executor.submit(name, given).result(PATIENCE_S)
        latencies.append((time.perf_counter() - began) * 1000.0)
        equal.append(all(outputs[key].tobytes() == expected[key].tobytes() for key in expected))


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
    summary["outputs_equal"] = all(row["outputs_equal"] for row in rows)
    summary["scheduler_us_per_segment"] = round(mean["squads", "scheduler_us_per_segment"], 3)
    return summary


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
