"""`dure bill`: what a tenant, or everybody, was charged in a month."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import kilograms, money, output_options, print_data, print_table
from dure.cli.state import state_option


@click.command()
@click.argument("tenant", required=False)
@click.option("--month", metavar="YYYY-MM", help="In UTC; without it the present one.")
@click.option("--by", type=click.Choice(["cluster", "day", "tenant"]), default="cluster", show_default=True)
@click.option("--csv", "as_csv", is_flag=True, help="Every charge by day, tenant and cluster, for a spreadsheet.")
@output_options
@state_option
def command(tenant: str | None, month: str | None, by: str, as_csv: bool, output: str, state: Path) -> None:
    """What was charged: rent, and electricity where its owner pays it, of everything that ran.

    Running workloads are charged every half hour and when they end. Amounts are exact to a millionth inside;
    the lines of a table are rounded each for itself, its total is not their sum.

    \b
    Example:
      dure bill vision
      dure bill vision --month 2026-10 --by day
      dure bill --by tenant
      dure bill --csv > november.csv
    """
    client = Client(state)
    rows = client.items("/v1/charges", month=month, tenant=tenant)
    if as_csv:
        _print_csv(rows)
    elif output in ("json", "yaml"):
        print_data(rows, output)
    else:
        _print_table(rows, tenant, by, client.get("/v1/status").get("currency", "KRW"))


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["day", "tenant", "cluster", "micros", "carbon_g"])
    writer.writerows([row["day"], row["tenant"], row["cluster"], row["micros"], row["carbon_g"]] for row in rows)


def _print_table(rows: list[dict[str, Any]], tenant: str | None, by: str, currency: str) -> None:
    if not rows:
        click.echo(f"nothing was charged{f' to {tenant}' if tenant else ''}")
        return
    sums: dict[str, tuple[int, float]] = {}
    for row in rows:
        micros, grams = sums.get(row[by], (0, 0.0))
        sums[row[by]] = (micros + row["micros"], grams + row["carbon_g"])
    total = sum(micros for micros, _ in sums.values())
    print_table(
        [by.upper(), currency, "CO2", "SHARE"],
        [
            *([name, money(micros), kilograms(grams), f"{_share(micros, total)} %"]
              for name, (micros, grams) in sorted(sums.items())),
            ["total", money(total), kilograms(sum(grams for _, grams in sums.values())), "100 %"],
        ],
    )  # fmt: skip


def _share(micros: int, total: int) -> str:
    return f"{100 * micros / total:.1f}" if total else "0"
