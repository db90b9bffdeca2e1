"""`dure cluster`: let member clusters join."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.state import state_option


@click.group()
def command() -> None:
    """Member clusters with agents of their own.

    \b
    Example:
      dure cluster join seoul
    """


@command.command()
@click.argument("name")
@state_option
def join(name: str, state: Path) -> None:
    """Print the command with which the agent of cluster NAME joins. Its token works once, within a day.

    \b
    Example:
      dure cluster join seoul
    """
    from dure.cli.client import Client

    client = Client(state)
    made = client.send("POST", f"/v1/clusters/{name}/join-tokens")
    click.echo(f"dure agent --cluster {name} --plane {client.url} --kubeconfig FILE --join {made['token']}")
