"""`dure get KIND`: lists of everything, as a table or for programs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.columns import KINDS
from dure.cli.output import output_options, print_data, print_table
from dure.cli.state import state_option

# Between two looks with --watch.
LOOK_S = 1.0


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS), case_sensitive=False))
@click.argument("name", required=False)
@output_options
@click.option("--tenant", help="Only this tenant's.")
@click.option("--all", "ended", is_flag=True, help="Workloads that have ended too.")
@click.option("--limit", type=click.IntRange(1, 5000), default=200, show_default=True, help="Events and decisions.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print what changes, until Ctrl-C.")
@state_option
def command(
    kind: str, name: str | None, output: str, tenant: str | None, ended: bool, limit: int, watch: bool, state: Path
) -> None:
    """List workloads, clusters, pools, devices, classes, tenants, policies, decisions or events.

    \b
    Example:
      dure get workloads
      dure get pools -o wide
      dure get events --watch
      dure get workloads vision-train-0042 -o yaml
    """
    client = Client(state)
    seen: dict[str, str] = {}
    head = True
    while True:
        items = _fetch(client, kind, name, tenant=tenant, ended=ended, limit=limit)
        fresh = [item for item in items if seen.get(_key(item)) != json.dumps(item)] if watch else items
        seen = {_key(item): json.dumps(item) for item in items}
        if fresh or not watch:
            _show(client, kind, fresh, output, single=name is not None, head=head)
            head = False
        if not watch:
            return
        try:
            time.sleep(LOOK_S)
        except KeyboardInterrupt:
            return


def _fetch(
    client: Client, kind: str, name: str | None, *, tenant: str | None, ended: bool, limit: int
) -> list[dict[str, Any]]:
    path = f"/v1/{kind}"
    if name is not None and kind in ("pools", "devices", "decisions", "events"):
        return [
            item for item in client.items(path) if name in (item.get("name"), item.get("id"), item.get("workload"))
        ]
    if name is not None:
        return [client.get(f"{path}/{name}")]
    if kind in ("decisions", "events"):
        newest = client.get(path, limit=limit, newest="true", tenant=tenant)
        return list(newest["items"])
    if kind == "workloads":
        return client.items(path, tenant=tenant, ended=None if ended else "false")
    return client.items(path)


def _show(client: Client, kind: str, items: list[dict[str, Any]], output: str, *, single: bool, head: bool) -> None:
    if output in ("json", "yaml"):
        print_data(items[0] if single and len(items) == 1 else items, output)
        return
    now_s = float(client.get("/v1/status")["now_s"])
    columns = [column for column in KINDS[kind] if output == "wide" or not column.wide]
    rows = [[column.cell(item, now_s) for column in columns] for item in items]
    if not rows:
        click.echo(f"No {kind}.", err=True)
        return
    print_table([column.title for column in columns], rows, head=head)


def _key(item: dict[str, Any]) -> str:
    for field in ("uid", "seq", "id", "name"):
        if field in item:
            return f"{item.get('cluster', '')}/{item.get('node', '')}/{item[field]}"
    return json.dumps(item)
