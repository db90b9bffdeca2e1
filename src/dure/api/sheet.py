"""Any answer as CSV, for spreadsheets: nested fields get dotted names, lists inside a row are JSON text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from litestar import Response

CSV = "text/csv"


def sheet(items: Iterable[Any], name: str, columns: Sequence[str] = ()) -> Response[str]:
    """The items as a file `name`.csv; `columns` first and in that order, others as they are met."""
    return Response(
        text_of(items, columns),
        media_type=CSV,
        headers={"content-disposition": f'inline; filename="{name}.csv"'},
    )


def text_of(items: Iterable[Any], columns: Sequence[str] = ()) -> str:
    rows = [flat(msgspec.to_builtins(item)) for item in items]
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    made = io.StringIO()
    writer = csv.DictWriter(made, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _safe(value) for name, value in row.items()} for row in rows)
    return made.getvalue()


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            found |= flat(inner, f"{prefix}.{name}" if prefix else str(name))
        return found
    if isinstance(value, (list, tuple)):
        return {prefix or "value": json.dumps(value, ensure_ascii=False)}
    return {prefix or "value": value}


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula begins with a quote."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "@", "\t", "\r") else value
