"""`dure diff -f FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.changes import show_changes
from dure.cli.client import Client
from dure.cli.documents import file_option, read_text
from dure.cli.output import output_options
from dure.cli.state import state_option


@click.command()
@file_option
@output_options
@state_option
def command(files: tuple[str, ...], output: str, state: Path) -> None:
    """Show what `dure apply` would change; nothing is done.

    \b
    Example:
      dure diff -f examples/tenant.yaml
    """
    client = Client(state)
    show_changes([client.send("POST", "/v1/diff", read_text(name)) for name in files], output)
