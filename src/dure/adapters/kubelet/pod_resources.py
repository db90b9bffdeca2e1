"""Which pods hold which units, asked of the kubelet's `podresources` interface (v1). Used by the device plugin."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from dure.adapters.kubelet.service import call

LISTER = "v1.PodResourcesLister"


class Owner(msgspec.Struct, frozen=True):
    """The container that holds a unit."""

    namespace: str
    pod: str
    container: str


class ListRequest(msgspec.Struct, frozen=True):
    pass


class Devices(msgspec.Struct, frozen=True):
    resource: str = ""
    ids: tuple[str, ...] = ()


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    devices: tuple[Devices, ...] = ()


class PodDevices(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    containers: tuple[Container, ...] = ()


class Listing(msgspec.Struct, frozen=True):
    pods: tuple[PodDevices, ...] = ()


def fetch_owners(path: Path, resources: Collection[str]) -> dict[str, Owner]:
    """By unit; only of these resources."""
    listing = call(path, LISTER, "List", ListRequest(), Listing)
    return {
        one: Owner(pod.namespace, pod.name, container.name)
        for pod in listing.pods
        for container in pod.containers
        for devices in container.devices
        if devices.resource in resources
        for one in devices.ids
    }
