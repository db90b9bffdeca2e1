"""`dure doctor`: looks at everything a running Dure hangs on; each finding comes with its remedy."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

import dure
from dure.cli.client import Client
from dure.cli.doctor_kube import certificate_findings, cluster_findings, kubeconfig_findings
from dure.cli.finding import Finding
from dure.cli.output import output_options, print_data
from dure.cli.state import state_option
from dure.model.errors import DureError

_LITTLE_DISK_MIB = 512
_SKEW_S = 5.0
_SEEN_S = 300.0
_FIGURES_S = 120.0
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--fleet", "fleet_file", type=_FILE, help="Fleet file: look at its clusters themselves, and its rights."
)
@click.option("--kubeconfig", type=_FILE, help="Look at the cluster that this file reaches, and its rights.")
@click.option("--context", default="", help="Context of the kubeconfig; its current one if left out.")
@output_options
@state_option
@click.pass_context
def command(
    ctx: click.Context, fleet_file: Path | None, kubeconfig: Path | None, context: str, output: str, state: Path
) -> None:
    """Check the state folder, the server, its version, clock, certificate, figures, books, promises, the clusters.

    With a fleet file the API server of each cluster that has a kubeconfig is asked too, with --kubeconfig that one:
    its version, and whether the service accounts of agent and gateway (dure-system/dure-agent, dure-gateway) may do
    everything they have to. Each right that lacks is named with the rule and the command that bring it back. Where
    neither account exists, the kubeconfig's own is asked about. Exit code 1 when something is wrong; warnings leave
    it at 0.

    \b
    Example:
      dure doctor
      dure doctor --fleet fleet.yaml --json
      dure doctor --kubeconfig ~/.kube/config --context seoul
    """
    if context and kubeconfig is None:
        raise click.UsageError("--context goes with --kubeconfig.")
    if kubeconfig is not None:
        from dure.adapters.kube.rest import Api

        # A file that is none is a wrong option, not a finding about a cluster.
        Api.from_kubeconfig(kubeconfig, context).close()
    found = findings(state, fleet_file)
    if kubeconfig is not None:
        found += kubeconfig_findings(context or "cluster", kubeconfig, context)
    if output in ("json", "yaml"):
        print_data([one._asdict() for one in found], output)
    else:
        for one in found:
            click.echo(f"{'ok' if one.level == 'ok' else one.level.upper():<8} {one.check:<10} {one.message}")
            for line in one.remedy.splitlines():
                click.echo(f"{'':<19} {line}")
    if any(one.level == "error" for one in found):
        ctx.exit(1)


def findings(state: Path, fleet_file: Path | None = None) -> list[Finding]:
    """Everything that was looked at, in order."""
    members = list(_members(fleet_file)) if fleet_file else []
    return [*_folder(state), *_server(state), *members]


def _members(fleet_file: Path) -> Iterator[Finding]:
    from dure.cli.fleet_file import fleet_and_catalogue

    fleet, _ = fleet_and_catalogue(fleet_file)
    yield Finding("fleet", "ok", f"{fleet_file}: {len(fleet.clusters)} clusters, {len(fleet.tenants)} tenants")
    for spec in fleet.clusters:
        if spec.connect.kubeconfig:
            yield from cluster_findings(spec)


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
    yield from certificate_findings(client.url)
    for check in (_ready, _fleet, _figures, _books, _promises):
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


def _figures(client: Client) -> Iterator[Finding]:
    """Whether the past is kept, and whether Prometheus would find anything."""
    status = client.get("/v1/status")
    points = client.get("/v1/history", since_s=str(status["now_s"] - _FIGURES_S * status.get("speed", 1.0)))["items"]
    if points:
        yield Finding("figures", "ok", f"{len(points)} of the last minutes are kept")
    else:
        yield Finding("figures", "warning", "no figure was kept lately", "Is metrics.db writable, the disk full?")
    shown = sum(line.startswith("dure_") for line in client.text("/metrics").splitlines())
    if shown:
        yield Finding("metrics", "ok", f"{shown} series under /metrics")
    else:
        yield Finding("metrics", "error", "/metrics shows nothing", "Look at the server's log.")


def _books(client: Client) -> Iterator[Finding]:
    ledger = client.get("/v1/ledger", by="group")
    if ledger["imbalances"]:
        message = f"{ledger['imbalances']} hours of pools do not balance"
        yield Finding("ledger", "error", message, "Please send a report: dure bugreport")
    elif ledger["paid_micros"]:
        yield Finding("ledger", "ok", "paid = used + idle + overhead in every hour of the last week")
    else:
        yield Finding("ledger", "warning", "nothing was posted yet", "It is written every five minutes of its clock.")


def _promises(client: Client) -> Iterator[Finding]:
    burning = [one for one in client.get("/v1/slo")["items"] if one["level"]]
    for one in burning:
        message = f"{one['workload']} burns its error budget ({one['level']})"
        yield Finding("promise", "warning", message, f"dure why {one['workload']}")
    if not burning:
        yield Finding("promise", "ok", "no service burns its error budget")
