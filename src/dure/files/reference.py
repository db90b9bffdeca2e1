"""The reference of all keys as Markdown, from the same description that reads them.

`python -m dure.files.reference docs/files.md` renews the part of that page below its marker; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from dure.files.fleet import Embedded
from dure.files.hours import Hourly
from dure.files.kind import KINDS
from dure.files.shapes import Choice, ListOf, MapOf, Quantity, Record, Shape
from dure.files.workload import Accepted

MARKER = "<!-- Below this line: written by python -m dure.files.reference -->"


def reference() -> str:
    """One table per kind, nested keys with their path."""
    parts = []
    for kind, record in KINDS.items():
        rows = [f"| `{path}` | {label} | {doc} |" for path, label, doc in _rows(record, "")]
        head = ["| key | holds | meaning (**needed** keys say so) |", "|---|---|---|"]
        parts.append("\n".join([f"## {kind}", "", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def renewed(page: str) -> str:
    """The page with its generated part written anew."""
    prose, marker, _ = page.partition(MARKER)
    if not marker:
        raise SystemExit(f"The page has no line: {MARKER}")
    return f"{prose}{MARKER}\n\n{reference()}"


def _rows(record: Record, path: str) -> Iterator[tuple[str, str, str]]:
    for key in record.keys:
        at = f"{path}.{key.name}" if path else key.name
        yield at, _label(key.shape), f"**Needed.** {key.doc}" if key.required else key.doc
        inner, suffix = _inner(key.shape)
        if inner is not None:
            yield from _rows(inner, at + suffix)


def _inner(shape: Shape) -> tuple[Record | None, str]:
    """The record inside of a shape, and how its path goes on."""
    if isinstance(shape, Record):
        return shape, ""
    if isinstance(shape, ListOf) and isinstance(shape.item, Record):
        return shape.item, "[]"
    return None, ""


def _label(shape: Shape) -> str:
    match shape:
        case Quantity():
            units = ", ".join(suffix or "plain" for suffix in shape.unit.factors)
            return f"`{shape.unit.example}` ({units})"
        case Hourly():
            return f"`{shape.price.unit.example}` or hours"
        case Choice():
            return ", ".join(f"`{word}`" for word in shape.words)
        case Accepted():
            return "`a10g` or `{name: a10g, speed: 0.55}`"
        case Embedded():
            return "`{}`"
        case ListOf():
            return f"list: {_label(shape.item)}" if not isinstance(shape.item, Record) else "list"
        case MapOf():
            return f"mapping to {_label(shape.item)}"
        case _:
            return shape.kind


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(renewed(target.read_text("utf-8")), "utf-8")
