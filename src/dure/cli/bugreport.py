"""`dure bugreport`: one file for whoever is to find the fault, without secrets; `dure sim --from` plays it."""

from __future__ import annotations

import gzip
import json
import platform
import sys
from pathlib import Path
from typing import Any

import click

import dure
from dure.cli.client import Client
from dure.cli.redact import redacted
from dure.cli.state import state_option
from dure.model.errors import DureError, InvalidInput

FORMAT = "dure-bugreport/1"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default="dure-bugreport.json.gz", show_default=True
)
@click.option("--fleet", "fleet_file", type=_FILE, help="Fleet file; the demo's fleet without it.")
@click.option("--lines", default=2000, show_default=True, type=click.IntRange(1, 5000), help="Of journal and events.")
@state_option
def command(out: Path, fleet_file: Path | None, lines: int, state: Path) -> None:
    """Gather fleet, workloads, decisions, events, figures and what `dure doctor` finds into one file.

    Tokens, passwords, keys, kubeconfigs and pod templates are removed; names of workloads and tenants stay. Look into
    it before you send it: zless FILE.

    \b
    Example:
      dure bugreport
      dure sim --from dure-bugreport.json.gz
    """
    import msgspec

    from dure.cli.fleet_file import fleet_and_catalogue

    fleet, _ = fleet_and_catalogue(fleet_file)
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": dure.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "fleet": msgspec.to_builtins(fleet),
        **_gathered(Client(state), lines),
        "doctor": _findings(state, fleet_file),
    }
    with gzip.open(out, "wt", encoding="utf-8") as file:
        json.dump(redacted(found), file)
    click.echo(f"{out}: {len(found['workloads'])} workloads, {len(found['decisions'])} decisions; look into it first")


def _gathered(client: Client, lines: int) -> dict[str, Any]:
    """What the server tells; a part that it does not answer is told as its problem."""
    parts: dict[str, Any] = {
        "status": lambda: client.get("/v1/status"),
        "workloads": lambda: client.items("/v1/workloads"),
        "decisions": lambda: client.get("/v1/decisions", newest="true", limit=lines)["items"],
        "events": lambda: client.get("/v1/events", newest="true", limit=lines)["items"],
        "policies": lambda: client.items("/v1/policies"),
        "weights": lambda: client.get("/v1/weights"),
        "ledger": lambda: client.get("/v1/ledger", by="day,cluster,pool,account"),
        "slo": lambda: client.get("/v1/slo")["items"],
        "anomalies": lambda: client.get("/v1/anomalies")["items"],
        "drift": lambda: client.get("/v1/drift")["items"],
        "metrics": lambda: client.text("/metrics"),
    }
    found: dict[str, Any] = {}
    for name, fetch in parts.items():
        try:
            found[name] = fetch()
        except DureError as error:
            if name in ("status", "workloads"):
                raise
            found[name] = {"problem": error.message}
    found.setdefault("decisions", [])
    return found


def _findings(state: Path, fleet_file: Path | None) -> list[dict[str, str]]:
    from dure.cli.doctor import findings

    return [one._asdict() for one in findings(state, fleet_file)]


def read_report(path: Path) -> tuple[Any, list[tuple[float, Any]], float]:
    """The fleet, its workloads with the moments of their submission, and the moment at which it was made."""
    import msgspec

    from dure.model.fleet import Connect, Fleet
    from dure.model.workload import WorkloadRecord

    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            body = json.load(file)
        if body.get("format") != FORMAT:
            raise InvalidInput(f"not a bug report of this version: {body.get('format')!r}", where=str(path))
        fleet = msgspec.convert(body["fleet"], Fleet, strict=False)
        records = msgspec.convert(body["workloads"], list[WorkloadRecord], strict=False)
        made_s = float(body["status"]["now_s"])
    except (OSError, EOFError, ValueError, KeyError, AttributeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"cannot read the bug report: {error}", where=str(path), remedy="Make one with: dure bugreport"
        ) from error
    # Played in virtual clusters, whatever they were, and without pod templates, which were removed.
    here = tuple(msgspec.structs.replace(one, connect=Connect(embedded=True)) for one in fleet.clusters)
    coming = [(one.status.submitted_s, msgspec.structs.replace(one.spec, template="")) for one in records]
    return msgspec.structs.replace(fleet, clusters=here), coming, made_s
