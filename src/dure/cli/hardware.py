"""`dure device list|scan|carve|mps`: what hardware this node has, and how it is cut. Nothing here is automatic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from dure.cli.output import output_options, print_data, print_table
from dure.files.params import FiniteRange

if TYPE_CHECKING:
    from dure.adapters.nvidia.mps import MpsControl
    from dure.ports import DevicePort


@click.command("list")
@output_options
def list_devices(output: str) -> None:
    """This node's NVIDIA devices and the MIG instances they are cut into, as the driver tells.

    \b
    Example:
      dure device list
      dure device list --json
    """
    port = _port()
    found = [(facts, port.fetch_slices(facts.id)) for facts in port.fetch_devices()]
    if output in ("json", "yaml"):
        print_data(
            [{**msgspec.to_builtins(facts), "slices": msgspec.to_builtins(cut)} for facts, cut in found], output
        )
        return
    rows = [
        (
            facts.id,
            facts.name,
            f"{facts.used_mib}/{facts.memory_mib}",
            "-" if facts.busy is None else f"{facts.busy:.0%}",
            "+".join(str(one.slices) for one in cut) or ("empty" if facts.mig else "off"),
        )
        for facts, cut in found
    ]
    print_table(("device", "name", "MiB used", "busy", "mig"), rows)


@click.command()
@click.option("--node", default="", envvar="NODE_NAME", help="The node's name, for claims.  [NODE_NAME]")
@click.option(
    "--share",
    type=click.Choice(["whole", "mps", "timeslice"]),
    default="whole",
    show_default=True,
    help="How devices that MIG does not cut are offered.",
)
@click.option("--slices", type=click.IntRange(1, 100), default=4, show_default=True, help="Parts of a shared device.")
def scan(node: str, share: str, slices: int) -> None:
    """Print the node file of this node's NVIDIA devices, for `dure device plugin`.

    \b
    Example:
      dure device scan > node.yaml
      dure device plugin -f node.yaml
    """
    from dure.device.hardware import scanned
    from dure.device.plugin.node import Mode

    found = scanned(_port(), node, Mode(share), slices)
    print_data(msgspec.to_builtins(found), "yaml")


@click.command()
@click.argument("device")
@click.argument("sizes", nargs=-1, required=True, type=click.IntRange(1, 7))
@click.option("--replace", is_flag=True, help="Take away the instances that are there; busy ones are refused.")
@output_options
def carve(device: str, sizes: tuple[int, ...], replace: bool, output: str) -> None:
    """Cut a device into MIG instances of so many slices each; all of them, or nothing is changed.

    \b
    Example:
      dure device carve GPU-8a1f0c2e 3 2 2
      dure device carve GPU-8a1f0c2e 7 --replace
    """
    from dure.device.hardware import carve as cut
    from dure.device.hardware import profile_of

    made = cut(_port(), device, sizes, replace=replace)
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(made), output)
        return
    rows = [(profile_of(one), str(one.start), str(one.memory_mib), one.uuid) for one in made]
    print_table(("profile", "from", "MiB", "uuid"), rows)


@click.command()
@click.option("--share", type=FiniteRange(0, 100, min_open=True), help="Percent of the SMs for the next clients.")
@click.option("--memory", type=click.IntRange(1), help="MiB of device 0 for each of the next clients.")
@output_options
def mps(share: float | None, memory: int | None, output: str) -> None:
    """Servers of this node's MPS daemon, their clients and shares; set what the next clients get.

    A client that runs keeps what it has.

    \b
    Example:
      dure device mps
      dure device mps --share 25 --memory 8192
    """
    control = _mps()
    servers = control.servers()
    for server in servers:
        if share is not None:
            control.set_share(server, share)
        if memory is not None:
            control.set_memory(server, 0, memory)
    rows = [(server, control.share(server), control.clients(server)) for server in servers]
    if output in ("json", "yaml"):
        print_data([{"server": one, "share": part, "clients": list(clients)} for one, part, clients in rows], output)
        return
    shown = [(str(one), f"{part:g} %", " ".join(map(str, clients)) or "none") for one, part, clients in rows]
    print_table(("server", "share", "clients"), shown)


def _port() -> DevicePort:
    from dure.adapters.nvidia.nvml import NvmlDevices, open_library

    return NvmlDevices(open_library())


def _mps() -> MpsControl:
    from dure.adapters.nvidia.mps import MpsControl

    return MpsControl()
