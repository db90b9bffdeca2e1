"""`dure bench watch`: are faults found, and is what comes next foreseen?

Anomalies: labelled faults in the demo fleet's telemetry, against fixed thresholds on the same figures. Forecasts: a
day ahead on the demo fleet's requests and on recorded grids and prices, against seasonal-naive.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import click

from dure.bench.gap import seeds
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.bench.watch_fleet import KINDS, Fault, Telemetry, telemetry
from dure.bench.watch_forecast import forecast_rows
from dure.bench.watch_rivals import RIVALS, Alarm

# An alarm up to half an hour after the fault's end is still about it.
GRACE = 6


@click.command("watch")
@click.option("--days", default=14, show_default=True, type=click.IntRange(4, 60), help="Half of it is quiet past.")
@click.option("--faults", default=35, show_default=True, type=click.IntRange(1, 500), help="In the second half.")
@click.option("--seeds", "seed_text", default="1..5", show_default=True)
@click.option("--only", type=click.Choice(["anomalies", "forecasts"]), help="Default: both.")
@bench_options
def command(days: int, faults: int, seed_text: str, only: str | None, as_json: bool, report: Path | None) -> None:
    """Precision and recall on labelled faults against static thresholds; forecast error against seasonal-naive.

    \b
    Example:
      dure bench watch --json
      dure bench watch --only anomalies --seeds 7..9 --faults 60
    """
    rows: list[Row] = []
    if only != "forecasts":
        rows += _anomaly_rows(days, faults, seeds(seed_text))
    if only != "anomalies":
        rows += forecast_rows(seeds(seed_text))
    emit(
        Result("watch", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ()
    )


def _anomaly_rows(days: int, faults: int, chosen: list[int]) -> list[Row]:
    from dure.adapters.memory.stream import small_services, standing
    from dure.files.builtin import catalogue, demo_fleet

    fleet, known = demo_fleet(), catalogue()
    services = (*standing(fleet, known), *small_services(fleet, known))
    rows: list[Row] = []
    for seed in chosen:
        seen = telemetry(services, seed, days, faults)
        for name, find in RIVALS.items():
            rows += judged(name, seed, seen, find(seen))
        click.echo(f"seed {seed}: {len(seen.faults)} faults in {seen.values.shape[1]} series", err=True)
    return rows


def judged(policy: str, seed: int, seen: Telemetry, alarms: list[Alarm]) -> list[Row]:
    """One row for all faults, one for each kind: how many were found, how many alarms were about one, how late."""
    found = [next((alarm for alarm in alarms if about(alarm, fault)), None) for fault in seen.faults]
    right = sum(any(about(alarm, fault) for fault in seen.faults) for alarm in alarms)
    delays = [max(0, alarm[1] - fault.begin) * 5.0 for alarm, fault in zip(found, seen.faults, strict=True) if alarm]
    days = len(seen.times) / 2 * 300 / 86_400
    whole: Row = {
        "part": "anomalies", "policy": policy, "input": "demo fleet", "seed": seed, "kind": "all",
        "faults": len(seen.faults), "alarms": len(alarms), "precision": _part(right, len(alarms)),
        "recall": _part(sum(one is not None for one in found), len(found)),
        "false_per_day": round((len(alarms) - right) / days, 3),
        "delay_min": round(fmean(delays), 1) if delays else None,
    }  # fmt: skip
    rows = [whole]
    for kind in KINDS:
        mine = [one is not None for one, fault in zip(found, seen.faults, strict=True) if fault.kind == kind]
        rows.append(
            {"part": "anomalies", "policy": policy, "input": "demo fleet", "seed": seed, "kind": kind,
             "faults": len(mine), "recall": _part(sum(mine), len(mine))}
        )  # fmt: skip
    return rows


def about(alarm: Alarm, fault: Fault) -> bool:
    return alarm[0] == fault.thing and alarm[1] <= fault.end + GRACE and alarm[2] >= fault.begin


def summary(rows: list[Row]) -> dict[str, Cell]:
    told: dict[str, Cell] = {}
    for policy in RIVALS:
        mine = [row for row in rows if row.get("policy") == policy and row.get("kind") == "all"]
        if mine:
            name = policy.replace("-", "_")
            for figure in ("precision", "recall", "false_per_day"):
                told[f"{name}_{figure}"] = round(fmean(_number(row[figure]) for row in mine), 4)
            precision, recall = _number(told[f"{name}_precision"]), _number(told[f"{name}_recall"])
            told[f"{name}_f1"] = round(2 * precision * recall / max(1e-9, precision + recall), 4)
    inputs = dict.fromkeys(str(row["input"]) for row in rows if row["part"] == "forecasts")
    for name in inputs:
        mine = [row for row in rows if row["part"] == "forecasts" and row["input"] == name]
        told[f"forecast_{name}_error_over_naive"] = round(fmean(_number(row["mae_ratio"]) for row in mine), 4)
        told[f"forecast_{name}_held_80"] = round(fmean(_number(row["held_80"]) for row in mine), 4)
    return told


def _part(some: int, whole: int) -> float:
    return round(some / whole, 4) if whole else 0.0


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else 0.0


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    found = go.Figure()
    for policy in RIVALS:
        mine = [row for row in rows if row.get("policy") == policy and row.get("kind") == "all"]
        found.add_scatter(
            x=[row["recall"] for row in mine], y=[row["precision"] for row in mine], mode="markers", name=policy
        )
    found.update_layout(xaxis_title="recall", yaxis_title="precision", title="Labelled faults, one dot for each seed")
    foreseen = go.Figure()
    mine = [row for row in rows if row["part"] == "forecasts"]
    foreseen.add_bar(x=[f"{row['input']} {row['seed']}" for row in mine], y=[row["mae_ratio"] for row in mine])
    foreseen.update_layout(yaxis_title="error over seasonal-naive", title="A day ahead")
    return [found, foreseen]
