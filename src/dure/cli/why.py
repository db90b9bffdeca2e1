"""`dure why WORKLOAD`: the reasons, with numbers."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.client import Client
from dure.cli.output import moment, output_options, print_data, print_table
from dure.cli.state import state_option


@click.command()
@click.argument("workload")
@output_options
@state_option
def command(workload: str, output: str, state: Path) -> None:
    """Tell why a workload waits or why it is where it is.

    For one that waits: the pool of each cluster that is nearest to taking it, with the numbers that clash; all pools
    with -o wide.

    \b
    Example:
      dure why vision-train-0042
    """
    found = Client(state).get(f"/v1/workloads/{workload}/why")
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    click.echo(f"{found['workload']}  {found.get('headline', '')}")
    every = found.get("lines", [])
    near = [line for line in every if line.get("nearest")]
    lines = near if near and output == "table" else every
    if lines:
        rows = [["", line["where"], line["sentence"], line.get("reason") or ""] for line in lines]
        print_table(["", "", "", ""], rows, head=False)
    if len(lines) < len(every):
        click.echo(f"  and {len(every) - len(lines)} more pools: dure why {workload} -o wide")
    remedies = dict.fromkeys(line["remedy"] for line in lines if line.get("remedy"))
    for remedy in list(remedies)[:3] if output == "table" else remedies:
        click.echo(f"  -> {remedy}")
    if found.get("eta_s"):
        click.echo(
            f"expected start {moment(found['eta_s'], found['now_s'])}, {found.get('eta_note', '')}".rstrip(", ")
        )
    if found.get("scaling"):
        click.echo(f"  {found['scaling']}")
    for name in ("start", "finish") if found["phase"] in ("pending", "held") else ("finish",):
        said = (found.get("eta") or {}).get(name)
        if said:
            click.echo(expected(name, said, found["now_s"]))
    if output == "wide":
        for entry in found.get("journal", []):
            click.echo(f"  {moment(entry['at_s'], found['now_s'])}  #{entry['seq']} {entry['decision']['kind']}")


def expected(name: str, said: dict[str, float], now_s: float) -> str:
    """The middle, then what holds half and nine of ten cases. Said a little ago; what is to come is not past."""
    at = {key: moment(max(value, now_s), now_s) for key, value in said.items()}
    half, most = f"{at['low_s']} to {at['high_s']}", f"{at['lowest_s']} to {at['highest_s']}"
    return f"expected {name} {at['middle_s']}; one in two {half}; nine in ten {most}"
