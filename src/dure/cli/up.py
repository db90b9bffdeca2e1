"""`dure up`: the whole of Dure in one process, with its embedded fleet and the dashboard."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.cli.state import remove_address, state_option, write_address
from dure.files.params import SEED, FiniteRange

if TYPE_CHECKING:
    from dure.api.agent_stream import AgentStream
    from dure.plane.desk import Desk


@click.command()
@state_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=7420, show_default=True, help="Port; 0 takes any.")
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
@click.option(
    "--grpc-port", type=click.IntRange(0, 65535), help="Let agents hold a gRPC stream on this port too; 0 takes any."
)
@click.option(
    "--grpc-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Certificate of that port."
)
@click.option(
    "--grpc-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Key of that certificate."
)
@click.option("--open", "open_browser", is_flag=True, help="Open the dashboard in a browser.")
def command(
    state: Path,
    host: str,
    port: int,
    speed: float,
    fleet_file: Path | None,
    seed: int,
    store_url: str,
    grpc_port: int | None,
    grpc_cert: Path | None,
    grpc_key: Path | None,
    open_browser: bool,
) -> None:
    """Start Dure with its embedded fleet and print the dashboard's address.

    State is kept in a folder; started again, Dure goes on from there. Ctrl-C stops it cleanly.

    \b
    Example:
      dure up
      dure up --state ./demo --port 8000 --speed 1
      dure up --store postgresql://dure@localhost/dure
      dure up --fleet fleet.yaml --grpc-port 7421 --grpc-cert plane.crt --grpc-key plane.key
    """
    from dure.api.app import create_app
    from dure.api.auth import Keys, fetch_token
    from dure.api.server import Server, open_socket
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.cli.lock import hold
    from dure.embedded.live import LiveFleet
    from dure.web.pages import pages

    _check_grpc(grpc_port, grpc_cert, grpc_key)
    fleet, catalogue = fleet_and_catalogue(fleet_file)
    with hold(state):
        live = LiveFleet(fleet, catalogue, state, speed=speed, seed=seed, store_url=store_url)
        keys = Keys(fetch_token(state / "token"))
        app = create_app(live.desk, keys, pages=pages(), hosts=[host], samples=live.samples, shares=live.shares)
        server = Server(app, *open_socket(host, port))
        agents = _agent_stream(live.desk, host, grpc_port, grpc_cert, grpc_key)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        live.turn()
        live.start()
        try:
            address = server.start()
            write_address(state, address.url)
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
            live.stop()
    click.echo("Stopped; everything is kept.", err=True)


def _check_grpc(port: int | None, certificate: Path | None, key: Path | None) -> None:
    """Before anything is opened that would have to be closed again."""
    if (certificate is None) != (key is None):
        raise click.UsageError("--grpc-cert and --grpc-key belong together.")
    if port is None and certificate is not None:
        raise click.UsageError("--grpc-cert needs --grpc-port.")


def _agent_stream(
    desk: Desk, host: str, port: int | None, certificate: Path | None, key: Path | None
) -> AgentStream | None:
    if port is None:
        return None
    from dure.api.agent_stream import AgentStream, Tls

    return AgentStream(desk, host, port, Tls(certificate, key) if certificate and key else None)
