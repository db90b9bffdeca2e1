"""JSON Schemas of the kinds, from the same description that reads them; editors complete files with these.

Served by the REST API and printed by `dure schema KIND`.
"""

from __future__ import annotations

from typing import Any

from dure.files.kind import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(kind: str) -> dict[str, Any]:
    """The schema of one kind. What needs the whole document, such as names that exist, is left to `dure check`."""
    body = KINDS[kind].schema()
    return {"$schema": DIALECT, "$id": f"https://dure.dev/schema/v1alpha1/{kind.lower()}.json", "title": kind, **body}


def schema_of_all() -> dict[str, Any]:
    """One schema for files that may hold any kind; the key `kind` decides."""
    branches = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": record.schema()}
        for kind, record in KINDS.items()
    ]
    return {
        "$schema": DIALECT,
        "$id": "https://dure.dev/schema/v1alpha1/all.json",
        "title": "Dure",
        "type": "object",
        "properties": {"kind": {"enum": list(KINDS)}},
        "required": ["kind"],
        "allOf": branches,
    }
