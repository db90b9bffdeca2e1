"""`dure agent`: the scheduler of one Kubernetes cluster, wherever it runs."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click
import msgspec

from dure.adapters.plane_http import HttpPlane, Membership, join
from dure.cli.state import state_option
from dure.model.errors import Temporary


@click.command()
@click.option("--cluster", "name", required=True, help="The cluster's name in the fleet file.")
@click.option("--plane", "url", required=True, envvar="DURE_URL", help="Address of the plane.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KUBECONFIG",
    help="The cluster; without it the service account of this pod.",
)
@click.option("--context", default="", help="Context of the kubeconfig; its current one if left out.")
@click.option("--join", "token", default="", envvar="DURE_JOIN_TOKEN", help="One-time token of 'dure cluster join'.")
@state_option
def command(name: str, url: str, kubeconfig: Path | None, context: str, token: str, state: Path) -> None:
    """Run the agent of one cluster: it schedules, and goes on when the plane is gone.

    The first start needs the token that 'dure cluster join' printed; the credential it gets for it is kept in the
    state folder. Pods with schedulerName dure are scheduled, whoever made them.

    \b
    Example:
      dure cluster join seoul
      dure agent --cluster seoul --plane http://127.0.0.1:7420 --kubeconfig ~/.kube/config --join TOKEN
    """
    from dure.adapters.clock import RealClock
    from dure.adapters.kube.rest import Api
    from dure.agent.poll import Poller
    from dure.embedded.members import Member

    kept = state / f"agent-{name}.credential"
    if token and not kept.exists():
        _keep(kept, join(url, name, token))
    if not kept.exists():
        raise click.UsageError(f"this agent has not joined yet; run 'dure cluster join {name}' and give --join TOKEN")
    plane = HttpPlane(url, name, kept.read_text(encoding="ascii").strip())
    api = Api.from_kubeconfig(kubeconfig, context) if kubeconfig else Api.in_cluster()
    membership = _membership(plane, state / f"agent-{name}.json")
    member = Member(membership.spec, membership.catalogue, api, plane, RealClock())
    poller = Poller(plane.wait_for_news, member.runner.wake)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    member.start()
    poller.start()
    click.echo(f"The agent of {name} is running (Ctrl-C stops it)", err=True)
    stop.wait()
    poller.stop()
    member.stop()
    plane.close()


def _keep(path: Path, secret: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")


def _membership(plane: HttpPlane, path: Path) -> Membership:
    """As the plane says; when it is away, as it said the last time."""
    try:
        found = plane.fetch_membership()
    except Temporary:
        if not path.exists():
            raise
        return msgspec.json.decode(path.read_bytes(), type=Membership)
    path.write_bytes(msgspec.json.encode(found))
    return found
