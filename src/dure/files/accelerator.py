"""Accelerator classes in files: the built-in catalogue and the `classes` of a fleet share this form."""

from __future__ import annotations

from typing import Any

from dure.files.quantities import BANDWIDTH, MEMORY, POWER, SHARE
from dure.files.shapes import NAME, WORDS, Choice, Key, ListOf, MapOf, Number, Quantity, Record, Text, Whole, changed
from dure.model.accelerator import AcceleratorProfile, DataType, Geometry, Kind, ShareMode, SliceProfile

SLICE = Record(
    "One legal kind of slice of a device.",
    (
        Key("name", Text(longest=63), "Name as the vendor writes it, such as 1g.10gb.", required=True),
        Key("slots", Whole(1, 64), "Neighbouring memory slots it takes.", required=True),
        Key("starts", ListOf(Whole(0, 63), least=1), "Memory slots at which it may begin.", required=True),
        Key("computeSlices", Whole(0, 1024), "Compute slices it takes.", "compute_slices", required=True),
        Key("memory", Quantity(MEMORY, positive=True), "Memory of the slice.", "memory_mib", required=True),
        Key("compute", Quantity(SHARE), "Share of the device's compute.", "compute_milli", required=True),
        Key("most", Whole(1, 64), "How many of it one device can hold.", "max_instances", required=True),
        Key("resource", WORDS, "Kubernetes resource name of one such slice.", "resource"),
    ),
    SliceProfile,
)

GEOMETRY = Record(
    "How a device may be cut: a memory axis of slots, and compute slices counted apart.",
    (
        Key("slots", Whole(1, 64), "Width of the memory axis.", required=True),
        Key("computeSlices", Whole(1, 1024), "Compute slices of the device.", "compute_slices", required=True),
        Key("profiles", ListOf(SLICE, unique="name", least=1), "Legal kinds of slices.", required=True),
    ),
    Geometry,
)


_UNKNOWN: dict[str, Any] = {"vendor": "", "bandwidth_gbs": 0.0, "idle_w": 0.0}


def _accelerator(
    name: str, kind: Kind, memory_mib: int, tops: dict[DataType, float], peak_w: float, **rest: Any
) -> AcceleratorProfile:
    known = {**_UNKNOWN, **rest}
    return AcceleratorProfile(name=name, kind=kind, memory_mib=memory_mib, tops=tops, peak_w=peak_w, **known)


CLASS = Record(
    "An accelerator class. Figures are dense, without sparsity.",
    (
        Key("name", NAME, "Name used by pools, quotas and workloads.", required=True),
        Key("vendor", WORDS, "Who makes it."),
        Key("kind", Choice(Kind), "What it is.", required=True),
        Key("memory", Quantity(MEMORY, positive=True), "Memory of one device.", "memory_mib", required=True),
        Key("bandwidth", Quantity(BANDWIDTH), "Memory bandwidth.", "bandwidth_gbs"),
        Key("tops", MapOf(Number(above=True), keys=DataType), "Dense TOPS (TFLOPS) by data type.", required=True),
        Key("peak", Quantity(POWER), "Power at full load.", "peak_w", required=True),
        Key("idle", Quantity(POWER), "Power when idle.", "idle_w"),
        Key("share", ListOf(Choice(ShareMode), least=1), "Ways in which one device can be shared."),
        Key("resource", WORDS, "Kubernetes resource name of a whole device."),
        Key("sliceResource", WORDS, "Start of the resource name of a slice.", "slice_resource"),
        Key("mig", GEOMETRY, "MIG profiles and where they may stand."),
        Key("vnpu", GEOMETRY, "vNPU templates and where they may stand."),
        Key("mpsClients", Whole(0, 128), "Most tenants of one device under MPS.", "mps_clients"),
        Key("timesliceClients", Whole(0, 128), "Most tenants of one device in time slices.", "timeslice_clients"),
        Key("confidence", WORDS, "Where the figures are from: datasheet, vendor docs, secondary, estimate."),
        Key("note", WORDS, "For people."),
    ),
    _accelerator,
    lambda profile: _accelerator_taken(profile),
)


def _accelerator_taken(profile: AcceleratorProfile) -> dict[str, Any]:
    """Figures that nobody knows are left out, as they were read."""
    taken = changed(profile, CLASS.keys)
    return {name: held for name, held in taken.items() if name not in _UNKNOWN or held != _UNKNOWN[name]}


def geometry_problems(profile: AcceleratorProfile) -> list[str]:
    """What is impossible in a class: slices beyond the axis, a mode without its geometry."""
    wrong: list[str] = []
    for mode in (ShareMode.MIG, ShareMode.VNPU):
        geometry = profile.geometry(mode)
        if mode in profile.share and geometry is None:
            wrong.append(f"shares by {mode} but has no '{mode}' geometry")
        if geometry is not None:
            wrong += _beyond(geometry, profile)
    return wrong


def _beyond(geometry: Geometry, profile: AcceleratorProfile) -> list[str]:
    wrong: list[str] = []
    for piece in geometry.profiles:
        if max(piece.starts) + piece.slots > geometry.slots:
            wrong.append(f"slice '{piece.name}' ends beyond slot {geometry.slots}")
        if piece.compute_slices > geometry.compute_slices:
            wrong.append(f"slice '{piece.name}' has more compute slices than the device")
        if piece.memory_mib > profile.memory_mib:
            wrong.append(f"slice '{piece.name}' has more memory than the device")
    return wrong
