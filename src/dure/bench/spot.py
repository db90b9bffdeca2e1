"""`dure bench spot`: money saved under deadlines on recorded spot markets, every deadline met.

Each zone alone, then the zones of one collection together. The saving is against on-demand from start to end.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import click
import msgspec
import numpy as np

from dure.bench.data import data_file
from dure.bench.progress import Journal, cells
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.bench.spot_replay import Job, Outcome, replay
from dure.bench.spot_rules import OURS, RULES
from dure.bench.spot_trace import DEFAULT_ZONES, FILE, Zone, market_at, read_zones
from dure.files.params import NOT_NEGATIVE, POSITIVE
from dure.model.errors import InvalidInput
from dure.model.units import HOUR_S

BOUND = "clairvoyant"
TOGETHER = "(together)"


class Measured(msgspec.Struct, frozen=True):
    """One rule on one market at one deadline."""

    saving_pct: float
    misses: int
    starts: int
    launches: float


@click.command("spot")
@click.option("--zones", default=DEFAULT_ZONES, show_default=True, help="Globs of series names, with commas.")
@click.option("--deadlines", default="1.1,1.25,1.5,2.0", show_default=True, help="In multiples of the work.")
@click.option("--starts", default=24, show_default=True, help="Start dates per zone, spread over its record.")
@click.option("--seed", default=1, show_default=True, help="Of the start dates.")
@click.option("--work", "work_h", type=POSITIVE, default=24.0, show_default=True, help="Hours of work.")
@click.option(
    "--restart", "restart_h", type=NOT_NEGATIVE, default=0.2, show_default=True, help="Hours a launch takes."
)
@click.option("--price", type=POSITIVE, default=0.3, show_default=True, help="Spot over on-demand.")
@click.option("--bound/--no-bound", default=True, show_default=True, help="Also the clairvoyant bound.")
@click.option("--zero-is-up", is_flag=True, help="Take 0 as available.")
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Other series.")
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    zones: str, deadlines: str, starts: int, seed: int, work_h: float, restart_h: float, price: float, bound: bool,
    zero_is_up: bool, file: Path | None, resume: Path | None, as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Spot under deadlines: saving at zero misses against on-demand, greedy, Uniform Progress and the optimum.

    \b
    Example:
      dure bench spot --json
      dure bench spot --zones 'aws-10-26-2022/*' --starts 12 --seed 7
    """
    found = read_zones(file or data_file(FILE), zones, zero_is_up=zero_is_up)
    factors = _numbers(deadlines)
    markets = [[zone] for zone in found] + [group for group in _groups(found) if len(group) > 1]
    setting = f"{starts} {seed} {work_h} {restart_h} {price} {zero_is_up} {file or FILE} {OURS}-5"
    journal = Journal(resume, Measured, setting)
    rules = [*RULES, *([BOUND] if bound else [])]
    wanted = [(market, factor, rule) for market in markets for factor in factors for rule in rules]
    rows: list[Row] = []
    for market, factor, rule in cells(wanted, "spot"):
        key = f"{_name(market)} {factor} {rule}"
        job = Job(work_h * HOUR_S, restart_h * HOUR_S, work_h * HOUR_S * factor, price)
        one = journal.get(key)
        if one is None:
            one = measured(market, job, rule, starts, seed)
            journal.add(key, one)
        if one.starts:
            rows.append({"zones": _name(market), "deadline": factor, "policy": rule, "seed": seed, **_cells(one)})
    emit(
        Result("spot", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ()
    )


def measured(market: list[Zone], job: Job, rule: str, starts: int, seed: int) -> Measured:
    shortest = min(market, key=lambda zone: len(zone.up))
    begins = shortest.starts(job.deadline_s, starts, seed)
    outcomes = [_outcome(market, job, rule, begin) for begin in begins]
    if not outcomes:
        return Measured(0.0, 0, 0, 0.0)
    return Measured(
        100 * (1 - mean(one.cost for one in outcomes) / job.on_demand_cost),
        sum(one.end_s > job.deadline_s + 1e-6 for one in outcomes),
        len(outcomes),
        mean(one.launches for one in outcomes),
    )


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Means over the zones for each deadline, alone and together, and the misses of all."""
    told: dict[str, Cell] = {}
    for kind, alone in (("alone", True), ("together", False)):
        for row in rows:
            if str(row["zones"]).startswith(TOGETHER) == alone:
                continue
            name = f"{kind}_{row['deadline']}_{row['policy']}_saving_pct"
            same = [
                _number(other["saving_pct"])
                for other in rows
                if (other["deadline"], other["policy"]) == (row["deadline"], row["policy"])
                and str(other["zones"]).startswith(TOGETHER) != alone
            ]
            told[name] = round(mean(same), 2)
    told["misses"] = sum(int(_number(row["misses"])) for row in rows if row["policy"] == OURS)
    return told


def _outcome(market: list[Zone], job: Job, rule: str, begin: int) -> Outcome:
    zones = market_at(market, begin, job.deadline_s)
    if rule == BOUND:
        from dure.bench.spot_bound import least_cost

        return Outcome(least_cost(job, np.asarray(zones.up.any(axis=0)), zones.gap_s), 0.0, 0)
    return replay(job, zones, RULES[rule])


def _groups(zones: list[Zone]) -> list[list[Zone]]:
    kinds = dict.fromkeys((zone.group, zone.gap_s) for zone in zones)
    return [[zone for zone in zones if (zone.group, zone.gap_s) == kind] for kind in kinds]


def _name(market: list[Zone]) -> str:
    return f"{market[0].group}/{market[0].name}" if len(market) == 1 else f"{TOGETHER} {market[0].group}"


def _cells(one: Measured) -> dict[str, Cell]:
    return {
        "saving_pct": round(one.saving_pct, 3),
        "misses": one.misses,
        "starts": one.starts,
        "launches": round(one.launches, 2),
    }


def _numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not a list of numbers", remedy="Write 1.1,1.5,2.0.") from error
    if min(found) <= 1.0:
        raise InvalidInput("a deadline must be longer than the work", remedy="Write factors above 1, as 1.1,1.5.")
    return found


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        figure.add_box(x=[f"{row['deadline']}x" for row in mine], y=[row["saving_pct"] for row in mine], name=policy)
    figure.update_layout(yaxis_title="saved against on-demand, %", xaxis_title="deadline", boxmode="group")
    return [figure]
