"""One virtual cluster for each namespace that is marked for one. Run by `dure tenant serve`.

The marks in the host cluster are what is wanted, the folder is what is: a keeper that was away ends what is no longer
wanted and brings back the rest. The plane has no part in it.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.names import TENANT
from dure.adapters.kube.objects import Meta, Plain
from dure.adapters.kube.rest import Api
from dure.adapters.virtual.control_plane import ControlPlane, Programs
from dure.adapters.virtual.kubelet import Kubelet
from dure.adapters.virtual.names import ISOLATION, KUBECONFIG, SECRET
from dure.adapters.virtual.syncer import Syncer
from dure.model.errors import DureError, NotFound
from dure.model.tenant import Isolation

# A server that died is started again after at most that.
LOOK_S = 2.0
_FIRST_LIST_S = 30.0

_log = structlog.get_logger("dure.virtual")


class _Running(NamedTuple):
    plane: ControlPlane
    api: Api
    kubelet: Kubelet
    syncer: Syncer


class Keeper:
    """`run` until `stop`; the processes belong to the thread that runs it."""

    def __init__(self, host: Api, programs: Programs, folder: Path) -> None:
        self._host, self._programs, self._folder = host, programs, folder
        self._running: dict[str, _Running] = {}
        self._wake, self._stopped = threading.Event(), threading.Event()
        mark = f"{ISOLATION}={Isolation.OWN_CLUSTER.value}"
        self._marked = Mirror(host, "/api/v1/namespaces", Plain, self._wake.set, mark)

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        self._marked.start()
        try:
            self._marked.wait_synced(_FIRST_LIST_S)
            while not self._stopped.is_set():
                self._wake.clear()
                self._look()
                self._wake.wait(LOOK_S)
        finally:
            self._marked.stop()
            for name in list(self._running):
                self._end(name)

    def _look(self) -> None:
        wanted = {
            f"{one.metadata.name}.{one.metadata.uid}": one.metadata
            for one in self._marked.objects().values()
            if one.metadata.deletion_timestamp is None
        }
        kept = {path.name for path in self._folder.iterdir()} if self._folder.exists() else set()
        for key in sorted(kept - wanted.keys()):
            self._attempt(key, partial(self._remove, key))
        for key, metadata in sorted(wanted.items()):
            found = self._running.get(key)
            if found is None or not found.plane.alive:
                self._attempt(key, partial(self._start, key, metadata))

    def _attempt(self, key: str, act: Callable[[], None]) -> None:
        """One that does not start holds up nobody else; the next look tries again."""
        try:
            act()
        except DureError as error:
            _log.warning("virtual cluster waits", key=key, error=str(error))

    def _start(self, key: str, metadata: Meta) -> None:
        self._end(key)
        plane = self._plane(key)
        kubeconfig = plane.start()
        api = plane.connect()
        kubelet = Kubelet(plane.authority, self._host, metadata.name, self._programs.address)
        kubelet.start()
        tenant = metadata.labels.get(TENANT, metadata.name)
        syncer = Syncer(api, self._host, metadata.name, tenant, kubelet.endpoint)
        syncer.start()
        self._running[key] = _Running(plane, api, kubelet, syncer)
        self._hand_over(metadata.name, kubeconfig)
        _log.info("virtual cluster runs", namespace=metadata.name, server=plane.server)

    def _hand_over(self, namespace: str, kubeconfig: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET},
            "data": {KUBECONFIG: base64.b64encode(kubeconfig.encode()).decode()},
        }
        self._host.apply(f"/api/v1/namespaces/{namespace}/secrets/{SECRET}", body, dict)

    def _remove(self, key: str) -> None:
        """A namespace that has only lost its mark keeps its state: a mark can be put back, state cannot."""
        self._end(key)
        if self._lives(key):
            return
        self._plane(key).remove()
        _log.info("virtual cluster removed", key=key)

    def _lives(self, key: str) -> bool:
        name, _, uid = key.partition(".")
        try:
            found = self._host.get(f"/api/v1/namespaces/{name}", Plain).metadata
        except NotFound:
            return False
        return found.uid == uid and found.deletion_timestamp is None

    def _end(self, key: str) -> None:
        found = self._running.pop(key, None)
        if found is not None:
            found.syncer.stop()
            found.kubelet.stop()
            found.api.close()
            found.plane.stop()

    def _plane(self, key: str) -> ControlPlane:
        namespace = key.partition(".")[0]
        return ControlPlane(self._programs, self._folder / key, namespace, key)
