"""Accelerator classes for what the vendor's device plugin has cut already: MIG instances and shared replicas.

On a node with a fixed layout an instance is given whole or not at all, so each kind of instance is a class of its
own, named after its device: `a100-40gb-sxm/1g.5gb`, `t4/1of4`. The packing then needs to know nothing of layouts.
"""

from __future__ import annotations

from msgspec.structs import replace

from dure.model.accelerator import AcceleratorProfile, Geometry, Kind, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.units import WHOLE_MILLI

HOST = "host"
_MOST_REPLICAS = 64
_HOST_PODS = 1_000_000
# A node without accelerators still runs pods: its one device is the host itself, shared by any number of them.
_HOST = AcceleratorProfile(
    name=HOST,
    vendor="",
    kind=Kind.CPU,
    memory_mib=0,
    bandwidth_gbs=0.0,
    tops={},
    peak_w=0.0,
    idle_w=0.0,
    share=(ShareMode.TIMESLICE,),
    timeslice_clients=_HOST_PODS,
)


def with_instances(catalogue: Catalogue) -> Catalogue:
    """The catalogue with a class for every instance that a device plugin can offer, and one for bare hosts."""
    classes = {**catalogue.classes, HOST: _HOST}
    for profile in catalogue.classes.values():
        for geometry in (profile.mig, profile.vnpu):
            if geometry is not None:
                classes.update({one.name: one for one in _cuts(profile, geometry)})
    return replace(catalogue, classes=_Shared(classes))


def cut_name(class_name: str, profile: str) -> str:
    return f"{class_name}/{profile}"


def replica_name(class_name: str, replicas: int) -> str:
    return f"{class_name}/1of{replicas}"


class _Shared(dict[str, AcceleratorProfile]):
    """Classes of shared replicas are made when they are first asked for: their number is anybody's choice."""

    def get(self, key: str, default: object = None) -> AcceleratorProfile | None:  # type: ignore[override]
        found = super().get(key)
        return found if found is not None else self._replica(key)

    def __missing__(self, key: str) -> AcceleratorProfile:
        made = self._replica(key)
        if made is None:
            raise KeyError(key)
        return made

    def _replica(self, key: str) -> AcceleratorProfile | None:
        base, _, part = key.partition("/1of")
        profile = super().get(base)
        if profile is None or not part.isdecimal() or not 1 < int(part) <= _MOST_REPLICAS:
            return None
        replicas = int(part)
        made = replace(
            profile,
            name=key,
            memory_mib=profile.memory_mib // replicas,
            bandwidth_gbs=profile.bandwidth_gbs / replicas,
            tops={kind: tops / replicas for kind, tops in profile.tops.items()},
            share=(ShareMode.EXCLUSIVE,),
            mig=None,
        )
        self[key] = made
        return made


def _cuts(profile: AcceleratorProfile, geometry: Geometry) -> list[AcceleratorProfile]:
    return [
        replace(
            profile,
            name=cut_name(profile.name, cut.name),
            memory_mib=cut.memory_mib,
            bandwidth_gbs=profile.bandwidth_gbs * cut.slots / geometry.slots,
            tops={kind: tops * cut.compute_milli / WHOLE_MILLI for kind, tops in profile.tops.items()},
            share=(ShareMode.EXCLUSIVE,),
            resource=cut.resource,
            mig=None,
            vnpu=None,
        )
        for cut in geometry.profiles
    ]
