"""`dure status`: is it well, what does it cost now, what runs and waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import kilograms, moment, money, output_options, print_data, print_table, share
from dure.cli.state import state_option
from dure.cli.why import expected


@click.command()
@output_options
@state_option
def command(output: str, state: Path) -> None:
    """Show whether all is well, what it costs now, and what runs and waits.

    \b
    Example:
      dure status
      dure status --json
    """
    found = Client(state).get("/v1/status")
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    totals, unit = found["totals"], found.get("currency", "KRW")
    troubles = found.get("troubles", [])
    click.echo(f"{found['name']}: {'all is well' if not troubles else f'{len(troubles)} to look at'}"
               f"  ({moment(found['now_s'])}, clock x{found.get('speed', 1):g})")  # fmt: skip
    for trouble in troubles[:10]:
        click.echo(f"  ! {trouble['sentence']}   {trouble.get('remedy', '')}")
    click.echo(
        f"workloads  {totals.get('running', 0)} running, {totals.get('starting', 0)} starting, "
        f"{totals.get('held', 0) + totals.get('pending', 0)} waiting, {totals.get('done', 0)} done, "
        f"{totals.get('failed', 0)} failed"
    )
    click.echo(
        f"now        {money(totals.get('cost_per_hour_micros', 0))} {unit}/h, "
        f"{kilograms(totals.get('carbon_g_per_hour', 0.0))} CO2/h, "
        f"requests in time {share(totals.get('slo_attainment'))}"
    )
    for one in found.get("upcoming", []):
        start, finish = one["eta"]["start"], one["eta"].get("finish")
        name, said = ("start", start) if start["highest_s"] > found["now_s"] else ("finish", finish)
        if said:
            click.echo(f"next       {one['workload']}: {expected(name, said, found['now_s'])}")
    print_table(
        ["CLUSTER", "REGION", "DEVICES", "USED", f"{unit}/h", "CO2/h", "g/kWh", "SEEN"],
        [_row(cluster, found["now_s"]) for cluster in found["clusters"]],
    )


def _row(cluster: dict[str, Any], now_s: float) -> list[str]:
    devices = cluster.get("devices", 0)
    used = cluster.get("used_milli", 0) / 1000 / devices if devices else 0.0
    intensity = cluster.get("carbon_g_per_kwh")
    return [
        cluster["name"],
        cluster.get("region", ""),
        str(devices),
        share(used),
        money(cluster.get("cost_per_hour_micros", 0)),
        kilograms(cluster.get("carbon_g_per_hour", 0.0)),
        "unknown" if intensity is None else f"{intensity:.0f}",
        moment(cluster.get("observed_s"), now_s) if cluster.get("reachable", True) else "away",
    ]
