"""`dure device`: run the node daemon that shares one real device among tenants."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import click


@click.group()
def command() -> None:
    """Share a real device: several models in one daemon, run in squads.

    \b
    Example:
      dure device run -f device.yaml
    """


@command.command()
@click.option("-f", "--file", "path", type=click.Path(path_type=Path), help="The device file.")
@click.option("--demo", is_flag=True, help="Three small models of Dure's own, with clients that keep them busy.")
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Unix socket to answer on.  [DURE_DEVICE or state folder]"
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="HTTP port on loopback; 0 takes a free one.")
def run(path: Path | None, demo: bool, socket: Path | None, port: int) -> None:
    """Run the daemon until it is stopped.

    \b
    Example:
      dure device run --demo
    """
    from dure.cli.share import default_socket
    from dure.device.config import read_config
    from dure.device.executor import Executor
    from dure.device.server import Door
    from dure.device.words import spoken_in
    from dure.model.errors import InvalidInput

    if (path is None) == (not demo):
        raise InvalidInput("give a device file or --demo", remedy="Try: dure device run --demo")
    where = socket or default_socket()
    where.parent.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="dure-device-") as folder:
        config = read_config(path) if path is not None else _demo_config(Path(folder))
        executor = Executor(config, spoken=spoken_in(where.with_suffix(".feedback.json")))
        door = Door(executor, where, port)
        click.echo(f"Device {config.name} answers at {door.address} and on {where}")
        clients = [threading.Thread(target=_keep_busy, args=(executor, t, stop), daemon=True) for t in config.tenants]
        for client in clients if demo else ():
            client.start()
        try:
            stop.wait()
        finally:
            door.close()
            executor.close()
            where.unlink(missing_ok=True)
    click.echo("Stopped.")


def _demo_config(folder: Path) -> Any:
    from dure.adapters.onnx.models import KINDS, write_model
    from dure.device.config import DeviceConfig, TenantConfig
    from dure.share.promise import Promise

    promised = {"convolution": 60.0, "transformer": 25.0, "recommender": 40.0}
    tenants = tuple(
        TenantConfig(
            kind, str(write_model(kind, folder / f"{kind}.onnx")), promise=Promise(latency_ms=promised[kind])
        )
        for kind in KINDS
    )
    return DeviceConfig(tenants, name="demo")


def _keep_busy(executor: Any, tenant: Any, stop: threading.Event) -> None:
    """A closed-loop client with a short pause, until the daemon stops."""
    import onnx

    from dure.adapters.onnx.models import sample_input
    from dure.model.errors import Temporary

    given = sample_input(onnx.load(tenant.model))
    while not stop.wait(0.02):
        try:
            executor.submit(tenant.name, given).result(30.0)
        except (Temporary, TimeoutError):
            continue
