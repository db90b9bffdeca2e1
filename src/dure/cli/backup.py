"""`dure backup` and `dure restore`: everything the store holds as one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from dure.cli.state import state_option
from dure.model.errors import Conflict, NotFound

store_option = click.option(
    "--store", "store_url", default="", envvar="DURE_STORE", help="Database URL; else that of the state folder."
)


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@store_option
@state_option
def command(out: Path, store_url: str, state: Path) -> None:
    """Write everything that the store holds into the file OUT, as of one moment; Dure may run meanwhile.

    Workloads, history, charges, tenants, policies, tokens (as digests) and the audit log. The token file and the
    certificates of the state folder are secrets of their own and not in it.

    \b
    Example:
      dure backup dure-2026-11-16.gz
      dure restore dure-2026-11-16.gz --store postgresql://dure@localhost/dure
    """
    from dure.adapters.store import open_store
    from dure.adapters.store.backup import backup

    database = state / "dure.db"
    if not store_url and not database.exists():
        raise NotFound(f"there is no database: {database}", remedy="Name one: --state DIR or --store URL.")
    if out.exists():
        raise Conflict(f"{out} is there already", remedy="Take another name, or remove it first.")
    store = open_store(store_url or f"sqlite:///{database}")
    try:
        click.echo(f"{backup(store, out)} rows are in {out}")
    finally:
        store.close()


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@state_option
def restore_command(file: Path, store_url: str, state: Path) -> None:
    """Read a backup into an empty store, of the same or the other kind, and check it against its audit log.

    \b
    Example:
      dure restore dure-2026-11-16.gz --state ./recovered
    """
    from dure.adapters.store import open_store
    from dure.adapters.store.backup import restore

    store = open_store(store_url or f"sqlite:///{state / 'dure.db'}")
    try:
        count = restore(store, file)
        lines, findings = store.verify_audit()
        if findings:
            raise Conflict(
                f"{count} rows are back, but {len(findings)} things are not as the audit log says",
                remedy="See: dure audit verify",
            )
        click.echo(f"{count} rows are back; {lines} lines of the audit log agree")
    finally:
        store.close()
