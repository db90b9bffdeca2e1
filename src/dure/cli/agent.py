"""`dure agent`: the scheduler of one Kubernetes cluster, wherever it runs."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dure.adapters.redact import guard_logs, know
from dure.adapters.whole import create_whole, write_whole
from dure.cli.monitoring import counters_option
from dure.cli.state import state_option
from dure.model.errors import Temporary
from dure.model.membership import Membership

if TYPE_CHECKING:
    from dure.ports import PlaneLink


@click.command()
@click.option("--cluster", "name", required=True, help="The cluster's name in the fleet file.")
@click.option(
    "--plane",
    "url",
    required=True,
    envvar="DURE_URL",
    help="Address of the plane: http(s):// polls, grpc(s):// streams.",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False),
    help="Authority that signed the plane's certificate; the system's ones if left out.",
)
@click.option(
    "--cert", type=click.Path(exists=True, dir_okay=False), help="This agent's own certificate, for grpcs://."
)
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Key of that certificate.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KUBECONFIG",
    help="The cluster; without it the service account of this pod.",
)
@click.option("--context", default="", help="Context of the kubeconfig; its current one if left out.")
@click.option("--join", "token", default="", envvar="DURE_JOIN_TOKEN", help="One-time token of 'dure cluster join'.")
@click.option("--secret", default="", help="Secret NAMESPACE/NAME that brings the token and keeps the credential.")
@counters_option
@state_option
def command(
    name: str,
    url: str,
    ca: str | None,
    cert: str | None,
    key: str | None,
    kubeconfig: Path | None,
    context: str,
    token: str,
    secret: str,
    counters: float,
    state: Path,
) -> None:
    """Run the agent of one cluster: it schedules, and goes on when the plane is gone.

    The first start needs the token that 'dure cluster join' printed; the credential it joins with is kept in the
    state folder, and where an answer was lost the same command may be run again. Pods with schedulerName dure are
    scheduled, whoever made them. Several agents may run for one cluster, each with a state folder of its own: a Lease
    in the cluster says which of them acts.

    \b
    Example:
      dure cluster join seoul
      dure agent --cluster seoul --plane http://127.0.0.1:7420 --kubeconfig ~/.kube/config --join TOKEN
      dure agent --cluster seoul --plane grpcs://dure.example:7421 --ca plane-ca.crt --kubeconfig ~/.kube/config
    """
    from dure.adapters.clock import RealClock
    from dure.adapters.kube.rest import Api
    from dure.adapters.kube.secret import fetch_credential
    from dure.adapters.plane_link import join, open_link
    from dure.agent.identity import fetch_identity
    from dure.agent.poll import Poller
    from dure.cli.lock import hold
    from dure.embedded.members import Member

    guard_logs()
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together.")
    own = (cert, key) if cert and key else None
    redeem = partial(join, url, name, ca=ca or "", own=own)
    with hold(state, f"agent-{name}.lock"):
        api = Api.from_kubeconfig(kubeconfig, context) if kubeconfig else Api.in_cluster()
        if secret:
            namespace, _, kept = secret.rpartition("/")
            credential = fetch_credential(api, namespace, kept, redeem)
        else:
            credential = _credential(redeem, name, token, state)
        plane = open_link(url, name, know(credential), ca=ca or "", own=own)
        membership = _membership(plane, state / f"agent-{name}.json")
        identity = fetch_identity(state / f"agent-{name}.id")
        member = Member(membership.spec, membership.catalogue, api, plane, RealClock(), identity, counters)
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


def _credential(redeem: Callable[[str, str], str], name: str, token: str, state: Path) -> str:
    """The kept one; else the one that the token buys."""
    kept = state / f"agent-{name}.credential"
    if token and not kept.exists():
        _join(redeem, token, state / f"agent-{name}.proposed", kept)
    if not kept.exists():
        raise click.UsageError(f"this agent has not joined yet; run 'dure cluster join {name}' and give --join TOKEN")
    return kept.read_text(encoding="ascii").strip()


def _join(redeem: Callable[[str, str], str], token: str, proposed: Path, kept: Path) -> None:
    """What will be the credential is on disk before the plane hears of it, so that a lost answer loses nothing."""
    create_whole(proposed, f"{secrets.token_urlsafe(32)}\n".encode("ascii"), 0o600)
    try:
        credential = redeem(token, know(proposed.read_text(encoding="ascii").strip()))
    except Temporary as error:
        raise Temporary(error.message, remedy="Run the same command again: its token still works here.") from error
    write_whole(kept, f"{credential}\n".encode("ascii"), 0o600)
    proposed.unlink()


def _membership(plane: PlaneLink, path: Path) -> Membership:
    """As the plane says; when it is away, as it said the last time."""
    try:
        found = plane.fetch_membership()
    except Temporary:
        if not path.exists():
            raise
        return msgspec.json.decode(path.read_bytes(), type=Membership)
    write_whole(path, msgspec.json.encode(found))
    return found
