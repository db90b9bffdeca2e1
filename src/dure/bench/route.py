"""`dure bench route`: dynamic queue choice against a fixed queue, the published rule and the clairvoyant optimum.

`--sim` plays Kueue in virtual time; without it the same jobs go through the gateway to a real Kueue on the lab.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dure.bench.result import Result, Row, bench_options, emit
from dure.bench.route_sim import Played, Wanted, published_rows, rows_of
from dure.files.params import NOT_NEGATIVE, POSITIVE
from dure.model.errors import InvalidInput, NotFound
from dure.route.policies import NAMES
from dure.sim.queues.mix import Mix, parse
from dure.sim.queues.mixes import burst, random_mix, uniform

TOLD = ("scenario", "policy", "makespan_s", "mean_wait_s", "optimum_s", "moved")
COMPARED = ("static", "seed", "earliest-finish")


@click.command()
@click.option("--sim", is_flag=True, help="In virtual time instead of on a real Kueue.")
@click.option(
    "--scenario",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A mix of jobs as a JSON file; repeat.",
)
@click.option("--mixes", default=0, show_default=True, help="Play this many random mixes instead. Simulation only.")
@click.option("--policy", "policies", multiple=True, help="Which policies; repeat. Default: the three compared.")
@click.option(
    "--cpu-seconds", type=POSITIVE, default=90.0, show_default=True, help="Run time of a light job on the CPU."
)
@click.option(
    "--slowdown", type=POSITIVE, default=1.0, show_default=True, help="How much longer two jobs on one CPU node take."
)
@click.option(
    "--jitter", type=NOT_NEGATIVE, default=0.0, show_default=True, help="Spread of the true run times, 0.05 is 5 %."
)
@click.option("--repeats", default=1, show_default=True, help="Runs of each cell, with seeds of their own.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option(
    "--factor",
    type=POSITIVE,
    default=5.0,
    show_default=True,
    help="Real Kueue: how many times faster than real time.",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Real Kueue: keep finished runs in this file and go on from it.",
)
@bench_options
def command(as_json: bool, report: Path | None, sim: bool, **options: Any) -> None:
    """Measure the routing policies: makespan, waiting, distance to the optimum.

    \b
    Example:
      dure bench route --sim --json
      dure bench route --sim --scenario mine.json --json
      dure bench route --sim --mixes 200
    """
    policies = _policies(options["policies"])
    mixes = _mixes(options)
    if not sim:
        if options["mixes"]:
            raise InvalidInput("random mixes are for the simulation", remedy="Add --sim.")
        from dure.bench.route_lab import measure

        result, plots = measure(
            mixes, policies, options["factor"], options["repeats"], options["seed"], options["resume"]
        )
        emit(result, as_json=as_json, report=report, figures=plots)
        return
    wanted = Wanted(policies, options["repeats"], options["jitter"], options["seed"])
    played = _play(mixes, wanted if not options["mixes"] else wanted._replace(limit_s=2.0))
    rows: list[Row] = [one.row for one in played]
    summary = _summary(rows, bool(options["mixes"]))
    if options["files"]:
        rows = [_told(row, seeded=options["repeats"] > 1) for row in rows]
    elif not options["mixes"]:
        rows += published_rows()
    emit(
        Result("route", rows, summary),
        as_json=as_json,
        report=report,
        figures=_figures(played) if report else (),
    )


def _policies(named: Sequence[str]) -> tuple[str, ...]:
    for name in named:
        if name not in NAMES:
            raise InvalidInput(f"no routing policy '{name}'", remedy=f"The policies are: {', '.join(NAMES)}.")
    return tuple(dict.fromkeys(named)) or COMPARED


def _mixes(options: Any) -> list[Mix]:
    slowdown = options["slowdown"]
    if not 1.0 <= slowdown <= 100.0 or not 0 < options["cpu_seconds"] <= 1e6:
        raise InvalidInput("--slowdown must be at least 1 and --cpu-seconds positive")
    if not 0.0 <= options["jitter"] < 1.0 or options["repeats"] < 1:
        raise InvalidInput("--jitter must be from 0 to below 1 and --repeats at least 1")
    if options["files"]:
        return [_read(path) for path in options["files"]]
    if options["mixes"]:
        return [random_mix(options["seed"] + number, slowdown) for number in range(options["mixes"])]
    return [uniform(options["cpu_seconds"], slowdown), burst(options["cpu_seconds"], slowdown)]


def _read(path: Path) -> Mix:
    try:
        return parse(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {path}", remedy="Give the path of a JSON scenario.") from error
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from error


def _play(mixes: Sequence[Mix], wanted: Wanted) -> list[Played]:
    found: list[Played] = []
    for number, mix in enumerate(mixes, 1):
        found += rows_of(mix, wanted)
        if len(mixes) > 2:
            click.echo(f"\r{number} of {len(mixes)} mixes", err=True, nl=number == len(mixes))
    return found


def _told(row: Row, *, seeded: bool) -> Row:
    """A row of a given file, in the form that is promised for it; with repeats the seed tells them apart."""
    return {name: row[name] for name in (*TOLD, *(("seed",) if seeded else ()))}


def _summary(rows: Sequence[Row], many: bool) -> dict[str, Any]:
    cells = [row for row in rows if row.get("optimum_s") is not None]
    makespans = {(row["scenario"], row["seed"], row["policy"]): float(row["makespan_s"] or 0) for row in cells}
    found: dict[str, Any] = {}
    for name in dict.fromkeys(str(row["policy"]) for row in cells):
        own = [row for row in cells if row["policy"] == name]
        ratios = [
            float(row["makespan_s"] or 0) / makespans[row["scenario"], row["seed"], "static"]
            for row in own
            if (row["scenario"], row["seed"], "static") in makespans
        ]
        above = [float(row["above_optimum"] or 0) for row in own]
        found[f"{name}: mean above the optimum"] = round(statistics.fmean(above), 4)
        if ratios and name != "static":
            found[f"{name}: mean against static"] = round(statistics.fmean(ratios) - 1, 4)
            found[f"{name}: worst against static"] = round(max(ratios) - 1, 4)
    if many:
        found["mixes"] = len({row["scenario"] for row in cells})
    unproven = {str(row["scenario"]) for row in cells if "optimum_bound_s" in row}
    if many or unproven:
        found["optima not proven"] = len(unproven)
    return found


def _figures(played: Sequence[Played]) -> list[Any]:
    from dure.bench.route_plots import figures

    shown = {(str(one.row["scenario"]), str(one.row["policy"])): one.run for one in reversed(played[:12])}
    return figures([one.row for one in played], dict(reversed(shown.items())))
