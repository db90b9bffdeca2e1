"""`dure bench share`: one shared GPU, simulated kernel by kernel, under every published system and our policies.

Five models x three loads with two tenants (even, uneven and QoS targets), four and eight tenants at uneven
quotas, mixed load for equation 2, and the same under extra co-run slowdown and a slow host. The summary compares
our best policy with the better reading of BLESS in every cell: as an order of kernels, and (`... squads`) with the
squads that live devices run, formed by the same function. Needs no data; the validation tests compare with published
figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from dure.bench.result import Result, bench_options, emit
from dure.sim.gpu.device import A100
from dure.sim.gpu.experiments import GRID, LOADS, MULTI, Cell, crowd, mixed, pair, think_times
from dure.sim.gpu.profile import A100_APPS, synthesise
from dure.sim.gpu.run import FORMED, SYSTEMS, System, Tenant, play

BEST = "slack-guarded"
LIVE = BEST + FORMED
READINGS = ("BLESS-L", "BLESS-R")
ALL_READINGS = (*READINGS, "BLESS-Q")
OPPONENTS = ("TEMPORAL", "MIG", "GSLICE", "UNBOUND", "REEF+")
PUBLISHED = {"TEMPORAL": 37.3, "MIG": 34.2, "GSLICE": 21.1, "UNBOUND": 16.5, "REEF+": 13.5}
"""Mean reduction by BLESS in its publication, per cent."""
QUOTAS = {"1/2": (1 / 2, 1 / 2), "1/3": (1 / 3, 2 / 3), "4/9": (4 / 9, 5 / 9)}
QOS = {"B": (1.2, 2.0), "A": (1.5, 3.0)}
STRESS = {"": (0.0, 0.0067), "slowdown+0.1": (0.1, 0.0067), "host 20us": (0.0, 0.020)}

Job = tuple[str, Callable[[], dict[str, Any]]]


@click.command()
@click.option("--seeds", type=click.IntRange(1, 64), default=2, show_default=True, help="Runs of every cell.")
@click.option("--quick", is_flag=True, help="Two-tenant grid at even quotas and many tenants only.")
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(seeds: int, quick: bool, resume: Path | None, as_json: bool, report: Path | None) -> None:
    """Compare our sharing policies with every published system on a simulated A100.

    \b
    Example:
      dure bench share --seeds 4 --json
    """
    rows = run(_jobs(seeds, quick), resume)
    summary = summarise(rows) | speed()
    emit(Result("share", rows, summary), as_json=as_json, report=report, figures=_figures(rows))


def run(jobs: Iterable[Job], resume: Path | None) -> list[dict[str, Any]]:
    """Measure every cell, or take it from the resume file."""
    done: dict[str, dict[str, Any]] = {}
    if resume is not None and resume.is_file():
        done = {entry["key"]: entry["row"] for entry in map(json.loads, resume.read_text().splitlines())}
    rows = []
    last = ""
    for key, measure in jobs:
        if key not in done:
            done[key] = measure()
            if resume is not None:
                with resume.open("a") as text:
                    text.write(json.dumps({"key": key, "row": done[key]}) + "\n")
        rows.append(done[key])
        if done[key]["policy"] != last:
            last = done[key]["policy"]
            click.echo(f"share: {done[key]['experiment']} {last}", err=True)
    return rows


def _jobs(seeds: int, quick: bool) -> Iterator[Job]:
    names = list(SYSTEMS)[1:]
    for quota in ("1/2",) if quick else QUOTAS:
        for name in names:
            yield from _grid(name, quota, seeds)
    for name in names:
        yield from _crowds(name, "")
    if quick:
        return
    for name in names:
        yield from _qos(name, seeds)
    for stress in list(STRESS)[1:]:
        for name in (*READINGS, BEST, LIVE, "hybrid"):
            yield from _stressed(name, stress, seeds)
            yield from _crowds(name, stress)
    for name in ("jct", "slo", "hybrid", "hybrid" + FORMED, BEST, LIVE, *READINGS):
        for seed in range(2 * seeds):
            yield f"mixed/{name}/{seed}", lambda n=name, s=seed: _mixed(n, s)  # type: ignore[misc]


def _grid(name: str, quota: str, seeds: int) -> Iterator[Job]:
    for app in GRID:
        for load in LOADS:
            for seed in range(seeds):
                yield (
                    f"pair/{name}/{app}/{load}/{quota}/{seed}",
                    lambda a=app, w=load, s=seed: _row(  # type: ignore[misc]
                        "pair", name, f"{a}/{w}/{quota}", s,
                        pair(A100_APPS[a], w, SYSTEMS[name], s, quotas=QUOTAS[quota]),
                    ),
                )  # fmt: skip


def _qos(name: str, seeds: int) -> Iterator[Job]:
    for app in GRID:
        for load, targets in QOS.items():
            for seed in range(seeds):
                yield (
                    f"qos/{name}/{app}/{load}/{seed}",
                    lambda a=app, w=load, s=seed, t=targets: _row(  # type: ignore[misc]
                        "qos", name, f"{a}/{w}", s, pair(A100_APPS[a], w, SYSTEMS[name], s, targets=t)
                    ),
                )


def _stressed(name: str, stress: str, seeds: int) -> Iterator[Job]:
    extra, host_ms = STRESS[stress]
    system = msgspec.structs.replace(SYSTEMS[name], host_ms=host_ms)
    for app in GRID:
        for load in LOADS:
            for seed in range(seeds):
                yield (
                    f"pair {stress}/{name}/{app}/{load}/{seed}",
                    lambda a=app, w=load, s=seed: _row(  # type: ignore[misc]
                        f"pair {stress}",
                        name,
                        f"{a}/{w}/1/2",
                        s,
                        pair(A100_APPS[a], w, system, s, extra_slowdown=extra),
                    ),
                )


def _crowds(name: str, stress: str) -> Iterator[Job]:
    extra, host_ms = STRESS[stress]
    system: System = SYSTEMS[name] if not stress else msgspec.structs.replace(SYSTEMS[name], host_ms=host_ms)
    label = f"crowd {stress}".strip()
    for mix in MULTI:
        yield (
            f"{label}/{name}/{mix}",
            lambda m=mix: _row(label, name, m, 0, crowd(m, system, extra_slowdown=extra)[0]),  # type: ignore[misc]
        )


def _mixed(name: str, seed: int) -> dict[str, Any]:
    goodput = round(mixed(SYSTEMS[name], seed), 5)
    return {"experiment": "mixed", "policy": name, "input": "mixed", "seed": seed, "goodput": goodput}


def _row(experiment: str, policy: str, cell: str, seed: int, measured: Cell) -> dict[str, Any]:
    return {
        "experiment": experiment,
        "policy": policy,
        "input": cell,
        "seed": seed,
        "mean_ms": round(measured.mean_ms, 4),
        "p99_over_target": round(measured.p99, 4),
        "missed": round(measured.missed, 5),
        "busy": round(measured.busy, 4),
        "idle_while_runnable": round(measured.bubble, 4),
        "worst_over_target": round(measured.worst, 4),
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The headline ratios of every experiment that was run."""
    summary: dict[str, Any] = {}
    even = {key: row for key, row in _means(rows, "pair").items() if key[0].endswith("/1/2")}
    cells = sorted({cell for cell, _ in even})
    summary["bless_reduction_pct"] = {
        name: _percent(1.0 - even[c, "BLESS-L"]["mean_ms"] / even[c, name]["mean_ms"] for c in cells)
        for name in OPPONENTS
    }
    summary["bless_published_pct"] = PUBLISHED
    for policy in (BEST, LIVE, "hybrid", "jct", "slo"):
        summary[f"{policy}_vs_bless"] = _against(_means(rows, "pair"), policy)
    for policy in (BEST, LIVE):
        for label in ("pair", "crowd"):
            summary[f"{policy}_vs_three_readings {label}"] = _against(_means(rows, label), policy, ALL_READINGS)
        for label in (f"{kind} {stress}".strip() for stress in STRESS for kind in ("pair", "crowd")):
            found = _means(rows, label)
            if found and label != "pair":
                summary[f"{policy}_vs_bless {label.removeprefix('pair ')}"] = _against(found, policy)
    qos = _means(rows, "qos")
    if qos:
        summary["qos_missed_pct"] = {
            name: _percent(row["missed"] for (_, policy), row in qos.items() if policy == name)
            for name in sorted({policy for _, policy in qos})
        }
    goodput = [row for row in rows if row["experiment"] == "mixed"]
    if goodput:
        summary["goodput"] = {
            name: round(float(np.mean([r["goodput"] for r in goodput if r["policy"] == name])), 4)
            for name in sorted({r["policy"] for r in goodput})
        }
    return summary


def _against(
    cells: dict[tuple[str, str], dict[str, float]], policy: str, against: tuple[str, ...] = READINGS
) -> dict[str, float]:
    """Our policy against the best of these readings of BLESS, cell by cell."""
    latency, missed, p99, worst = [], [], [], []
    bless_missed = []
    for cell in sorted({c for c, _ in cells}):
        ours = cells[cell, policy]
        readings = [cells[cell, reading] for reading in against]
        latency.append(ours["mean_ms"] / min(r["mean_ms"] for r in readings) - 1.0)
        better = min(readings, key=lambda r: r["mean_ms"])
        missed.append(ours["missed"] - better["missed"])
        bless_missed.append(min(r["missed"] for r in readings))
        p99.append(ours["p99_over_target"] - better["p99_over_target"])
        worst.append(ours["worst_over_target"])
    return {
        "latency_pct": _percent(latency),
        "worst_cell_pct": round(100.0 * max(latency), 2),
        "missed_pct": _percent(cells[c, policy]["missed"] for c in sorted({c for c, _ in cells})),
        "bless_missed_pct": _percent(bless_missed),
        "missed_more_pct": round(100.0 * max(missed), 2),
        "p99_more": round(max(p99), 3),
        "worst_tenant_over_target": round(max(worst), 3),
    }


def _means(rows: list[dict[str, Any]], experiment: str) -> dict[tuple[str, str], dict[str, float]]:
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            grouped.setdefault((row["input"], row["policy"]), []).append(row)
    fields = ("mean_ms", "missed", "p99_over_target", "worst_over_target")
    return {key: {f: float(np.mean([r[f] for r in group])) for f in fields} for key, group in grouped.items()}


def _percent(parts: Iterable[float]) -> float:
    return round(100.0 * float(np.mean(list(parts))), 2)


def speed() -> dict[str, Any]:
    """Events per second of processor time in the compiled loop: free sharing, and our policy deciding."""
    profile = synthesise(A100_APPS["NasNet"], A100.sms)
    found = {}
    for name, label in (("UNBOUND", ""), (BEST, f"_{BEST}")):
        for tenants in (2, 4, 8):
            group = [Tenant(profile, 1.0 / tenants)] * tenants
            times = think_times(profile.solo_ms, "B", 0, tenants, requests=400)
            play(A100, group, times[:, :2], SYSTEMS[name])
            start = time.process_time()
            events = play(A100, group, times, SYSTEMS[name]).events
            found[f"events_per_cpu_s_{tenants}_tenants{label}"] = round(events / (time.process_time() - start))
    return found


def _figures(rows: list[dict[str, Any]]) -> list[object]:
    import plotly.graph_objects as go

    figures: list[object] = []
    for experiment in ("pair", "crowd"):
        cells = _means(rows, experiment)
        inputs = sorted({c for c, _ in cells})
        bars = [
            go.Bar(name=name, x=inputs, y=[cells[c, name]["mean_ms"] for c in inputs])
            for name in sorted({p for _, p in cells})
        ]
        figure = go.Figure(bars)
        figure.update_layout(title=f"Mean latency, {experiment}", yaxis_title="ms", barmode="group")
        figures.append(figure)
    return figures
