"""`dure plan -f FILE`: what would happen and what it would cost; nothing is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.documents import file_option, read_workloads
from dure.cli.output import kilograms, moment, money, output_options, print_data, print_table
from dure.cli.state import state_option

TERMS = ("ENERGY", "CO2 COST", "SLA", "REWORK", "MOVE", "TRAFFIC", "WARM", "DATA")


@click.command()
@file_option
@output_options
@state_option
def command(files: tuple[str, ...], output: str, state: Path) -> None:
    """Show where a workload would go, what each option costs and emits, and why others are ruled out.

    \b
    Example:
      dure plan -f examples/training.yaml
    """
    client = Client(state)
    plans = [client.send("POST", "/v1/plan", text) for name in files for _, text in read_workloads(name, state)]
    if output in ("json", "yaml"):
        print_data(plans, output)
        return
    for plan in plans:
        _show(plan, wide=output == "wide")
    click.echo(f"Nothing was changed. Submit with: dure submit -f {files[0]}")


def _show(plan: dict[str, Any], *, wide: bool) -> None:
    unit = plan.get("currency", "KRW")
    click.echo(f"{plan['workload']}  (money in {unit})" + (f"  {plan['note']}" if plan.get("note") else ""))
    header = [
        "",
        "PLACE",
        "CLASS",
        "START",
        "PRICE",
        "ENERGY",
        "CO2",
        "CO2 COST",
        "SLA",
        "REWORK",
        "MOVE",
        "TRAFFIC",
        "WARM",
        "DATA",
        "TOTAL",
        "WHY NOT",
    ]
    rows = [_row(option, plan["now_s"]) for option in plan["options"]]
    # A term that is nothing everywhere says nothing: it is shown with -o wide.
    keep = [index for index, title in enumerate(header) if wide or title not in TERMS or _told(rows, index)]
    print_table([header[index] for index in keep], [[row[index] for index in keep] for row in rows])


def _told(rows: list[list[str]], index: int) -> bool:
    return any(row[index] not in ("-", money(0)) for row in rows)


def _row(option: dict[str, Any], now_s: float) -> list[str]:
    bill = option.get("bill", {})
    spot = " spot" if option["capacity"] == "spot" else ""
    place = [f"{option['cluster']}/{option['pool']}", option["class_name"] + spot]
    verdict = option["verdict"]
    if verdict.get("reason") and not bill:
        return ["", *place, *["-"] * 12, f"{verdict['reason']}: {_clash(verdict)}"]
    return [
        "*" if option.get("chosen") else "",
        *place,
        moment(option.get("start_s"), now_s),
        money(bill.get("direct", 0)),
        money(bill.get("energy", 0)),
        kilograms(bill.get("carbon_g", 0.0)) if not bill.get("carbon_unknown") else "unknown",
        money(bill.get("carbon", 0)),
        money(bill.get("sla", 0)),
        money(bill.get("rework", 0)),
        money(bill.get("migration", 0)),
        money(bill.get("traffic", 0)),
        money(-bill.get("warm_saved", 0)),
        money(-bill.get("data_saved", 0)),
        money(option.get("total_micros", 0)),
        f"{verdict['reason']}: {_clash(verdict)}" if verdict.get("reason") else "",
    ]


def _clash(verdict: dict[str, Any]) -> str:
    wanted, found = verdict.get("wanted", ""), verdict.get("found", "")
    return f"needs {wanted}, {found}" if wanted and found else wanted or found or verdict.get("detail", "")
