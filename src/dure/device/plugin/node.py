"""The node file: which accelerators this node offers, cut how; and the units that the kubelet counts.

Read by `dure device plugin` and `dure device serve`. A unit is the smallest thing that is given away: a whole device,
a MIG instance, one client's share of an MPS or time-sliced device, or a slice of a virtual accelerator.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path

import msgspec

from dure.files.plain import read_as
from dure.model.errors import InvalidInput

DOMAIN = "dure.dev"
ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


class Mode(enum.StrEnum):
    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIMESLICE = "timeslice"
    VIRTUAL = "virtual"


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A MIG instance as the driver names it."""

    profile: str
    uuid: str
    compute_milli: int = 0
    memory_mib: int = 0


class Accelerator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`uuid` and `nodes` (device files) are the driver's; a virtual accelerator has neither. `memory_mib` is the
    device's own; units that share it get equal parts. Devices of one `link_group` are near each other."""

    name: str
    mode: Mode = Mode.VIRTUAL
    uuid: str = ""
    nodes: tuple[str, ...] = ()
    slices: int = 1
    instances: tuple[Instance, ...] = ()
    memory_mib: int = 0
    link_group: int = 0
    numa: int | None = None
    resource: str = ""
    dra: bool = False
    """Offer it to claims (DRA) instead of as a resource that is counted."""


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`sockets` is a folder of this machine with a folder for each slice of a virtual accelerator."""

    devices: tuple[Accelerator, ...]
    name: str = ""
    sockets: str = "/run/dure/slices"
    mps_pipe: str = "/tmp/nvidia-mps"
    cores: int = 0
    """Threads that virtual accelerators share out; 0 means all of this machine but one, which the host keeps."""


class Unit(msgspec.Struct, frozen=True):
    """`index` counts the units of one device."""

    id: str
    resource: str
    device: Accelerator
    index: int
    compute_milli: int
    memory_mib: int
    uuid: str = ""


def read_node(path: Path) -> NodeConfig:
    """The checked node file; `InvalidInput` says what and where."""
    config = read_as(path, NodeConfig, "a node file", "See docs/node.md for the node file.")
    _check(config, str(path))
    return config


def units(config: NodeConfig) -> tuple[Unit, ...]:
    """All units of the node, in the order of the file."""
    return tuple(unit for device in config.devices for unit in _units(device))


def resource_of(device: Accelerator, profile: str = "") -> str:
    """`dure.dev/gpu`, `dure.dev/mig-3g.20gb`, `dure.dev/mps`, ... unless the file says otherwise."""
    if device.resource:
        return device.resource
    plain = {Mode.WHOLE: "gpu", Mode.MIG: f"mig-{profile}"}.get(device.mode, str(device.mode))
    return f"{DOMAIN}/{plain}"


def _units(device: Accelerator) -> tuple[Unit, ...]:
    if device.mode is Mode.MIG:
        return tuple(
            Unit(
                f"{device.name}-{index}",
                resource_of(device, one.profile),
                device,
                index,
                one.compute_milli,
                one.memory_mib,
                one.uuid,
            )
            for index, one in enumerate(device.instances)
        )
    if device.mode is Mode.WHOLE:
        return (Unit(device.name, resource_of(device), device, 0, 1000, device.memory_mib, device.uuid),)
    return tuple(
        Unit(
            f"{device.name}-{index}",
            resource_of(device),
            device,
            index,
            1000 // device.slices,
            device.memory_mib // device.slices,
            device.uuid,
        )
        for index in range(device.slices)
    )


def _check(config: NodeConfig, where: str) -> None:
    names = [device.name for device in config.devices]
    if not names or len(set(names)) != len(names):
        raise InvalidInput("every device needs a name of its own, and there must be one", where=where)
    for device in config.devices:
        at = f"{where}: device {device.name}"
        if not ID.fullmatch(device.name):
            raise InvalidInput(f"'{device.name}' is no name of a device", where=at, remedy="Use a-z, 0-9 and -.")
        if device.slices < 1 or device.slices > 1000:
            raise InvalidInput("a device has 1 to 1000 slices", where=at)
        if device.mode is Mode.MIG and not device.instances:
            raise InvalidInput("a device in mode mig needs its instances", where=at, remedy="List profile and uuid.")
        if device.mode not in (Mode.VIRTUAL, Mode.MIG) and not device.uuid:
            raise InvalidInput(
                f"a device in mode {device.mode} needs its uuid", where=at, remedy="See nvidia-smi -L."
            )
    ids = [unit.id for unit in units(config)]
    if len(set(ids)) != len(ids):
        raise InvalidInput(
            "two units have one name", where=where, remedy="Rename a device: NAME-0 is its first unit."
        )
