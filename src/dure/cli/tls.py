"""`dure tls`: the authority of `dure up --tls`."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.state import state_option
from dure.model.errors import NotFound


@click.group()
def command() -> None:
    """The authority that signs the certificates of `dure up --tls`.

    \b
    Example:
      dure tls show
      dure tls rotate
    """


@command.command()
@state_option
def show(state: Path) -> None:
    """Print the authorities to trust, in PEM; for browsers and for DURE_CA on other machines."""
    click.echo(_folder(state).joinpath("ca.crt").read_text(), nl=False)


@command.command()
@state_option
def rotate(state: Path) -> None:
    """Make a new authority. The old one stays trusted in ca.crt until it ends.

    A running Dure takes a certificate of the new one within the hour. Give the new ca.crt to agents and browsers
    before the old certificates end, at most 90 days.
    """
    from dure.adapters.pki import Authority

    authority = Authority(_folder(state))
    authority.rotate()
    click.echo(f"{authority.bundle} has a new authority")


def _folder(state: Path) -> Path:
    folder = state / "tls"
    if not (folder / "ca.key").exists():
        raise NotFound("there is no authority here", where=str(folder), remedy="Start once with: dure up --tls")
    return folder
