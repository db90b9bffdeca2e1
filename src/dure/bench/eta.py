"""`dure bench eta`: how often the ranges of expected start and finish hold, on recorded jobs.

Philly (with its virtual clusters as groups) and PAI jobs through a first-come queue, loaded so that many wait.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from statistics import median

import click

from dure.bench.data import data_file, read_rows
from dure.bench.eta_replay import Forecast, Replay, Trace
from dure.bench.gap import seeds
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import POSITIVE
from dure.model.errors import InvalidInput

# Forecasts made while the ranges are still learned are not counted.
WARM = 100


@click.command("eta")
@click.option("--trace", "traces", multiple=True, type=click.Choice(["philly", "pai"]), help="Default: both.")
@click.option("--jobs", default=1500, show_default=True, help="Jobs of each stretch.")
@click.option("--load", type=POSITIVE, default=1.1, show_default=True, help="Demand over capacity.")
@click.option("--seeds", "seed_text", default="1..3", show_default=True, help="Each is another stretch of the trace.")
@bench_options
def command(
    traces: tuple[str, ...], jobs: int, load: float, seed_text: str, as_json: bool, report: Path | None
) -> None:
    """Calibration of expected start and finish: how often the 50 % and 90 % ranges hold.

    \b
    Example:
      dure bench eta --json
      dure bench eta --trace pai --seeds 7 --load 0.95
    """
    rows: list[Row] = []
    for trace in traces or ("philly", "pai"):
        known = _philly() if trace == "philly" else _pai()
        for seed in seeds(seed_text):
            stretch = _stretch(known, jobs, seed)
            devices = _devices(stretch, load)
            found = list(Replay(stretch, devices, seed).run())
            rows += [
                _row(trace, seed, kind, devices, [one for one in found if one.kind == kind])
                for kind in ("start", "finish", "running")
            ]
            click.echo(f"{trace} seed {seed}: {len(found)} forecasts on {devices} devices", err=True)
    emit(Result("eta", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ())


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Shares that held over all forecasts of a trace and kind."""
    told: dict[str, Cell] = {}
    for trace, kind in dict.fromkeys((str(row["trace"]), str(row["kind"])) for row in rows):
        mine = [row for row in rows if (row["trace"], row["kind"]) == (trace, kind)]
        count = sum(_number(row["forecasts"]) for row in mine)
        for name in ("held_90", "held_50"):
            held = sum(_number(row[name]) * _number(row["forecasts"]) for row in mine)
            told[f"{trace}_{kind}_{name}"] = round(held / count, 4) if count else None
    return told


def _row(trace: str, seed: int, kind: str, devices: int, found: list[Forecast]) -> Row:
    counted = found[WARM:]
    if not counted:
        raise InvalidInput(f"too few forecasts of {kind} in {trace}", remedy="Give more --jobs or a higher --load.")
    widths = [(one.said.highest_s - one.said.lowest_s) / 3600 for one in counted]
    return {
        "trace": trace, "policy": "dure", "seed": seed, "kind": kind, "devices": devices, "forecasts": len(counted),
        "held_90": round(sum(one.said.holds(one.came_s) for one in counted) / len(counted), 4),
        "held_50": round(sum(one.said.holds_half(one.came_s) for one in counted) / len(counted), 4),
        "width_90_h_median": round(median(widths), 3),
    }  # fmt: skip


def _stretch(known: list[Trace], jobs: int, seed: int) -> list[Trace]:
    begin = (seed * 7919 * 13) % max(1, len(known) - jobs)
    return known[begin : begin + jobs]


def _devices(jobs: list[Trace], load: float) -> int:
    """So many that the demand of the stretch is `load` of them, and the largest job fits."""
    span_s = max(1.0, jobs[-1].at_s - jobs[0].at_s)
    demand = sum(min(job.length_s, span_s) * job.devices for job in jobs) / span_s
    return max(max(job.devices for job in jobs), round(demand / load))


def _philly() -> list[Trace]:
    rows = read_rows(data_file("philly/philly_jobs.csv"))
    found = [
        Trace(
            datetime.fromisoformat(row["timestamp"]).timestamp(), max(1.0, float(row["duration"])),
            max(1, int(float(row["num_gpus"]))), row["cluster"],
        )
        for row in rows
    ]  # fmt: skip
    return sorted(found, key=lambda job: (job.at_s, job.length_s))


def _pai() -> list[Trace]:
    rows = read_rows(data_file("pai-gaia/pai-100k.csv"))
    found = [
        Trace(
            float(row["arrival_time"]), max(1.0, float(row["length"])), max(1, int(float(row["cpus"]))), row["cpus"]
        )
        for row in rows
    ]
    return sorted(found, key=lambda job: (job.at_s, job.length_s))


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else 0.0


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for name in ("held_90", "held_50"):
        where = [f"{row['trace']} {row['kind']} {row['seed']}" for row in rows]
        figure.add_bar(x=where, y=[row[name] for row in rows], name=name)
    figure.update_layout(yaxis_title="share that held", barmode="group")
    return [figure]
