"""`dure tenant`: tenants, and virtual clusters for those who are to have a control plane of their own."""

from __future__ import annotations

import base64
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.cli.client import Client
from dure.cli.state import state_option
from dure.files.dump import to_yaml
from dure.files.params import KUBE_NAME, NETWORK, POSITIVE, URL
from dure.model.errors import NotFound, Temporary
from dure.model.tenant import Isolation, Tenant

if TYPE_CHECKING:
    from dure.adapters.kube.rest import Api

_LOOK_S = 0.5
# Not the agent's name: what the agent applies to the same namespace would take the mark away again.
_MANAGER = "dure-tenant"
_FOLDER = click.Path(file_okay=False, path_type=Path)
_PROGRAM = click.Path(exists=True, dir_okay=False, path_type=Path)
_host_options = (
    click.option("--kubeconfig", type=click.Path(path_type=Path), help="Host cluster; else what kubectl would take."),
    click.option("--context", default="", help="Context of the kubeconfig."),
)


@click.group()
def command() -> None:
    """Tenants, and virtual clusters for those who are to have a control plane of their own.

    \b
    Example:
      dure tenant create vision --isolation own-node
      dure tenant create robots --virtual-cluster --kubeconfig ~/.kube/seoul > robots.kubeconfig
      kubectl --kubeconfig robots.kubeconfig get pods -A
      dure tenant delete robots --virtual-cluster --kubeconfig ~/.kube/seoul
    """


@command.command()
@click.argument("name", type=KUBE_NAME)
@click.option("--weight", type=POSITIVE, default=1.0, show_default=True, help="Share in relation to others.")
@click.option(
    "--isolation", type=click.Choice([each.value for each in Isolation]), help="What it shares with others."
)
@click.option("--virtual-cluster", "virtual", is_flag=True, help="Its own API server; prints a kubeconfig for it.")
@click.option("--wait", "wait_s", type=POSITIVE, default=180.0, show_default=True, help="Seconds for that at most.")
@_host_options[0]
@_host_options[1]
@state_option
def create(
    name: str,
    weight: float,
    isolation: str | None,
    virtual: bool,
    wait_s: float,
    kubeconfig: Path | None,
    context: str,
    state: Path,
) -> None:
    """Make a tenant known to Dure; with --virtual-cluster also its control plane, in a host cluster.

    A virtual cluster is run by `dure tenant serve` (or, in production, by vcluster: see `dure render tenant`). The
    kubeconfig is printed on standard output. Calling it again prints it again.

    \b
    Example:
      dure tenant create robots --virtual-cluster --kubeconfig ~/.kube/seoul > robots.kubeconfig
    """
    if virtual and isolation not in (None, Isolation.OWN_CLUSTER.value):
        raise click.UsageError(f"--virtual-cluster is the isolation {Isolation.OWN_CLUSTER.value}, not {isolation}.")
    tier = Isolation.OWN_CLUSTER if virtual else Isolation(isolation or Isolation.SHARED.value)
    if (kubeconfig or context) and not virtual:
        raise click.UsageError("--kubeconfig and --context go with --virtual-cluster.")
    tenant = Tenant(name, weight=weight, isolation=tier)
    Client(state).send("POST", "/v1/apply", to_yaml([tenant]))
    if not virtual:
        click.echo(f"tenant {name} is there", err=True)
        return
    with closing(_host(kubeconfig, context)) as host:
        click.echo(_virtual_cluster(host, tenant, wait_s), nl=False)


@command.command()
@click.argument("name", type=KUBE_NAME)
@click.option("--virtual-cluster", "virtual", is_flag=True, help="Say that you mean it: everything in it is lost.")
@click.option("--wait", "wait_s", type=POSITIVE, default=180.0, show_default=True, help="Seconds for that at most.")
@_host_options[0]
@_host_options[1]
def delete(name: str, virtual: bool, wait_s: float, kubeconfig: Path | None, context: str) -> None:
    """Delete a tenant's virtual cluster and its namespace in the host cluster, with everything in them.

    The tenant itself stays in the books: what it used has been paid for.

    \b
    Example:
      dure tenant delete robots --virtual-cluster --kubeconfig ~/.kube/seoul
    """
    from dure.adapters.kube.names import namespace_of

    if not virtual:
        raise click.UsageError("Books are kept, so tenants are not deleted; --virtual-cluster deletes what it runs.")
    path = f"/api/v1/namespaces/{namespace_of(name)}"
    with closing(_host(kubeconfig, context)) as host:
        _marked(host, path, name)
        host.delete(path)
        deadline = time.monotonic() + wait_s
        while _is_there(host, path):
            if time.monotonic() > deadline:
                raise Temporary(f"the namespace of {name} is still ending", remedy=f"kubectl get {path[8:]} -o yaml")
            time.sleep(_LOOK_S)
    click.echo(f"the virtual cluster of {name} is gone", err=True)


@command.command("etcd")
@click.argument("folder", type=_FOLDER)
@click.option("--host", "hosts", multiple=True, help="A name or address of the etcd beside 127.0.0.1; repeatable.")
def etcd_certificates(folder: Path, hosts: tuple[str, ...]) -> None:
    """Make the authority of an etcd that lets every virtual cluster at its own keys only; prints etcd's options.

    The folder is then given to `dure tenant serve --etcd-pki`. Who can read it can read all of that etcd.

    \b
    Example:
      etcd --data-dir /var/lib/etcd --listen-client-urls https://127.0.0.1:2379 \\
        --advertise-client-urls https://127.0.0.1:2379 $(dure tenant etcd /etc/dure/etcd)
    """
    from dure.adapters.virtual.etcd import Etcd

    for flag in Etcd("", folder).server_flags(["127.0.0.1", "localhost", *hosts]):
        click.echo(flag)


@command.command()
@click.option("--etcd", type=URL, required=True, help="The etcd that keeps the state of virtual clusters.")
@click.option("--etcd-pki", type=_FOLDER, help="Its authority, made by `dure tenant etcd`; for an etcd at https.")
@click.option("--apiserver", type=_PROGRAM, required=True, help="The program kube-apiserver.")
@click.option("--controllers", type=_PROGRAM, required=True, help="The program kube-controller-manager.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Where the virtual API servers listen.")
@click.option(
    "--services",
    type=NETWORK,
    default="10.112.0.0/12",
    show_default=True,
    help="Addresses of services; each virtual cluster gets a part of the range.",
)
@_host_options[0]
@_host_options[1]
@state_option
def serve(
    etcd: str,
    etcd_pki: Path | None,
    apiserver: Path,
    controllers: Path,
    address: str,
    services: str,
    kubeconfig: Path | None,
    context: str,
    state: Path,
) -> None:
    """Run the virtual clusters of a host cluster: an API server for each marked namespace, synced with it.

    \b
    Example:
      dure tenant serve --kubeconfig ~/.kube/seoul --etcd https://127.0.0.1:2379 --etcd-pki /etc/dure/etcd \\
        --apiserver /opt/kubernetes/kube-apiserver --controllers /opt/kubernetes/kube-controller-manager
    """
    from dure.adapters.redact import guard_logs
    from dure.adapters.virtual.control_plane import Programs
    from dure.adapters.virtual.etcd import Etcd
    from dure.adapters.virtual.keeper import Keeper
    from dure.cli.lock import hold

    if (etcd_pki is not None) != etcd.startswith("https:"):
        raise click.UsageError("--etcd-pki goes with an etcd at https, and such an etcd needs it.")
    guard_logs()
    with hold(state, "virtual-clusters.lock"), closing(_host(kubeconfig, context)) as host:
        programs = Programs(apiserver, controllers, Etcd(etcd.rstrip("/"), etcd_pki), address, services)
        keeper = Keeper(host, programs, state / "virtual-clusters")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: keeper.stop())
        click.echo("virtual clusters are served (Ctrl-C stops it)", err=True)
        keeper.run()


def _host(kubeconfig: Path | None, context: str) -> Api:
    from dure.adapters.kube.rest import Api, default_kubeconfig

    return Api.from_kubeconfig(kubeconfig or default_kubeconfig(), context)


def _virtual_cluster(host: Api, tenant: Tenant, wait_s: float) -> str:
    """Mark the namespace, then wait for who serves it to hand the kubeconfig over."""
    from dure.adapters.virtual.names import KUBECONFIG, SECRET
    from dure.manifest.render.tenants import namespace_object

    made = namespace_object(tenant)
    path = f"/api/v1/namespaces/{made['metadata']['name']}"
    deadline = time.monotonic() + wait_s
    while True:
        # Again and again: one that is still ending makes room for the new one only when it is gone.
        host.apply(path, made, dict, manager=_MANAGER)
        try:
            found = host.get(f"{path}/secrets/{SECRET}", dict)
        except NotFound:
            if time.monotonic() > deadline:
                raise Temporary(
                    f"nobody has started the virtual cluster of {tenant.name} within {wait_s:g} s",
                    remedy="Is `dure tenant serve` running for this host cluster? Then call this again.",
                ) from None
            time.sleep(_LOOK_S)
        else:
            return base64.b64decode(found["data"][KUBECONFIG]).decode()


def _marked(host: Api, path: str, name: str) -> None:
    """Only a namespace that is a virtual cluster's may go this way."""
    from dure.adapters.virtual.names import ISOLATION

    found = host.get(path, dict) if _is_there(host, path) else {"metadata": {}}
    if found["metadata"].get("labels", {}).get(ISOLATION) != Isolation.OWN_CLUSTER.value:
        raise NotFound(f"the host cluster has no virtual cluster of tenant {name}")


def _is_there(host: Api, path: str) -> bool:
    try:
        host.get(path, dict)
    except NotFound:
        return False
    return True
