"""What every benchmark prints: one JSON object, or a table, or a page with the plot.

A benchmark decorates its command with `bench_options`, builds a `Result` and hands it to `emit`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

import dure

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]
Command = TypeVar("Command", bound=Callable[..., Any])


class Result(msgspec.Struct, frozen=True):
    """`rows` are measured cells with policy, input and seed; `summary` holds the headline ratios."""

    bench: str
    rows: Sequence[Row]
    summary: Mapping[str, Any]
    version: str = dure.__version__


def bench_options(command: Command) -> Command:
    """The options that every benchmark has: `--json` and `--report FILE`."""
    json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    report_option = click.option(
        "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page with the plot."
    )
    return json_option(report_option(command))


def emit(result: Result, *, as_json: bool, report: Path | None, figures: Sequence[Any] = ()) -> None:
    """Print the result and, when asked, write the page with `figures` (Plotly) above the rows."""
    if report is not None:
        from dure.bench.page import write_page

        write_page(report, result, figures)
        click.echo(f"Report written to {report}", err=True)
    if as_json:
        json.dump(msgspec.to_builtins(result), sys.stdout)
        sys.stdout.write("\n")
        return
    _print_table(result)


def _print_table(result: Result) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_table(f"dure bench {result.bench}", result.rows))
    for name, value in result.summary.items():
        if isinstance(value, list):
            console.print(_table(name, value))
        else:
            console.print(f"{name}: {_text(value)}", highlight=False)


def _table(title: str, rows: Sequence[Row]) -> Any:
    from rich.table import Table

    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table(title=title, box=None, header_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_text(row.get(column)) for column in columns))
    return table


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
