"""`dure migrate`: the schema of the database, forward to what this version knows or back to an older one."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.backup import store_option
from dure.cli.state import state_option
from dure.model.errors import NotFound


@click.command()
@click.option("--to", "revision", default="", help="The schema to go to; the newest of this version if left out.")
@store_option
@state_option
def command(revision: str, store_url: str, state: Path) -> None:
    """Take the schema of the database forward, or back for an older version of Dure.

    `dure up` migrates forward by itself. Going back is for the newer version to do, once only older ones run; what
    only the newer schema holds is lost with it, so make a backup first.

    \b
    Example:
      dure migrate
      dure migrate --to 0003 --store postgresql://dure@localhost/dure
    """
    from dure.adapters.store.connect import HEAD, migrate

    database = state / "dure.db"
    if not store_url and not database.exists():
        raise NotFound(f"there is no database: {database}", remedy="Name one: --state DIR or --store URL.")
    before, after = migrate(store_url or f"sqlite:///{database}", revision or HEAD)
    click.echo(f"The schema is {after}{', as before' if before == after else f'; it was {before}'}.")
