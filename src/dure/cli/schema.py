"""`dure schema`: JSON Schemas of the files, for editors."""

from __future__ import annotations

import json

import click

from dure.files.kind import KINDS
from dure.files.schema import schema, schema_of_all


@click.command()
@click.argument("kind", type=click.Choice(["all", *KINDS], case_sensitive=False), default="all")
def command(kind: str) -> None:
    """Print the JSON Schema of a kind, or one for all kinds.

    Editors with a YAML language server complete and check files with it.

    \b
    Example:
      dure schema Workload > workload.schema.json
      dure schema all      > dure.schema.json
    """
    known = {name.lower(): name for name in KINDS}
    found = schema_of_all() if kind.lower() == "all" else schema(known[kind.lower()])
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
