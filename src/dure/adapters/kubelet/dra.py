"""Messages of the kubelet's plugin registration and of DRA plugins, `v1`. A field's number is its position."""

from __future__ import annotations

import msgspec

REGISTRATION = "pluginregistration.Registration"
PLUGIN = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
SERVICE = "v1.DRAPlugin"
"""How a plugin names the version it speaks."""
KIND = "DRAPlugin"


class InfoRequest(msgspec.Struct, frozen=True):
    pass


class PluginInfo(msgspec.Struct, frozen=True):
    type: str = KIND
    name: str = ""
    endpoint: str = ""
    supported_versions: tuple[str, ...] = (SERVICE,)


class RegistrationStatus(msgspec.Struct, frozen=True):
    registered: bool = False
    error: str = ""


class RegistrationAnswer(msgspec.Struct, frozen=True):
    pass


class Claim(msgspec.Struct, frozen=True):
    namespace: str = ""
    uid: str = ""
    name: str = ""


class Claims(msgspec.Struct, frozen=True):
    claims: tuple[Claim, ...] = ()


class PreparedDevice(msgspec.Struct, frozen=True):
    request_names: tuple[str, ...] = ()
    pool_name: str = ""
    device_name: str = ""
    cdi_device_ids: tuple[str, ...] = ()


class Prepared(msgspec.Struct, frozen=True):
    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class PreparedClaims(msgspec.Struct, frozen=True):
    claims: dict[str, Prepared] = {}


class Unprepared(msgspec.Struct, frozen=True):
    error: str = ""


class UnpreparedClaims(msgspec.Struct, frozen=True):
    claims: dict[str, Unprepared] = {}
