"""`dure prune`: cut off the oldest part of audit log, journal and ledger; what is left adds up and stays sealed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.cli.backup import store_option
from dure.cli.output import output_options, print_data
from dure.cli.state import state_option
from dure.files.params import KEPT
from dure.model.errors import NotFound
from dure.model.units import Instant

if TYPE_CHECKING:
    from dure.adapters.store import SqlStore


@click.command()
@click.option("--older-than", type=KEPT, required=True, help="How much is kept: 90d, 26w; at least 35d.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--unfinished", is_flag=True, help="Cut less where a workload that has not ended is older.")
@store_option
@output_options
@state_option
def command(older_than: float, dry_run: bool, unfinished: bool, store_url: str, output: str, state: Path) -> None:
    """Cut off what is older, in one transaction; Dure may run meanwhile. Keep a backup if you may ever want it back.

    Of the audit log the oldest lines go; a new line seals the cut, and `dure audit verify` begins there. Of the
    journal the decisions about workloads that had ended go. Of the ledger whole months become one line for each pool,
    account, tenant and model: bills of these months stay what they were, hours and workloads of them are forgotten.
    Workloads, charges, tenants, policies and tokens stay. `dure up --keep 90d` does the same by itself.

    \b
    Example:
      dure prune --older-than 90d --dry-run
      dure backup before.gz && dure prune --older-than 26w
    """
    from dure.adapters.acting import acting
    from dure.adapters.store import open_store
    from dure.model.who import PLANE

    database = state / "dure.db"
    if not store_url and not database.exists():
        raise NotFound(f"there is no database: {database}", remedy="Name one: --state DIR or --store URL.")
    store = open_store(store_url or f"sqlite:///{database}")
    try:
        now_s = _now(store)
        cut_s = now_s - older_than
        with acting(msgspec.structs.replace(PLANE, name="owner", via="cli"), "dure prune"):
            made = store.prune(store.latest_cut(cut_s) if unfinished else cut_s, now_s, dry_run=dry_run)
    finally:
        store.close()
    if output in ("json", "yaml"):
        print_data({**msgspec.to_builtins(made), "dry_run": dry_run}, output)
        return
    when = f"{datetime.fromtimestamp(made.cut_s, UTC):%Y-%m-%d %H:%M} UTC"
    if not made:
        click.echo(f"nothing is older than {when}")
        return
    would = "would go" if dry_run else "are gone"
    click.echo(f"before {when}: {made.lines} lines of the audit log, {made.decisions} decisions {would}")
    months = f"{made.months} month{'' if made.months == 1 else 's'}"
    click.echo(
        f"the ledger has {months} as sums, {made.postings} lines fewer; the log begins at line {made.first_line}"
    )


def _now(store: SqlStore) -> Instant:
    """This machine's time; the demo's clock runs ahead of it, and its newest decision tells how far."""
    newest = store.list_journal(newest=True, limit=1)
    return max(time.time(), newest[-1].at_s if newest else 0.0)
