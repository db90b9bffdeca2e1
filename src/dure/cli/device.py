"""`dure device`: run the node's daemons that share real devices among tenants; its hardware is in `hardware`."""

from __future__ import annotations

import signal
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec

from dure.cli import hardware
from dure.files.params import FiniteRange


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
@click.option(
    "--device", help="Run on cpu, cuda, cuda:N, or auto: a GPU if one can be used.  [the file's `device`, or auto]"
)
def run(path: Path | None, demo: bool, socket: Path | None, port: int, device: str | None) -> None:
    """Run the daemon until it is stopped.

    A tenant's model is a file (.onnx, or .pt2 of PyTorch) or, with `code: true`, a function that makes a PyTorch
    module (net.py:make), which runs in that tenant's process.

    On a GPU tenants run side by side only under MPS (nvidia-cuda-mps-control -d), PyTorch programs on SMs of their
    own; without it they take turns by segments.

    \b
    Example:
      dure device run --demo
      dure device run -f device.yaml --device cuda:0
    """
    _check_runtime()
    from dure.adapters.redact import guard_logs
    from dure.cli.share import default_socket
    from dure.device.config import read_config, validated
    from dure.device.executor import Executor
    from dure.device.server import Door
    from dure.device.target import chosen
    from dure.device.words import spoken_in
    from dure.model.errors import InvalidInput

    guard_logs()
    if (path is None) == (not demo):
        raise InvalidInput("give a device file or --demo", remedy="Try: dure device run --demo")
    where = socket or default_socket()
    where.parent.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="dure-device-") as folder:
        config = read_config(path) if path is not None else _demo_config(Path(folder))
        if device is not None:
            config = validated(msgspec.structs.replace(config, device=device), path)
        gpu, what = chosen(config)
        executor = Executor(config, spoken=spoken_in(where.with_suffix(".feedback.json")), gpu=gpu)
        door = Door(executor, where, port)
        click.echo(f"Running on {what}", err=True)
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


@command.command()
@click.option("-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="The node file.")
@click.option(
    "--kubelet",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="The kubelet's folder.",
)
@click.option(
    "--node", default="", envvar="NODE_NAME", help="The node's name, for claims.  [the file's, or NODE_NAME]"
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True, path_type=Path), help="For claims; else the pod's account."
)
@click.option(
    "--cdi",
    type=click.Path(path_type=Path),
    default=Path("/var/run/cdi"),
    show_default=True,
    help="Where the container runtime reads CDI files, for claims.",
)
@click.option("--every", type=FiniteRange(0.05, 60.0), default=1.0, show_default=True, help="Seconds.")
def plugin(path: Path, kubelet: Path, node: str, kubeconfig: Path | None, cdi: Path, every: float) -> None:
    """Offer this node's accelerators to its kubelet, whole or in slices, until it is stopped.

    Resources are counted as dure.dev/gpu, dure.dev/mig-PROFILE, dure.dev/mps, dure.dev/timeslice and
    dure.dev/virtual; devices marked dra: true are offered to ResourceClaims instead.

    \b
    Example:
      dure device plugin -f node.yaml
      kubectl get node -o jsonpath='{.items[0].status.allocatable}'
    """
    from dure.adapters.redact import guard_logs
    from dure.device.plugin.node import read_node, units
    from dure.device.plugin.runner import Plugins, is_healthy
    from dure.model.errors import DureError, InvalidInput

    guard_logs()
    config = read_node(path)
    plugins = Plugins(config, kubelet)
    claimable = tuple(unit for unit in units(config) if unit.device.dra)
    driver = None
    if claimable:
        from dure.adapters.kube.rest import Api
        from dure.device.plugin.claims import Driver

        name = node or config.name
        if not name:
            raise InvalidInput("claims need the node's name", remedy="Give --node NAME, or `name` in the node file.")
        api = Api.from_kubeconfig(kubeconfig) if kubeconfig else Api.in_cluster()
        driver = Driver(name, claimable, config, api, kubelet, cdi)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    click.echo(f"Offering {len(units(config))} units of {len(config.devices)} devices (Ctrl-C stops it)", err=True)
    try:
        while True:
            plugins.turn()
            if driver is not None:
                try:
                    driver.sync(frozenset(unit.id for unit in claimable if not is_healthy(unit, config)))
                except DureError as error:
                    click.echo(f"claims: {error}", err=True)
            if stop.wait(every):
                return
    finally:
        plugins.close()
        if driver is not None:
            driver.close()


@command.command()
@click.option("-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="The node file.")
@click.option("--policy", default="auto", show_default=True, help="The sharing policy.")
def serve(path: Path, policy: str) -> None:
    """Serve the slices of this node's virtual accelerators to containers, until it is stopped.

    Each slice is a socket that the device plugin mounts into one container. Containers bring their models; squads are
    formed across all of them, within the part of the accelerator that each was given.

    \b
    Example:
      dure device serve -f node.yaml
    """
    _check_runtime()
    from dure.adapters.redact import guard_logs
    from dure.device.cores import leave
    from dure.device.plugin.node import read_node
    from dure.device.slices import Slices, own_processors, quicken

    guard_logs()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    config = read_node(path)
    processors = own_processors(config)
    leave(processors)
    slices = Slices(config, policy, processors)
    quicken()
    click.echo(f"Serving {len(slices.doors)} slices (Ctrl-C stops it)", err=True)
    try:
        stop.wait()
    finally:
        slices.close()


for each in (hardware.list_devices, hardware.scan, hardware.carve, hardware.mps):
    command.add_command(each)


def _check_runtime() -> None:
    """Models run in ONNX Runtime, which planes and agents go without."""
    from dure.model.errors import Permanent

    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise Permanent(
            f"{' and '.join(missing)} not installed", remedy="Install the extra: pip install 'dure[device]'."
        )


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
    # However slow the machine, the demo has three tenants to look at.
    return DeviceConfig(tenants, name="demo", admission=False)


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
