"""`dure cancel WORKLOAD`."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.client import Client
from dure.cli.output import output_options, print_data
from dure.cli.state import state_option


@click.command()
@click.argument("workloads", nargs=-1, required=True)
@output_options
@state_option
def command(workloads: tuple[str, ...], output: str, state: Path) -> None:
    """Stop workloads, running or waiting; what they have cost stays in the record.

    \b
    Example:
      dure cancel vision-train-0042
    """
    client = Client(state)
    records = [client.send("DELETE", f"/v1/workloads/{name}") for name in workloads]
    if output in ("json", "yaml"):
        print_data(records, output)
        return
    for name in workloads:
        click.echo(f"{name} cancelled.")
