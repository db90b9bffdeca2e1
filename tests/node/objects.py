"""Pods that ask for units of a real node, and the node files that offer them."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
import yaml

from dure.adapters.kubelet.device_plugin import KUBELET_SOCKET
from dure.adapters.kubelet.pod_resources import LISTER, Devices, ListRequest
from dure.adapters.kubelet.service import call
from lab import images
from lab.cluster import Cluster
from tests.kube.world import until

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def node_file(path: Path, sockets: Path, *devices: Json, cores: int = 0) -> Path:
    """With `cores` 0 the accelerators have all that the machine has but one."""
    file = {"name": "real-0", "sockets": str(sockets), "devices": list(devices), "cores": cores}
    path.write_text(yaml.safe_dump(file))
    return path


def pod(name: str, command: str, resource: str = "", count: int = 1, **more: object) -> Json:
    limits = {"resources": {"limits": {resource: str(count)}}} if resource else {}
    container = {
        "name": "main",
        "image": images.SANDBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", command],
        **limits,
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Allocatable(msgspec.Struct, frozen=True):
    """The kubelet's answer on what it would give now."""

    devices: tuple[Devices, ...] = ()


def allocatable(cluster: Cluster, resource: str, count: int) -> None:
    """Wait until the kubelet would give so many units, and the node tells the scheduler so.

    The node's status alone may be that of a plugin which is gone: it is renewed only now and then.
    """
    asked = cluster.real[0].folder / "kubelet" / "pod-resources" / KUBELET_SOCKET

    def given() -> bool:
        found = call(asked, LISTER, "GetAllocatableResources", ListRequest(), Allocatable)
        return sum(len(one.ids) for one in found.devices if one.resource == resource) == count

    until(given, f"the kubelet gives {count} of {resource}")
    cluster.api.until(
        "/api/v1/nodes/real-0",
        lambda node: node["status"]["allocatable"].get(resource) == str(count),
        what=f"{count} of {resource}",
    )


class Listening:
    """Stands where a device daemon would: takes connections on the sockets of some slices."""

    def __init__(self, sockets: Path, *slices: str) -> None:
        self._open: dict[str, socket.socket] = {}
        self._sockets = sockets
        for one in slices:
            self.open(one)

    def open(self, one: str) -> None:
        folder = self._sockets / one
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "device.sock"
        path.unlink(missing_ok=True)
        server = self._open[one] = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen(64)
        threading.Thread(target=_take, args=(server,), daemon=True).start()

    def close(self, one: str) -> None:
        server = self._open.pop(one)
        server.shutdown(socket.SHUT_RDWR)
        server.close()

    def close_all(self) -> None:
        for one in list(self._open):
            self.close(one)


def _take(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()
