"""Tables, JSON and YAML on standard output; numbers as a person reads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def output_options(command: Command) -> Command:
    """`-o table|wide|json|yaml`, and `--json` for short; handed on as `output`."""

    def chosen(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            ctx.params["output"] = "json"

    short = click.option("--json", is_flag=True, expose_value=False, callback=chosen, help="Same as -o json.")
    long = click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml"]),
        default="table",
        show_default=True,
        callback=lambda ctx, _param, value: ctx.params.get("output", value),
        help="How to print.",
    )
    return long(short(command))


def print_data(value: Any, output: str) -> None:
    """The whole answer, for programs."""
    if output == "yaml":
        import yaml

        yaml.dump(value, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
        return
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write("\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, head: bool = True) -> None:
    """Columns as wide as they need, two spaces apart; numbers to the right. Plain text, so it pipes well."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    right = [bool(rows) and all(_numeric(row[column]) for row in rows) for column in range(len(header))]
    for line in lines if head else lines[1:]:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _numeric(cell: str) -> bool:
    text = cell.strip()
    return text in ("", "-") or text.lstrip("-+").replace(",", "").replace(".", "", 1).rstrip(" %").isdigit()


def money(micros: int | None) -> str:
    return "-" if micros is None else f"{micros / 1_000_000:,.0f}"


def kilograms(grams: float | None) -> str:
    return "-" if grams is None else f"{grams / 1000:,.1f} kg"


def moment(at_s: float | None, now_s: float | None = None) -> str:
    """In the user's own time zone; the date only when it is not today's."""
    if at_s is None or at_s <= 0:
        return "-"
    local = datetime.fromtimestamp(at_s).astimezone()
    today = now_s is not None and datetime.fromtimestamp(now_s).astimezone().date() == local.date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"
