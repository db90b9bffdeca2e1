"""`dure bench eta`: how often the ranges of expected start and finish hold, on recorded jobs.

Philly (virtual clusters and sizes as groups), PAI and openb jobs through a first-come queue that is nearly full.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import click
import msgspec

from dure.bench.eta_data import TRACES, jobs_of_file
from dure.bench.eta_replay import Forecast, Replay, Trace
from dure.bench.gap import seeds
from dure.bench.progress import Journal, cells
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import POSITIVE
from dure.model.errors import InvalidInput

# Forecasts made while the ranges are still learned are not counted.
WARM = 100
KINDS = ("start", "finish", "running")


class Measured(msgspec.Struct, frozen=True):
    """Of one kind of forecast on one stretch; `below` came before the wide range, `above` after it."""

    forecasts: int
    held_90: float
    held_50: float
    below: float
    above: float
    width_90_h_median: float


class Stretch(msgspec.Struct, frozen=True):
    devices: int
    kinds: dict[str, Measured]


@click.command("eta")
@click.option("--trace", "traces", multiple=True, type=click.Choice(list(TRACES)), help="Default: philly and pai.")
@click.option("--jobs", type=click.IntRange(1), default=4000, show_default=True, help="Jobs of each stretch.")
@click.option("--load", type=POSITIVE, default=0.95, show_default=True, help="Demand over capacity.")
@click.option("--seeds", "seed_text", default="1..3", show_default=True, help="Each is another stretch of the trace.")
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Other jobs: at_s, length_s, devices, group.")  # fmt: skip
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    traces: tuple[str, ...], jobs: int, load: float, seed_text: str, file: Path | None, resume: Path | None,
    as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Calibration of expected start and finish: how often the 50 % and 90 % ranges hold.

    \b
    Example:
      dure bench eta --json
      dure bench eta --trace openb --seeds 7 --load 0.9
    """
    known = (
        {file.stem: jobs_of_file(file)} if file else {name: TRACES[name]() for name in traces or ("philly", "pai")}
    )
    journal = Journal(resume, Stretch, f"{jobs} {load} {file or ''} 5")
    rows: list[Row] = []
    for trace, seed in cells([(trace, seed) for trace in known for seed in seeds(seed_text)], "eta"):
        key = f"{trace} {seed}"
        one = journal.get(key)
        if one is None:
            one = measured(_stretch(known[trace], jobs, seed), load, seed)
            journal.add(key, one)
        for kind, found in one.kinds.items():
            rows.append(
                {"trace": trace, "policy": "dure", "seed": seed, "kind": kind, "load": load, "devices": one.devices,
                 **msgspec.structs.asdict(found)}
            )  # fmt: skip
    emit(Result("eta", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ())


def measured(stretch: list[Trace], load: float, seed: int) -> Stretch:
    devices = _devices(stretch, load)
    found = list(Replay(stretch, devices, seed).run())
    kinds = {kind: [one for one in found if one.kind == kind][WARM:] for kind in KINDS}
    if not any(kinds.values()):
        raise InvalidInput("too few forecasts", remedy="Give more --jobs or a higher --load.")
    return Stretch(devices, {kind: _measured(mine) for kind, mine in kinds.items() if mine})


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Shares that held over all forecasts of a trace and kind; of all who wait, start and finish, and all who run."""
    told: dict[str, Cell] = {}
    for trace in dict.fromkeys(str(row["trace"]) for row in rows):
        mine = [row for row in rows if row["trace"] == trace]
        for name, kinds in (*((kind, (kind,)) for kind in KINDS), ("waiting", ("start", "finish"))):
            some = [row for row in mine if row["kind"] in kinds]
            for cell in ("held_90", "held_50"):
                told[f"{trace}_{name}_{cell}"] = _share(some, cell)
    return told


def _share(rows: list[Row], cell: str) -> float | None:
    count = sum(_number(row["forecasts"]) for row in rows)
    return round(sum(_number(row[cell]) * _number(row["forecasts"]) for row in rows) / count, 4) if count else None


def _measured(counted: list[Forecast]) -> Measured:
    widths = [(one.said.highest_s - one.said.lowest_s) / 3600 for one in counted]
    return Measured(
        len(counted),
        round(sum(one.said.holds(one.came_s) for one in counted) / len(counted), 4),
        round(sum(one.said.holds_half(one.came_s) for one in counted) / len(counted), 4),
        round(sum(one.came_s < one.said.lowest_s for one in counted) / len(counted), 4),
        round(sum(one.came_s > one.said.highest_s for one in counted) / len(counted), 4),
        round(median(widths), 3),
    )


def _stretch(known: list[Trace], jobs: int, seed: int) -> list[Trace]:
    begin = (seed * 7919 * 13) % max(1, len(known) - jobs)
    return known[begin : begin + jobs]


def _devices(jobs: list[Trace], load: float) -> int:
    """So many that the demand of the stretch is `load` of them, and the largest job fits."""
    span_s = max(1.0, jobs[-1].at_s - jobs[0].at_s)
    demand = sum(min(job.length_s, span_s) * job.devices for job in jobs) / span_s
    return max(max(job.devices for job in jobs), round(demand / load))


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
