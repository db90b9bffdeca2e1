"""`dure bill`: what a tenant, or everybody, was charged in a month, and where the money of the fleet went."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import kilograms, moment, money, output_options, print_data, print_table
from dure.cli.state import state_option
from dure.model.errors import InvalidInput

# What is charged is kept by these; the ledger knows the rest.
_CHARGED = ("cluster", "day", "tenant")
_LEDGER = ("model", "workload", "pool", "account", "hour")


@click.command()
@click.argument("tenant", required=False)
@click.option("--month", metavar="YYYY-MM", help="In UTC; without it the present one.")
@click.option("--by", type=click.Choice([*_CHARGED, *_LEDGER]), default="cluster", show_default=True)
@click.option("--csv", "as_csv", is_flag=True, help="Every charge by day, tenant and cluster, for a spreadsheet.")
@click.option("--focus", is_flag=True, help="The month's ledger in the FinOps FOCUS format, as CSV.")
@click.option("--forecast", is_flag=True, help="What the next day will cost instead, by the hour, with its range.")
@output_options
@state_option
def command(
    tenant: str | None,
    month: str | None,
    by: str,
    as_csv: bool,
    focus: bool,
    forecast: bool,
    output: str,
    state: Path,
) -> None:
    """What was charged: rent, and electricity where its owner pays it, of everything that ran.

    Running workloads are charged every half hour and when they end, from the decision on. By model, workload, pool,
    account or hour the ledger answers instead: what the devices that were held really cost, metered every five
    minutes; its account 'paid' is the other side of all others and is left out of the sum. Amounts are exact to a
    millionth inside; the lines of a table are rounded each for itself, its total is not their sum.

    With --forecast the next 24 hours: of a tenant from its own ledger (what the devices that it held cost), of the
    fleet from what all devices cost. LOW and HIGH hold eight of ten cases of each hour.

    \b
    Example:
      dure bill vision
      dure bill vision --month 2026-10 --by day
      dure bill vision --by model
      dure bill --csv > november.csv
      dure bill --focus --month 2026-11 > focus.csv
      dure bill vision --forecast
    """
    if forecast and (month or focus):
        raise click.UsageError("--forecast is about the next day: leave out --month and --focus.")
    client = Client(state)
    if forecast:
        _forecast(client, tenant, as_csv, output)
        return
    if focus:
        sys.stdout.write(client.text("/v1/focus.csv", tenant=tenant, **_window(client, month)))
        return
    if by in _LEDGER:
        rows = _ledger(client, tenant, month, by)
    else:
        rows = client.items("/v1/charges", month=month, tenant=tenant)
    if as_csv:
        _print_csv(rows)
    elif output in ("json", "yaml"):
        print_data(rows, output)
    else:
        _print_table(rows, tenant, by, client.get("/v1/status").get("currency", "KRW"))


def _forecast(client: Client, tenant: str | None, as_csv: bool, output: str) -> None:
    if as_csv:
        sys.stdout.write(client.text("/v1/forecast/cost/sheet.csv", tenant=tenant))
        return
    found = client.get("/v1/forecast/cost", tenant=tenant)
    if output in ("json", "yaml"):
        print_data(found, output)
        return
    whose = found.get("tenant") or "the fleet"
    if not found["ahead"]:
        click.echo(f"{whose} has too little past to say anything")
        return
    currency = client.get("/v1/status").get("currency", "KRW")
    rows = [
        [moment(at_s), money(round(middle)), money(round(low)), money(round(high))]
        for at_s, (low, middle, high) in found["ahead"]
    ]
    print_table(["HOUR", currency, "LOW", "HIGH"], rows)
    total = sum(values[1] for _, values in found["ahead"])
    past = f"{len(found['past'])} hours of past, {found['method']}"
    click.echo(f"{whose}: {money(round(total))} {currency} expected in the next day ({past})")


def _ledger(client: Client, tenant: str | None, month: str | None, by: str) -> list[dict[str, Any]]:
    found = client.get("/v1/ledger", by=f"{by},group", tenant=tenant, **_window(client, month))
    return [
        {by: item["by"][by] or "(nobody)", "micros": item["micros"], "carbon_g": item["carbon_g"]}
        for item in found["items"]
        if item["by"]["group"] != "paid"
    ]


def _window(client: Client, month: str | None) -> dict[str, str]:
    """From the first of the month to now, or to the first of the next."""
    now_s = float(client.get("/v1/status")["now_s"])
    try:
        first = datetime.strptime(month or f"{datetime.fromtimestamp(now_s, UTC):%Y-%m}", "%Y-%m").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInput(f"month '{month}' is not a month", remedy="Write it as 2026-11.") from error
    following = (first + timedelta(days=32)).replace(day=1)
    return {
        "since_s": str(first.timestamp()),
        "until_s": str(min(following.timestamp(), max(now_s, first.timestamp()))),
    }


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else ["day", "tenant", "cluster", "micros", "carbon_g"])
    writer.writeheader()
    writer.writerows(rows)


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
