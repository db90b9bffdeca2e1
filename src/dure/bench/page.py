"""The HTML page of a benchmark: plots, headline ratios, every row. One file, no network needed."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dure.bench.result import Result

_STYLE = """
:root{color-scheme:light dark;--line:#8884}
body{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
td,th{border-bottom:1px solid var(--line);padding:.2rem .6rem;text-align:right;vertical-align:bottom}
.text{text-align:left}
h2~table,h3~table{display:block;overflow-x:auto}
"""


# Read on a white page and on a black one alike: no ground of its own, grey letters and lines.
_LOOK = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": "#808080"},
    "margin": {"t": 60, "b": 50},
}
_AXIS = {"gridcolor": "rgba(128,128,128,.3)", "zerolinecolor": "rgba(128,128,128,.5)"}


def write_page(path: Path, result: Result, figures: Sequence[Any]) -> None:
    for figure in figures:
        figure.update_layout(**_LOOK)
        figure.update_xaxes(**_AXIS)
        figure.update_yaxes(**_AXIS)
    plots = "".join(
        figure.to_html(full_html=False, include_plotlyjs="inline" if index == 0 else False)
        for index, figure in enumerate(figures)
    )
    title = html.escape(f"dure bench {result.bench}")
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>Dure {html.escape(result.version)}</p>{plots}"
        f"<h2>Summary</h2>{_summary(result.summary)}<h2>Rows</h2>{_table(result.rows)}</html>",
        encoding="utf-8",
    )


def _summary(summary: Mapping[str, Any]) -> str:
    """Plain figures as one table; a list of rows or a group of figures as a table of its own."""
    flat = {name: value for name, value in summary.items() if not isinstance(value, (list, Mapping))}
    parts = [_table([{"figure": name, "value": value} for name, value in flat.items()])] if flat else []
    for name, value in summary.items():
        if name not in flat:
            rows = value if isinstance(value, list) else [_line(name, key, one) for key, one in value.items()]
            parts.append(f"<h3>{html.escape(name)}</h3>{_table(rows)}")
    return "".join(parts)


def _line(name: str, key: str, value: Any) -> dict[str, Any]:
    """A figure of the group `name`, or one that is a group itself: then each of its own has a column."""
    return {"": key, **value} if isinstance(value, Mapping) else {"": key, name: value}


def _table(rows: Sequence[Any]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    kinds = {column: _kind([row.get(column) for row in rows]) for column in columns}
    head = "".join(f"<th{kinds[column]}>{_name(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{kinds[column]}>{_cell(row.get(column))}</td>" for column in columns) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _kind(values: Sequence[Any]) -> str:
    """Words to the left, figures to the right, also where a figure comes as text ('97.7 ± 0.1')."""
    words = [value for value in values if isinstance(value, str) and not value[:1].isdigit()]
    return " class=text" if words else ""


def _name(column: str) -> str:
    """Long names of columns may break, so that a wide table fits the page."""
    return html.escape(column).replace("_", "_<wbr>")


def _cell(value: Any) -> str:
    return html.escape(f"{value:,.5g}" if isinstance(value, float) else "" if value is None else str(value))
