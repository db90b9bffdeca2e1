"""`dure up`: the whole of Dure in one process, with its embedded fleet and the dashboard."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.cli.garbage import collect_seldom
from dure.cli.monitoring import Wanted, counters_option, monitoring_options, opened, telling
from dure.cli.state import remove_address, state_option, write_address
from dure.files.params import KEPT, OBJECT_NAME, SEED, FiniteRange

if TYPE_CHECKING:
    from dure.adapters.oidc import Relying
    from dure.adapters.pki import Authority, Given
    from dure.api.agent_stream import AgentStream
    from dure.plane.desk import Desk

# Requests and the loop that decides share one interpreter. Whoever needs it while the other computes waits this long
# instead of 5 ms, and a request needs it again after each of its steps.
SWITCH_S = 0.0002


@click.command()
@state_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=7420, show_default=True, help="Port; 0 takes any.")
@click.option(
    "--name", "names", type=OBJECT_NAME, multiple=True, help="A name under which it is reached; repeatable."
)
@click.option(
    "--speed",
    type=FiniteRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Clock seconds per real second.",
)
@click.option(
    "--fleet", "fleet_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Fleet file."
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of the demo's workloads and chances.")
@click.option(
    "--store", "store_url", default="", envvar="DURE_STORE", help="Database URL; SQLite in the state folder."
)
@click.option("--keep", type=KEPT, envvar="DURE_KEEP", help="How much of the past is kept (90d, 26w); else all.")
@counters_option
@click.option(
    "--most-waiting",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    envvar="DURE_MOST_WAITING",
    help="How many workloads of a tenant may wait; more are answered with 429.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The owner's token; that of the state folder if left out. Replicas share one.",
)
@click.option(
    "--grpc-port", type=click.IntRange(0, 65535), help="Let agents hold a gRPC stream on this port too; 0 takes any."
)
@click.option(
    "--grpc-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Certificate of that port."
)
@click.option(
    "--grpc-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Key of that certificate."
)
@click.option(
    "--tls/--no-tls", default=False, help="Speak TLS, with certificates of an authority kept in the state folder."
)
@click.option(
    "--cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Speak TLS with this certificate from elsewhere; read again when it was renewed.",
)
@click.option("--key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Key of --cert.")
@click.option(
    "--agent-certs", is_flag=True, help="Agents on the gRPC port need a certificate of that authority. Needs --tls."
)
@click.option("--oidc-issuer", envvar="DURE_OIDC_ISSUER", help="Let people sign in with this identity provider.")
@click.option("--oidc-client", envvar="DURE_OIDC_CLIENT", help="The name under which the provider knows this Dure.")
@click.option(
    "--oidc-secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the secret that belongs to that name.",
)
@click.option("--oidc-claim", default="email", show_default=True, help="The claim that names a person.")
@click.option("--oidc-admin", "admins", multiple=True, help="Name of a person who may do everything; repeatable.")
@monitoring_options
@click.option("--open", "open_browser", is_flag=True, help="Open the dashboard in a browser.")
def command(
    state: Path,
    host: str,
    port: int,
    names: tuple[str, ...],
    speed: float,
    fleet_file: Path | None,
    seed: int,
    store_url: str,
    keep: float | None,
    most_waiting: int,
    counters: float,
    token_file: Path | None,
    grpc_port: int | None,
    grpc_cert: Path | None,
    grpc_key: Path | None,
    tls: bool,
    cert: Path | None,
    key: Path | None,
    agent_certs: bool,
    oidc_issuer: str | None,
    oidc_client: str | None,
    oidc_secret_file: Path | None,
    oidc_claim: str,
    admins: tuple[str, ...],
    prometheus: str,
    scrape: tuple[str, ...],
    notify: tuple[str, ...],
    open_browser: bool,
) -> None:
    """Start Dure with its embedded fleet and print the dashboard's address.

    State is kept in a folder; started again, Dure goes on from there. Ctrl-C stops it cleanly.

    \b
    Example:
      dure up
      dure up --state ./demo --port 8000 --speed 1
      dure up --store postgresql://dure@localhost/dure
      dure up --tls --grpc-port 7421 --agent-certs
      dure up --host 0.0.0.0 --name dure.example --cert tls.crt --key tls.key
      dure up --speed 1 --prometheus http://localhost:9090 --scrape http://localhost:9400/metrics
      dure up --fleet fleet.yaml --grpc-port 7421 --grpc-cert plane.crt --grpc-key plane.key
    """
    from dure.adapters.redact import guard_logs
    from dure.adapters.tracing import from_environment
    from dure.api.app import create_app
    from dure.api.auth import Keys, fetch_token
    from dure.api.server import Server, open_socket
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.cli.lock import hold
    from dure.embedded.live import LiveFleet
    from dure.web.pages import pages

    # Whatever can be refused is refused before anything is opened that would have to be closed again.
    _check_grpc(grpc_port, grpc_cert, grpc_key)
    if agent_certs and not tls:
        raise click.UsageError("--agent-certs needs --tls.")
    given = _given(cert, key, tls)
    relying = _relying(oidc_issuer, oidc_client, oidc_secret_file, oidc_claim)
    shared = fetch_token(token_file) if token_file else ""
    guard_logs()
    sys.setswitchinterval(SWITCH_S)
    from_environment("dure")
    fleet, catalogue = fleet_and_catalogue(fleet_file)
    monitoring = Wanted(prometheus, scrape, notify)
    with hold(state), ExitStack() as stack:
        live = LiveFleet(
            fleet,
            catalogue,
            state,
            speed=speed,
            seed=seed,
            store_url=store_url,
            keep_s=keep,
            most_waiting=most_waiting,
            counters_s=counters,
        )
        samples = stack.enter_context(opened(monitoring, live))
        keys = Keys(shared or fetch_token(state / "token"))
        authority = _authority(state) if tls else None
        app = create_app(
            live.desk,
            keys,
            pages=pages(),
            hosts=[host, *names],
            samples=samples,
            shares=live.shares,
            authority=authority,
            relying=relying,
            admins=admins,
        )
        stack.enter_context(telling(monitoring, live, app.service.pulse.status, state))
        server = Server(app, *open_socket(host, port), given or authority, names)
        grpc_tls = _grpc_tls(authority, [host, *names], grpc_cert, grpc_key, agent_certs)
        agents = _agent_stream(live.desk, host, grpc_port, grpc_tls)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        live.turn()
        collect_seldom()
        live.start()
        try:
            address = server.start()
            write_address(state, address.url, authority.bundle if authority else None)
            if address.moved:
                click.echo(f"Port {address.asked} is taken; using {address.port}.", err=True)
            if agents is not None:
                click.echo(f"Agents may hold streams at {agents.start()}", err=True)
            link = server.login_url()
            click.echo(f"Dure is running: {link}  (state in {state}; Ctrl-C stops it)")
            if open_browser:
                click.launch(link)
            stop.wait()
        finally:
            remove_address(state)
            if agents is not None:
                agents.stop()
            server.stop()
            stack.close()
            live.stop()
    click.echo("Stopped; everything is kept.", err=True)


def _check_grpc(port: int | None, certificate: Path | None, key: Path | None) -> None:
    if (certificate is None) != (key is None):
        raise click.UsageError("--grpc-cert and --grpc-key belong together.")
    if port is None and certificate is not None:
        raise click.UsageError("--grpc-cert needs --grpc-port.")


def _relying(issuer: str | None, client: str | None, secret: Path | None, claim: str) -> Relying | None:
    if issuer is None and (client is not None or secret is not None):
        raise click.UsageError("--oidc-client and --oidc-secret-file need --oidc-issuer.")
    if issuer is None:
        if client is not None or secret is not None:
            raise click.UsageError("--oidc-client and --oidc-secret-file need --oidc-issuer.")
        return None
    if client is None or secret is None:
        raise click.UsageError("--oidc-issuer needs --oidc-client and --oidc-secret-file.")
    from dure.adapters.oidc import Provider, Relying
    from dure.adapters.redact import know

    try:
        text = secret.read_text("utf-8").strip()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--oidc-secret-file {secret} is not text.") from error
    return Relying(Provider(issuer, client, know(text), claim))


def _given(certificate: Path | None, key: Path | None, tls: bool) -> Given | None:
    if (certificate is None) != (key is None):
        raise click.UsageError("--cert and --key belong together.")
    if certificate is None or key is None:
        return None
    if tls:
        raise click.UsageError("--tls makes certificates of its own; leave it out with --cert.")
    from dure.adapters.pki import Given

    return Given(certificate, key)


def _authority(state: Path) -> Authority:
    from dure.adapters.pki import Authority

    return Authority(state / "tls")


def _grpc_tls(
    authority: Authority | None,
    hosts: list[str],
    certificate: Path | None,
    key: Path | None,
    agent_certs: bool,
) -> tuple[Path, Path, Path | None] | None:
    """Certificate, key and the authority that agents need a certificate of."""
    clients = authority.bundle if authority is not None and agent_certs else None
    if certificate is not None and key is not None:
        return certificate, key, clients
    return (*authority.server(hosts)[0], clients) if authority is not None else None


def _agent_stream(
    desk: Desk, host: str, port: int | None, tls: tuple[Path, Path, Path | None] | None
) -> AgentStream | None:
    if port is None:
        return None
    from dure.api.agent_stream import AgentStream, Tls

    return AgentStream(desk, host, port, Tls(*tls) if tls else None)
