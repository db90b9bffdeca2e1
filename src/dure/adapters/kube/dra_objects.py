"""The few fields of `resource.k8s.io/v1` that Dure reads: slices of offered devices, claims and device classes."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.adapters.kube.objects import Meta

Json = dict[str, Any]


class SlicePool(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceDevice(msgspec.Struct, frozen=True, rename="camel"):
    """What follows `capacity` makes a device more than a thing to be given whole; such a one is left alone."""

    name: str = ""
    attributes: dict[str, Json] = {}
    capacity: dict[str, Json] = {}
    taints: tuple[Json, ...] = ()
    consumes_counters: tuple[Json, ...] = ()
    binding_conditions: tuple[str, ...] = ()

    @property
    def simple(self) -> bool:
        hard = any(one.get("effect") in ("NoSchedule", "NoExecute") for one in self.taints)
        return not (hard or self.consumes_counters or self.binding_conditions)


class SliceSpec(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    pool: SlicePool = SlicePool()
    node_name: str = ""
    devices: tuple[SliceDevice, ...] = ()


class KubeSlice(msgspec.Struct, frozen=True):
    """A ResourceSlice."""

    metadata: Meta = Meta()
    spec: SliceSpec = SliceSpec()


class ExactRequest(msgspec.Struct, frozen=True, rename="camel"):
    device_class_name: str = ""
    selectors: tuple[Json, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    capacity: Json = {}


class DeviceRequest(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    exactly: ExactRequest | None = None


class ClaimDevices(msgspec.Struct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Json, ...] = ()
    config: tuple[Json, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True):
    devices: ClaimDevices = ClaimDevices()


class Result(msgspec.Struct, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class Results(msgspec.Struct, frozen=True):
    results: tuple[Result, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    devices: Results = Results()
    node_selector: Json | None = None


class Consumer(msgspec.Struct, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class KubeClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim."""

    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClassSpec(msgspec.Struct, frozen=True):
    selectors: tuple[Json, ...] = ()
    config: tuple[Json, ...] = ()


class KubeClass(msgspec.Struct, frozen=True):
    """A DeviceClass."""

    metadata: Meta = Meta()
    spec: ClassSpec = ClassSpec()
