"""`dure sim`: the same brain in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dure.cli.output import kilograms, money, output_options, print_data, print_table, share, span
from dure.files.params import SEED, FiniteRange

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--fleet", "fleet_file", type=_FILE, help="Fleet file; the demo's fleet without it.")
@click.option("--workloads", "workload_file", type=_FILE, help="Workload file; the demo's stream without it.")
@click.option("--from", "report_file", type=_FILE, help="Play a bug report again: its fleet, workloads and time.")
@click.option("--days", type=FiniteRange(0.01, 366), default=7.0, show_default=True, help="How long.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Same seed, same bytes.")
@click.option("--moves/--no-moves", default=True, show_default=True, help="Whether running workloads may move.")
@output_options
def command(
    fleet_file: Path | None,
    workload_file: Path | None,
    report_file: Path | None,
    days: float,
    seed: int,
    moves: bool,
    output: str,
) -> None:
    """Run a fleet for days in seconds; report cost, CO2, waiting, SLO and utilisation.

    Workloads of a file are submitted at the start, one second apart.

    \b
    Example:
      dure sim --days 7 --json
      dure sim --fleet examples/fleet.yaml --workloads jobs.yaml --days 1
      dure sim --days 1 --no-moves      # what moves are worth: compare the cost
      dure sim --from dure-bugreport.json.gz
    """
    import msgspec

    from dure.adapters.memory.stream import arrivals, standing
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.cli.garbage import collect_seldom
    from dure.embedded.week import START_S, Run, simulate, without_moves
    from dure.model.units import DAY_S

    fleet, catalogue = fleet_and_catalogue(fleet_file)
    start_s = START_S
    if report_file is not None:
        from dure.cli.bugreport import read_report

        fleet, coming, made_s = read_report(report_file)
        catalogue = msgspec.structs.replace(catalogue, classes={**catalogue.classes, **fleet.classes})
        start_s = min((at_s for at_s, _ in coming), default=made_s - 3600)
        days = max(0.01, (made_s - start_s) / DAY_S)
    elif workload_file is not None:
        from dure.files import read_files

        found = read_files([workload_file]).workloads
        coming = [(START_S + index, workload) for index, workload in enumerate(found)]
    else:
        served = [(START_S, workload) for workload in standing(fleet, catalogue)]
        coming = [*served, *arrivals(fleet, catalogue, seed, START_S, START_S + days * DAY_S)]
    fleet = fleet if moves else without_moves(fleet)
    collect_seldom()
    with click.progressbar(length=1000, label=f"{days:g} days, {len(coming)} workloads", file=sys.stderr) as bar:
        summary = simulate(
            Run(fleet, catalogue, coming, days=days, seed=seed, start_s=start_s),
            lambda done: bar.update(int(done * 1000) - bar.pos),
        )
    answer = msgspec.to_builtins(summary)
    if output in ("json", "yaml"):
        print_data(answer, output)
        return
    click.echo(
        f"{summary.submitted} submitted, {summary.done} done, {summary.failed} failed, {summary.running} running, "
        f"{summary.waiting} waiting; {summary.restarts} restarts, {summary.decisions} decisions"
    )
    click.echo(
        f"{money(summary.cost_micros)} {summary.currency}, {kilograms(summary.carbon_kg * 1000)} CO2, "
        f"utilisation {share(summary.utilisation)}, requests in time {share(summary.slo_attainment)}, "
        f"deadlines met {share(summary.deadlines_met)}"
    )
    click.echo(
        f"waited {span(summary.wait_mean_s)} on average (median {span(summary.wait_p50_s)}, "
        f"95th {span(summary.wait_p95_s)})"
    )
    rows = [
        [name, money(int(one["cost_micros"])), kilograms(one["carbon_kg"] * 1000), share(one["utilisation"])]
        for name, one in summary.by_cluster.items()
    ]
    print_table(["CLUSTER", summary.currency, "CO2", "USED"], rows)
