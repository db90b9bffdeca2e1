"""`dure report`: a stretch of time for those who pay, as one HTML file and one CSV file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import money, share
from dure.cli.state import state_option
from dure.files.params import SEED

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--since", default="7d", show_default=True, help="How far back: 24h, 7d, 4w.")
@click.option("--out", type=_OUT, default="dure-report.html", show_default=True, help="Beside it comes a .csv file.")
@click.option("--fleet", "fleet_file", type=_FILE, help="Fleet file for the replay; the demo's fleet without it.")
@click.option("--replay/--no-replay", default=True, show_default=True, help="Measure the saving; takes a while.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of failures and reclaims in the replay.")
@state_option
def command(since: str, out: Path, fleet_file: Path | None, replay: bool, seed: int, state: Path) -> None:
    """Cost, carbon, promises and waste of the last days, with advice; nothing in the file needs a network.

    The saving is measured: what was submitted is played again in virtual time, once with Dure's placement and once
    with a fixed list (first class, first cluster, at once, no spot, no moves), through the same agents.

    \b
    Example:
      dure report --since 7d
      dure report --since 24h --no-replay --out yesterday.html
    """
    from dure.cli.report_data import collect, replayed_savings
    from dure.cli.report_page import write_page

    client = Client(state)
    found = collect(client, since)
    savings = None
    if replay:
        with click.progressbar(length=2000, label="replaying twice", file=sys.stderr) as bar:
            savings = replayed_savings(
                client, found, fleet_file, seed, lambda done: bar.update(int(done * 2000) - bar.pos)
            )
    table = out.with_suffix(".csv")
    write_page(out, found, savings)
    table.write_text(found.sheet, encoding="utf-8")
    _show(found, savings, out, table)


def _show(found: Any, savings: Any, out: Path, table: Path) -> None:
    ledger, unit = found.ledger, found.currency
    paid = max(1, ledger["paid_micros"])
    click.echo(
        f"paid {money(ledger['paid_micros'])} {unit}: used {share(ledger['used_micros'] / paid)}, "
        f"idle {share(ledger['idle_micros'] / paid)}, overhead {share(ledger['overhead_micros'] / paid)}"
    )
    if savings is not None:
        click.echo(
            f"with a fixed placement the same work is charged {money(savings.fixed.cost_micros)} {unit}, "
            f"with Dure's {money(savings.dure.cost_micros)} ({share(savings.part)} less)"
        )
    click.echo(f"{out} and {table} written", err=True)
