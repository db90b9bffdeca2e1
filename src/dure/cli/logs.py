"""`dure logs WORKLOAD`: what happened to it, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import moment, output_options, print_data
from dure.cli.state import state_option


@click.command()
@click.argument("workload")
@click.option("--follow", is_flag=True, help="Go on with what happens next, until Ctrl-C.")
@output_options
@state_option
def command(workload: str, follow: bool, output: str, state: Path) -> None:
    """Print what happened to a workload: submitted, placed, running, moved, done.

    \b
    Example:
      dure logs vision-train-0042 --follow
    """
    client = Client(state)
    record = client.get(f"/v1/workloads/{workload}")
    events = [event for event in client.items("/v1/events", limit=1000) if event.get("workload") == workload]
    if output in ("json", "yaml"):
        print_data(events, output)
        return
    submitted = record["status"].get("submitted_s")
    click.echo(f"{moment(submitted)}  Submitted  {workload} by tenant {record['spec']['tenant']}")
    for event in events:
        _print(event)
    if follow:
        last = str(events[-1]["seq"]) if events else ""
        try:
            for line in client.stream("/v1/events", last=last):
                event = json.loads(line)
                if event.get("workload") == workload:
                    _print(event)
        except KeyboardInterrupt:
            return


def _print(event: dict[str, Any]) -> None:
    click.echo(f"{moment(event['at_s'])}  {event['kind']:<9}  {event['message']}")
