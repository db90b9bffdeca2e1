"""Keeps the node's resources registered: at the start, after every restart of the kubelet, through changes of health.

The process of `dure device plugin`. A kubelet that starts anew empties its folder of plugin sockets, so a socket that
is gone, or a kubelet's socket that is another one, means to serve and register again. Every turn also asks the
kubelet which pods hold what, and probes every device.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from dure.adapters.kubelet import device_plugin as api
from dure.adapters.kubelet.pod_resources import fetch_owners
from dure.adapters.kubelet.service import SocketServer, call
from dure.device.plugin.book import Book
from dure.device.plugin.inject import SOCKET
from dure.device.plugin.node import Accelerator, Mode, NodeConfig, Unit, units
from dure.device.plugin.resource import OPTIONS, Resource
from dure.model.errors import DureError

log = structlog.get_logger()
BOOK = "dure-units.json"
PROBE_S = 1.0


class Plugins:
    """All resources of one node at one kubelet, whose folder is `kubelet` (`/var/lib/kubelet` on most nodes)."""

    def __init__(
        self,
        config: NodeConfig,
        kubelet: Path,
        *,
        healthy: Callable[[Unit, NodeConfig], bool] | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._folder = kubelet / "device-plugins"
        self._pods = kubelet / "pod-resources" / api.KUBELET_SOCKET
        self._healthy = healthy or is_healthy
        self._now_s = now_s
        self.book = Book(self._folder.parent / BOOK)
        self._units = tuple(unit for unit in units(config) if not unit.device.dra)
        by_name: dict[str, list[Unit]] = {}
        for unit in self._units:
            by_name.setdefault(unit.resource, []).append(unit)
        self.resources = {name: Resource(name, found, config, self._give) for name, found in by_name.items()}
        self._servers: dict[str, SocketServer] = {}
        self._registered_at: tuple[int, int] | None = None

    def turn(self) -> None:
        """One look at everything; errors of a kubelet that is away are told and tried again next time."""
        self._probe()
        try:
            self._register()
            self._learn()
        except DureError as error:
            log.warning("the kubelet does not answer", why=str(error))

    def close(self) -> None:
        for resource in self.resources.values():
            resource.close()
        for server in self._servers.values():
            server.close()

    def _probe(self) -> None:
        ill = frozenset(unit.id for unit in self._units if not self._healthy(unit, self._config))
        for name, resource in self.resources.items():
            mine = frozenset(unit.id for unit in self._units if unit.resource == name)
            if resource.ill != ill & mine:
                log.info("health has changed", resource=name, ill=sorted(ill & mine))
            resource.set_ill(ill & mine)

    def _register(self) -> None:
        kubelet = self._folder / api.KUBELET_SOCKET
        try:
            found = kubelet.stat()
        except OSError:
            self._registered_at = None
            return
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._registered_at and all(server.path.exists() for server in self._servers.values()):
            return
        for name, resource in self.resources.items():
            endpoint = f"{name.replace('/', '-')}.sock"
            before = self._servers.pop(name, None)
            if before is not None:
                before.close()
            self._servers[name] = SocketServer(self._folder / endpoint, {api.PLUGIN: resource.methods()})
            register = api.Register(endpoint=endpoint, resource_name=name, options=OPTIONS)
            call(kubelet, api.REGISTRATION, "Register", register, api.Empty)
            log.info("registered", resource=name)
        self._registered_at = seen

    def _learn(self) -> None:
        if self._pods.exists():
            freed = self.book.listed(fetch_owners(self._pods, self.resources.keys()), self._now_s())
            if freed:
                log.info("units are free again", units=freed)

    def _give(self, ids: tuple[str, ...]) -> None:
        self._learn()
        self.book.give(ids, self._now_s())


def is_healthy(unit: Unit, config: NodeConfig) -> bool:
    """A virtual slice is well when its daemon takes connections; hardware when its device files are there."""
    if unit.device.mode is Mode.VIRTUAL:
        return answers(Path(config.sockets) / unit.id / SOCKET)
    return _present(unit.device)


def answers(path: Path) -> bool:
    """Whether somebody takes connections there; one who is stuck does not."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _present(device: Accelerator) -> bool:
    return all(Path(path).exists() for path in device.nodes)
