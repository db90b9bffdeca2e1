"""`dure bench gap`: how far each solver is from the best proven bound, and how many jobs a second it places.

The bound is the largest of HiGHS's dual bound, what the linear relaxation's prices prove and a long Lagrangian
ascent; none of them is on the clock of a policy. Rows are one policy on one seed. `first_ms` is the time to the first
whole plan.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import click
import msgspec
import numpy as np

from dure.bench.demand import Prices, Shape, gap_instance
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import NOT_NEGATIVE
from dure.model.errors import InvalidInput
from dure.place.exact import linear_prices, solve_exact
from dure.place.greedy import insert_in_order, regret_order
from dure.place.instance import Instance, Longs, broken, total
from dure.place.prices import bound_at, congestion_prices
from dure.place.settings import PlaceSettings
from dure.place.solve import solve
from dure.place.solver import Ascent, Limits, Method, Search, Solver

OURS = "ruin"


class Measured(msgspec.Struct, frozen=True):
    choice: Longs
    seconds: float


def seeds(text: str) -> list[int]:
    """`1..5`, `3` or `1,4,9`."""
    try:
        if ".." in text:
            low, high = (int(part) for part in text.split("..", 1))
            found = list(range(low, high + 1))
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not a list of seeds", remedy="Write 1..5, 3 or 1,4,9.") from error
    if not found or min(found) < 0:
        raise InvalidInput(f"'{text}' names no seed that is 0 or more", remedy="Write 1..5, 3 or 1,4,9.")
    return found


@click.command("gap")
@click.option("--jobs", default=200, show_default=True, help="Jobs per instance.")
@click.option("--regions", default=6, show_default=True, help="Regions (1 to 12).")
@click.option("--hours", default=72, show_default=True, help="Hours of the horizon.")
@click.option("--gangs", is_flag=True, help="Jobs of 1 to 16 devices, all or nothing.")
@click.option("--tight", is_flag=True, help="80 % of the device-hours instead of 50 %.")
@click.option(
    "--prices", type=click.Choice([one.value for one in Prices]), default=None, help="Default: on-demand, then owned."
)
@click.option("--seeds", "seed_text", default="1..5", show_default=True, help="1..5, 3 or 1,4,9.")
@click.option(
    "--iterations",
    default=PlaceSettings().iterations_per_job,
    show_default=True,
    help="Of ruin, per job; by default as many as the plane takes.",
)
@click.option(
    "--bound-seconds", type=NOT_NEGATIVE, default=20.0, show_default=True, help="HiGHS, per instance; 0: Lagrangian."
)
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    jobs: int, regions: int, hours: int, gangs: bool, tight: bool, prices: str | None, seed_text: str,
    iterations: int, bound_seconds: float, resume: Path | None, as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Distance of the placement solvers to the proven optimum.

    \b
    Example:
      dure bench gap --jobs 200 --regions 6 --hours 72 --gangs --tight --seeds 1..5 --json
    """
    kinds = [Prices(prices)] if prices else [Prices.ON_DEMAND, Prices.OWNED]
    _warm_up(iterations)
    rows: list[Row] = []
    for kind in kinds:
        shape = Shape(jobs, regions, hours, gangs, tight, kind)
        for seed in seeds(seed_text):
            rows += _cells(shape, seed, iterations, bound_seconds, resume)
            click.echo(f"{kind} seed {seed}: {_told(rows, kind, seed)}", err=True)
    emit(Result("gap", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows) if report else ())


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Ours against first-come on each kind of prices, over the seeds."""
    told: dict[str, Cell] = {}
    for kind in dict.fromkeys(str(row["prices"]) for row in rows):
        for policy in (OURS, "first-come"):
            mine = [row for row in rows if row["prices"] == kind and row["policy"] == policy]
            gaps = sorted(_number(row["gap_pct"]) for row in mine)
            told[f"{kind}_{policy}_gap_pct_mean"] = round(mean(gaps), 4)
            told[f"{kind}_{policy}_gap_pct_p95"] = round(float(np.quantile(gaps, 0.95)), 4)
        ours = [row for row in rows if row["prices"] == kind and row["policy"] == OURS]
        told[f"{kind}_jobs_per_s_median"] = round(median(_number(row["jobs_per_s"]) for row in ours), 1)
        told[f"{kind}_first_ms_per_1000_jobs"] = round(
            median(_number(row["first_ms"]) / _number(row["jobs"]) * 1000 for row in ours), 3
        )
    return told


def policies(inst: Instance, seed: int, iterations: int) -> dict[str, Callable[[], Longs]]:
    """Each solver of the comparison as a call without arguments; `exact` joins where it can be waited for."""
    largest = np.argsort(-_sizes(inst), kind="stable")
    found: dict[str, Callable[[], Longs]] = {
        "first-come": lambda: insert_in_order(inst, inst.cost, np.arange(inst.jobs)),
        "largest-first": lambda: insert_in_order(inst, inst.cost, largest),
        "regret": lambda: insert_in_order(inst, inst.cost, regret_order(inst, inst.cost)),
    }
    for name, each in ((OURS, iterations), (f"{OURS}-x5", 5 * iterations)):
        solver = Solver(Method.RUIN, Search(iterations_per_job=each))
        found[name] = lambda solver=solver: solve(inst, solver, seed).choice  # type: ignore[misc]
    return found


def _cells(shape: Shape, seed: int, iterations: int, bound_seconds: float, resume: Path | None) -> list[Row]:
    key = f"{msgspec.json.encode(shape).decode()} {seed} {iterations} {bound_seconds}"
    kept = _kept(resume)
    if key not in kept:
        kept[key] = _measured(shape, seed, iterations, bound_seconds)
        if resume is not None:
            resume.write_text(json.dumps(kept), encoding="utf-8")
    return kept[key]


def _kept(resume: Path | None) -> dict[str, list[Row]]:
    if resume is None or not resume.exists():
        return {}
    try:
        found = json.loads(resume.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"not a file of finished cells: {error}", where=str(resume)) from error
    return dict(found)


def _measured(shape: Shape, seed: int, iterations: int, bound_seconds: float) -> list[Row]:
    inst = gap_instance(shape, seed)
    done = {name: _timed(run) for name, run in policies(inst, seed, iterations).items()}
    best = min((one.choice for one in done.values()), key=lambda choice: total(inst, choice))
    bound, optimum = _bound(inst, best, bound_seconds)
    first_ms = done["regret"].seconds * 1000
    return [_row(shape, seed, name, inst, one, bound, optimum, first_ms) for name, one in done.items()]


def _row(
    shape: Shape, seed: int, name: str, inst: Instance, one: Measured, bound: float, optimum: float | None,
    first_ms: float,
) -> Row:  # fmt: skip
    cost = total(inst, one.choice)
    return {
        "jobs": shape.jobs, "regions": shape.regions, "hours": shape.hours, "gangs": shape.gangs,
        "tight": shape.tight, "prices": str(shape.prices), "seed": seed, "policy": name, "cost": cost,
        "optimum": optimum, "bound": bound,
        "gap_pct": 100 * (cost / bound - 1) if bound > 0 else None, "jobs_per_s": shape.jobs / max(one.seconds, 1e-9),
        "held": int((one.choice < 0).sum()), "first_ms": first_ms,
    }  # fmt: skip


def _timed(run: Callable[[], Longs]) -> Measured:
    begin = time.process_time()
    choice = run()
    return Measured(choice, time.process_time() - begin)


def _bound(inst: Instance, best: Longs, seconds: float) -> tuple[float, float | None]:
    """The best proven lower bound, and the optimum if the exact solver closed the gap."""
    bound = congestion_prices(inst, total(inst, best), Ascent(steps=3000)).bound
    if seconds <= 0:
        return bound, None
    bound = max(bound, bound_at(inst, linear_prices(inst, seconds)))
    proof = solve_exact(inst, Limits(seconds=seconds, threads=2), best)
    if problem := broken(inst, proof.choice):
        raise InvalidInput(f"the exact solver answered an impossible plan: {problem}")
    return max(bound, proof.bound), proof.cost if proof.optimal else None


def _sizes(inst: Instance) -> Longs:
    """Device-hours of each job."""
    one = inst.option[inst.first[:-1]]
    sizes: Longs = one[:, 3].astype(np.int64) * inst.need[one[:, 4], 0]
    return sizes


def _warm_up(iterations: int) -> None:
    """Compile the kernels outside of the measurement."""
    inst = gap_instance(Shape(8, 2, 24), 0)
    for run in policies(inst, 0, min(iterations, 5)).values():
        run()


def _told(rows: list[Row], kind: Prices, seed: int) -> str:
    mine = [row for row in rows if row["prices"] == kind and row["seed"] == seed]
    return ", ".join(f"{row['policy']} {_number(row['gap_pct']):.2f} %" for row in mine)


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind in dict.fromkeys(str(row["prices"]) for row in rows):
        mine = [row for row in rows if row["prices"] == kind]
        figure.add_box(x=[row["policy"] for row in mine], y=[row["gap_pct"] for row in mine], name=kind)
    figure.update_layout(yaxis_title="above the proven bound, %", boxmode="group")
    return [figure]
