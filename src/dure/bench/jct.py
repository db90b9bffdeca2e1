"""`dure bench jct`: completion times of training jobs on 24 T4, 24 RTX 2080 Ti and 16 A100.

Sia's Philly, Helios and newTrace lists. Rigid: every job as its list says, the same for all schedulers. Elastic:
sizes and batch sizes as the profiles allow. Profiles are known to all here; Sia itself learns them while it runs.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import click
import msgspec
import numpy as np

from dure.bench.jct_data import KINDS, LISTS, applications, lists_of, read_list
from dure.bench.progress import Journal, cells
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import POSITIVE
from dure.model.units import HOUR_S
from dure.sim.training.cluster import Job, Rule, Submitted, replay
from dure.sim.training.profile import Application
from dure.sim.training.rules import Gavel, Ours, fifo, srtf, tiresias

# Mean completion time in hours as published (Sia, SOSP'23, table 3), for Gavel with tuned jobs and elastic Sia.
PUBLISHED = {"philly": (1.9, 0.6), "helios": (2.5, 0.7), "newtrace": (11.3, 0.7)}
GAVEL_S, ROUND_S = 360.0, 60.0
RIGID, ELASTIC = "dure-rigid", "dure-elastic"
POLICIES = ("fifo", "srtf", "tiresias", "gavel", RIGID, ELASTIC)


class Measured(msgspec.Struct, frozen=True):
    """Hours, but for the restarts of a job."""

    jobs: int
    mean_h: float
    p99_h: float
    makespan_h: float
    gpu_h: float
    restarts: float


@click.command("jct")
@click.option("--trace", "traces", multiple=True, type=click.Choice(list(LISTS)), help="Default: all three.")
@click.option("--lists", "limit", default=0, show_default=True, help="Only the first so many of each; 0: all.")
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="Default: all.")
@click.option(
    "--fairness",
    type=POSITIVE,
    default=0.5,
    show_default=True,
    help="1: shortest first; towards 0: something for all.",
)
@click.option("--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Other lists of jobs instead.")  # fmt: skip
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    traces: tuple[str, ...], limit: int, policies: tuple[str, ...], fairness: float, files: tuple[Path, ...],
    resume: Path | None, as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Mean and p99 completion time, makespan and GPU hours against FIFO, SRTF, Tiresias and Gavel.

    \b
    Example:
      dure bench jct --json
      dure bench jct --trace philly --lists 1 --policy gavel --policy dure-elastic
    """
    if files:
        inputs = [(path.stem, path) for path in files]
    else:
        inputs = [(trace, path) for trace in traces or tuple(LISTS) for path in lists_of(trace, limit)]
    known = applications()
    journal = Journal(resume, Measured, f"{fairness} 2")
    wanted = [(trace, path, policy) for trace, path in inputs for policy in policies or POLICIES]
    rows: list[Row] = []
    for trace, path, policy in cells(wanted, "jct"):
        key = f"{path} {policy}"
        one = journal.get(key)
        if one is None:
            one = measured(read_list(path), known, policy, fairness)
            journal.add(key, one)
        rows.append({"trace": trace, "list": path.stem, "policy": policy, "seed": 0, **_cells(one)})
    emit(Result("jct", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ())


def measured(jobs: list[Submitted], known: dict[str, Application], policy: str, fairness: float) -> Measured:
    here = [Job(job, known[job.application], elastic=policy == ELASTIC) for job in jobs]
    gavel = policy == "gavel"
    rule: Rule = Gavel(GAVEL_S) if gavel else _RULES.get(policy) or Ours(fairness)
    replay(here, KINDS, rule, round_s=GAVEL_S if gavel else ROUND_S, every=1 if gavel else 10)
    ends = np.array([job.end_s if job.end_s is not None else np.inf for job in here])
    spans = (ends - np.array([job.spec.at_s for job in here])) / HOUR_S
    return Measured(
        len(here), float(spans.mean()), float(np.quantile(spans, 0.99)), float(ends.max()) / HOUR_S,
        float(mean(job.served for job in here)) / HOUR_S, mean(float(job.restarts) for job in here),
    )  # fmt: skip


_RULES: dict[str, Rule] = {"fifo": fifo, "srtf": srtf, "tiresias": tiresias}


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Means over the lists of each trace, and ours against Gavel (same run) and elastic Sia (published)."""
    told: dict[str, Cell] = {}
    for trace in dict.fromkeys(str(row["trace"]) for row in rows):
        means: dict[str, float] = {}
        for policy in dict.fromkeys(str(row["policy"]) for row in rows):
            mine = [_number(row["mean_h"]) for row in rows if (row["trace"], row["policy"]) == (trace, policy)]
            means[policy] = mean(mine)
            told[f"{trace}_{policy}_mean_h"] = round(means[policy], 3)
        if "gavel" in means and RIGID in means:
            told[f"{trace}_rigid_over_gavel"] = round(means[RIGID] / means["gavel"], 3)
            told[f"{trace}_rigid_below_gavel_on_every_list"] = _below(rows, trace)
        if ELASTIC in means and trace in PUBLISHED:
            told[f"{trace}_elastic_over_published_sia"] = round(means[ELASTIC] / PUBLISHED[trace][1], 3)
        if "gavel" in means and trace in PUBLISHED:
            told[f"{trace}_gavel_over_published_gavel"] = round(means["gavel"] / PUBLISHED[trace][0], 3)
    return told


def _below(rows: list[Row], trace: str) -> bool:
    by = {(row["list"], row["policy"]): _number(row["mean_h"]) for row in rows if row["trace"] == trace}
    return all(by[name, RIGID] < by[name, "gavel"] for name, policy in by if policy == RIGID)


def _cells(one: Measured) -> dict[str, Cell]:
    return {name: round(value, 3) for name, value in msgspec.structs.asdict(one).items()}


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        figure.add_box(x=[row["trace"] for row in mine], y=[row["mean_h"] for row in mine], name=policy)
    figure.update_layout(yaxis_title="mean completion time, h", boxmode="group", yaxis_type="log")
    return [figure]
