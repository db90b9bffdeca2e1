"""`dure version`."""

from __future__ import annotations

import json
import platform

import click

import dure


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """Print the version.

    \b
    Example:
      dure version --json
    """
    facts = {"dure": dure.__version__, "python": platform.python_version(), "platform": platform.platform()}
    click.echo(json.dumps(facts) if as_json else f"dure {facts['dure']} (Python {facts['python']})")
