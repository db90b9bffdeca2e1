"""`dure doctor`: looks at everything a running Dure hangs on; each finding comes with its remedy."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

import dure
from dure.cli.client import Client
from dure.cli.output import output_options, print_data
from dure.cli.state import state_option
from dure.model.errors import DureError

_LITTLE_DISK_MIB = 512
_SKEW_S = 5.0
_SEEN_S = 300.0


class Finding(NamedTuple):
    """`level`: ok, warning or error."""

    check: str
    level: str
    message: str
    remedy: str = ""


@click.command()
@output_options
@state_option
@click.pass_context
def command(ctx: click.Context, output: str, state: Path) -> None:
    """Check the state folder, the server, its versions and clock, the member clusters and their figures.

    Exit code 1 when something is wrong; warnings alone leave it at 0.

    \b
    Example:
      dure doctor
      dure doctor --json
    """
    findings = [*_folder(state), *_server(state)]
    if output in ("json", "yaml"):
        print_data([one._asdict() for one in findings], output)
    else:
        for one in findings:
            click.echo(f"{'ok' if one.level == 'ok' else one.level.upper():<8} {one.check:<10} {one.message}")
            if one.remedy:
                click.echo(f"{'':<19} {one.remedy}")
    if any(one.level == "error" for one in findings):
        ctx.exit(1)


def _folder(state: Path) -> Iterator[Finding]:
    if not state.is_dir():
        yield Finding("state", "warning", f"{state} is not there", "Start Dure once with 'dure up'.")
        return
    free_mib = shutil.disk_usage(state).free // 2**20
    if free_mib < _LITTLE_DISK_MIB:
        yield Finding("disk", "error", f"{free_mib} MiB are free below {state}", "Make room, or move --state.")
    else:
        yield Finding("disk", "ok", f"{free_mib:,} MiB free below {state}")
    token = state / "token"
    if token.exists() and stat.S_IMODE(token.stat().st_mode) & 0o077:
        yield Finding("token", "error", f"others can read {token}", f"chmod 600 {token}")
    elif token.exists():
        yield Finding("token", "ok", "only its owner can read it")


def _server(state: Path) -> Iterator[Finding]:
    try:
        client = Client(state)
        health = client.get("/healthz")
    except DureError as error:
        yield Finding("server", "error", error.message, error.remedy)
        return
    yield Finding("server", "ok", f"answers at {client.url}")
    if health["version"] == dure.__version__:
        yield Finding("version", "ok", f"{dure.__version__} here and there")
    else:
        there = f"the server is {health['version']}, this command {dure.__version__}"
        yield Finding("version", "warning", there, "Install the same version on both sides.")
    for check in (_ready, _fleet):
        try:
            yield from check(client)
        except DureError as error:
            yield Finding(check.__name__.strip("_"), "error", error.message, error.remedy)


def _ready(client: Client) -> Iterator[Finding]:
    client.get("/readyz")
    yield Finding("ready", "ok", "the store answers and the fleet has been seen")


def _fleet(client: Client) -> Iterator[Finding]:
    status = client.get("/v1/status")
    speed = status.get("speed", 1.0)
    if speed == 1.0:
        skew_s = abs(status["now_s"] - time.time())
        when = datetime.fromtimestamp(status["now_s"], UTC).isoformat(timespec="seconds")
        if skew_s > _SKEW_S:
            yield Finding("clock", "warning", f"the server's is {skew_s:.0f} s off ({when})", "Let both follow NTP.")
        else:
            yield Finding("clock", "ok", "both agree")
    for cluster in status["clusters"]:
        yield from _cluster(cluster, status["now_s"])
    for trouble in status.get("troubles", ()):
        yield Finding("trouble", "warning", trouble["sentence"], trouble.get("remedy", ""))


def _cluster(cluster: dict[str, Any], now_s: float) -> Iterator[Finding]:
    name, seen_s = cluster["name"], now_s - cluster.get("observed_s", 0.0)
    checks: tuple[tuple[Callable[[], bool], str, str, str], ...] = (
        (lambda: cluster.get("reachable", True), "error", f"{name}: its agent does not report",
         "Is it running? In the cluster: kubectl -n dure-system logs deploy/dure-agent"),
        (lambda: seen_s <= _SEEN_S, "warning", f"{name}: last seen {seen_s:.0f} s ago",
         "Placement waits for fresh figures; look at the agent's log."),
        (lambda: cluster.get("devices", 0) > 0, "warning", f"{name}: no device seen",
         "Do its nodes carry the pool's label, and does the vendor's device plugin run?"),
        (lambda: cluster.get("carbon_g_per_kwh") is not None, "warning", f"{name}: its grid's carbon is unknown",
         "Unknown hours count as the worst known grid. Name a source in the fleet file: carbonSource."),
    )  # fmt: skip
    wrong = [Finding("cluster", level, message, remedy) for well, level, message, remedy in checks if not well()]
    yield from wrong[:1] if wrong and wrong[0].level == "error" else wrong
    if not wrong:
        yield Finding("cluster", "ok", f"{name}: {cluster['devices']} devices, seen {max(0.0, seen_s):.0f} s ago")
