"""Messages of the kubelet's device plugin interface, `v1beta1`. A field's number is its position (see `wire`)."""

from __future__ import annotations

import msgspec

VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
PLUGIN = "v1beta1.DevicePlugin"
KUBELET_SOCKET = "kubelet.sock"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Empty(msgspec.Struct, frozen=True):
    pass


class Options(msgspec.Struct, frozen=True):
    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False


class Register(msgspec.Struct, frozen=True):
    """`endpoint` is the name of the plugin's socket beside the kubelet's own."""

    version: str = VERSION
    endpoint: str = ""
    resource_name: str = ""
    options: Options | None = None


class NumaNode(msgspec.Struct, frozen=True):
    id: int = 0


class Topology(msgspec.Struct, frozen=True):
    nodes: tuple[NumaNode, ...] = ()


class Listed(msgspec.Struct, frozen=True):
    id: str = ""
    health: str = HEALTHY
    topology: Topology | None = None


class Listing(msgspec.Struct, frozen=True):
    devices: tuple[Listed, ...] = ()


class Preference(msgspec.Struct, frozen=True):
    available: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    size: int = 0


class PreferenceRequest(msgspec.Struct, frozen=True):
    containers: tuple[Preference, ...] = ()


class Preferred(msgspec.Struct, frozen=True):
    ids: tuple[str, ...] = ()


class PreferenceAnswer(msgspec.Struct, frozen=True):
    containers: tuple[Preferred, ...] = ()


class Wanted(msgspec.Struct, frozen=True):
    ids: tuple[str, ...] = ()


class AllocateRequest(msgspec.Struct, frozen=True):
    containers: tuple[Wanted, ...] = ()


class Mount(msgspec.Struct, frozen=True):
    container_path: str = ""
    host_path: str = ""
    read_only: bool = False


class DeviceNode(msgspec.Struct, frozen=True):
    container_path: str = ""
    host_path: str = ""
    permissions: str = ""


class CdiDevice(msgspec.Struct, frozen=True):
    name: str = ""


class Injected(msgspec.Struct, frozen=True):
    """What one container gets."""

    envs: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[CdiDevice, ...] = ()


class AllocateAnswer(msgspec.Struct, frozen=True):
    containers: tuple[Injected, ...] = ()
