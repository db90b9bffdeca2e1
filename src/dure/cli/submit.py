"""`dure submit -f FILE`."""

from __future__ import annotations

import uuid
from pathlib import Path

import click

from dure.cli.client import Client
from dure.cli.documents import file_option, read_workloads
from dure.cli.output import output_options, print_data
from dure.cli.state import state_option


@click.command()
@file_option
@click.option("--key", help="Idempotency key: the same key never submits twice.")
@output_options
@state_option
def command(files: tuple[str, ...], key: str | None, output: str, state: Path) -> None:
    """Hand workloads to Dure.

    All files are checked before the first workload is sent.

    \b
    Example:
      dure submit -f examples/batch.yaml
      cat job.yaml | dure submit -f -
    """
    documents = [document for name in files for document in read_workloads(name, state)]
    client = Client(state)
    records = []
    for index, (name, text) in enumerate(documents):
        once = f"{key}/{index}" if key else uuid.uuid4().hex
        records.append(client.send("POST", "/v1/workloads", text, key=once))
        if output in ("table", "wide"):
            click.echo(f"{name} submitted. See: dure why {name}")
    if output in ("json", "yaml"):
        print_data(records, output)
