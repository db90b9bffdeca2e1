"""`dure shadow POLICY`: what another policy would do, decided beside the live one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import kilograms, moment, money, output_options, print_data, print_table
from dure.cli.state import state_option


@click.command()
@click.argument("policy", required=False)
@click.option("--stop", is_flag=True, help="Switch the shadow off.")
@output_options
@state_option
def command(policy: str | None, stop: bool, output: str, state: Path) -> None:
    """Let POLICY decide beside the live one and report where they differ. It acts on nothing.

    POLICY is a place policy that was applied, or a method: regret, ruin, exact, rolling. Called again with the
    same name, or without one, it reports what was found so far.

    \b
    Example:
      dure shadow ruin
      dure shadow
      dure shadow --stop
    """
    client = Client(state)
    if stop:
        client.send("DELETE", "/v1/shadow")
        click.echo("The shadow is off.")
        return
    found = _started(client, policy) if policy else client.get("/v1/shadow")
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    _show(found, float(client.get("/v1/status")["now_s"]))


def _started(client: Client, policy: str) -> Any:
    from dure.model.errors import NotFound

    try:
        found = client.get("/v1/shadow")
    except NotFound:
        found = None
    same = found is not None and found["policy"]["name"] == policy
    return found if same else client.send("PUT", f"/v1/shadow/{policy}")


def _show(found: dict[str, Any], now_s: float) -> None:
    placed = found.get("placed", 0)
    since = moment(found["since_s"], now_s)
    click.echo(f"{found['policy']['name']} beside the live policy since {since}; nothing is acted on")
    rows = [
        ["placed by the live policy", str(placed), ""],
        ["the same place", str(found.get("same", 0)), ""],
        ["another place", str(found.get("elsewhere", 0)), ""],
        ["would have waited", str(found.get("would_wait", 0)), ""],
        ["would have started one that waits", str(found.get("would_start", 0)), ""],
        ["bill of those both placed", money(found.get("live_micros", 0)), money(found.get("shadow_micros", 0))],
        ["CO2 of them", kilograms(found.get("live_carbon_g", 0.0)), kilograms(found.get("shadow_carbon_g", 0.0))],
    ]
    print_table(["", "LIVE", "SHADOW"], rows)
    for one in found.get("newest", [])[-5:]:
        click.echo(f"  {one['workload']}: live {one['live'] or 'waits'}, shadow {one['shadow'] or 'waits'}")
