"""A node's hardware devices: cut them by MIG, and write down what they offer. Used by `dure device scan` and `carve`.

A cut is whole or not at all: where the driver refuses one slice, those that were made are taken away again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dure.device.plugin.node import Accelerator, Instance, Mode, NodeConfig
from dure.model.errors import Conflict, DureError, InvalidInput, NotFound
from dure.model.units import MIB_PER_GIB
from dure.ports import DeviceFacts, DevicePort, SliceFacts

SLICES = 7
SHARED = (Mode.MPS, Mode.TIMESLICE)


def scanned(port: DevicePort, name: str = "", mode: Mode = Mode.WHOLE, slices: int = 4) -> NodeConfig:
    """The node file of what is there: cut devices by their instances, the others in `mode`."""
    devices = tuple(
        _accelerator(index, facts, port.fetch_slices(facts.id), mode, slices)
        for index, facts in enumerate(port.fetch_devices())
    )
    if not devices:
        raise NotFound("this node has no NVIDIA device")
    return NodeConfig(devices, name=name)


def carve(port: DevicePort, device: str, sizes: Sequence[int], *, replace: bool = False) -> tuple[SliceFacts, ...]:
    """Instances of these sizes, largest first, and no others; nothing is done where they are there already."""
    if not sizes or min(sizes) < 1 or sum(sizes) > SLICES:
        raise InvalidInput(
            f"{'+'.join(map(str, sizes)) or 'nothing'} does not cut a device",
            remedy=f"Give sizes of 1, 2, 3, 4 or 7 slices, {SLICES} together at most.",
        )
    there = port.fetch_slices(device)
    if Counter(one.slices for one in there) == Counter(sizes):
        return there
    if there and not replace:
        cut = "+".join(str(one.slices) for one in there)
        raise Conflict(f"device {device} is cut into {cut}", remedy="Let it be emptied, then give --replace.")
    off = not _is_cut(port, device)
    try:
        _remake(port, device, sizes, off)
    except DureError:
        _restore(port, device, there, off)
        raise
    return port.fetch_slices(device)


def _remake(port: DevicePort, device: str, sizes: Sequence[int], off: bool) -> None:
    for one in port.fetch_slices(device):
        port.destroy_slice(device, one.id)
    if off:
        port.set_mig(device, True)
    for size in sorted(sizes, reverse=True):
        port.create_slice(device, size)


def _restore(port: DevicePort, device: str, before: Sequence[SliceFacts], off: bool) -> None:
    """As it was, as far as the driver lets: an instance that was busy is still there."""
    kept = {one.id for one in before}
    for one in port.fetch_slices(device):
        if one.id not in kept:
            port.destroy_slice(device, one.id)
    there = {one.id for one in port.fetch_slices(device)}
    for one in before:
        if one.id not in there:
            port.create_slice(device, one.slices)
    if off:
        port.set_mig(device, False)


def _is_cut(port: DevicePort, device: str) -> bool:
    return any(facts.mig for facts in port.fetch_devices() if facts.id == device)


def _accelerator(index: int, facts: DeviceFacts, cut: Sequence[SliceFacts], mode: Mode, slices: int) -> Accelerator:
    name, files = f"g{index}", (f"/dev/nvidia{facts.minor}",)
    if facts.mig:
        if not cut:
            raise Conflict(
                f"device {facts.id} is set to MIG and cut into nothing", remedy="Cut it: dure device carve."
            )
        instances = tuple(_instance(one) for one in cut)
        return Accelerator(name, Mode.MIG, nodes=files, instances=instances, memory_mib=facts.memory_mib)
    parts = slices if mode in SHARED else 1
    return Accelerator(name, mode, facts.id, files, parts, memory_mib=facts.memory_mib)


def _instance(one: SliceFacts) -> Instance:
    return Instance(profile_of(one), one.uuid, one.slices * 1000 // SLICES, one.memory_mib)


def profile_of(one: SliceFacts) -> str:
    """As the vendor names it: `3g.20gb`."""
    return f"{one.slices}g.{math.ceil(one.memory_mib / MIB_PER_GIB)}gb"
