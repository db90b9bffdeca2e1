"""The node's accelerators for claims: a DRA driver, `resource.k8s.io/v1`.

Run beside the device plugin for devices that the node file marks `dra: true`; no unit is offered both ways. What is
there is one ResourceSlice of the node; a claim that was allocated becomes a CDI file that the runtime reads, so what
was prepared survives this process, and preparing again is preparing the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from dure.adapters.kube.rest import Api
from dure.adapters.kubelet import dra
from dure.adapters.kubelet.service import Method, SocketServer
from dure.device.plugin.inject import injected
from dure.device.plugin.node import DOMAIN, NodeConfig, Unit
from dure.model.errors import Conflict, DureError, NotFound, Permanent
from dure.model.units import Seconds

DRIVER = DOMAIN
CDI_KIND = f"{DOMAIN}/claim"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
Json = dict[str, Any]
# What was published is looked for this often: rarely enough for a thousand nodes.
LOOK_S: Seconds = 10.0


class Result(msgspec.Struct, frozen=True):
    request: str
    driver: str
    pool: str
    device: str


class _Devices(msgspec.Struct, frozen=True):
    results: tuple[Result, ...] = ()


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True):
    allocation: _Allocation = _Allocation()


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""


class _Claim(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


class Driver:
    """`sync` publishes what is healthy and keeps the sockets; the kubelet calls the rest."""

    def __init__(
        self, node: str, units: tuple[Unit, ...], config: NodeConfig, api: Api, kubelet: Path, cdi: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._node = node
        self._units = {unit.id: unit for unit in units}
        self._config = config
        self._api = api
        self._cdi = cdi
        self._published: Json = {}
        self._clock = clock
        self._looked_s = clock()
        self._socket = kubelet / "plugins" / DRIVER / "dra.sock"
        self._registration = kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
        self._servers: list[SocketServer] = []

    def sync(self, ill: frozenset[str]) -> None:
        """Publish, and serve again where a kubelet that started anew has removed the sockets."""
        wanted = resource_slice(self._node, [unit for unit in self._units.values() if unit.id not in ill])
        path = f"{SLICES}/{wanted['metadata']['name']}"
        if wanted != self._published or self._is_gone(path):
            self._api.apply(path, wanted, dict)
            self._published = wanted
        if not self._servers or not all(server.path.exists() for server in self._servers):
            self.close()
            prepare, undo = Method(dra.Claims, self.prepare), Method(dra.Claims, self.unprepare)
            info = dra.PluginInfo(name=DRIVER, endpoint=str(self._socket))
            calls = {"NodePrepareResources": prepare, "NodeUnprepareResources": undo}
            self._servers = [SocketServer(self._socket, {dra.PLUGIN: calls})]
            registration = {
                "GetInfo": Method(dra.InfoRequest, lambda _: info),
                "NotifyRegistrationStatus": Method(dra.RegistrationStatus, lambda _: dra.RegistrationAnswer()),
            }
            self._servers.append(SocketServer(self._registration, {dra.REGISTRATION: registration}))

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    def _is_gone(self, path: str) -> bool:
        """A kubelet that starts anew takes away what was published for its node; looked at now and then."""
        if self._clock() - self._looked_s < LOOK_S:
            return False
        self._looked_s = self._clock()
        try:
            self._api.get(path, dict)
        except NotFound:
            return True
        return False

    def prepare(self, asked: dra.Claims) -> dra.PreparedClaims:
        return dra.PreparedClaims({claim.uid: self._prepared(claim) for claim in asked.claims})

    def unprepare(self, asked: dra.Claims) -> dra.UnpreparedClaims:
        for claim in asked.claims:
            self._file(claim.uid).unlink(missing_ok=True)
        return dra.UnpreparedClaims({claim.uid: dra.Unprepared() for claim in asked.claims})

    def held(self) -> dict[str, str]:
        """Which claim holds which unit, from the files."""
        return {unit: uid for uid, units in self._prepared_files() for unit in units}

    def _prepared(self, claim: dra.Claim) -> dra.Prepared:
        try:
            results = self._results(claim)
            mine = [self._unit(one.device) for one in results]
            self._refuse_twice(claim.uid, mine)
            self._write(claim.uid, mine)
        except DureError as error:
            return dra.Prepared(error=str(error))
        name = f"{CDI_KIND}={claim.uid}"
        # The edits of a claim are one CDI device; its first unit brings it, so it is applied once.
        devices = [
            dra.PreparedDevice((one.request,), one.pool, one.device, (name,) if index == 0 else ())
            for index, one in enumerate(results)
        ]
        return dra.Prepared(tuple(devices))

    def _results(self, claim: dra.Claim) -> list[Result]:
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        found = self._api.get(path, _Claim)
        if found.metadata.uid != claim.uid:
            raise NotFound(f"claim {claim.namespace}/{claim.name} is another one by now")
        results = [one for one in found.status.allocation.devices.results if one.driver == DRIVER]
        if not results or any(one.pool != self._node for one in results):
            raise Permanent(f"claim {claim.namespace}/{claim.name} was given nothing of node {self._node}")
        return results

    def _unit(self, name: str) -> Unit:
        if name not in self._units:
            raise NotFound(f"node {self._node} has no unit '{name}' for claims")
        return self._units[name]

    def _refuse_twice(self, uid: str, mine: list[Unit]) -> None:
        held = self.held()
        for unit in mine:
            if held.get(unit.id, uid) != uid:
                raise Conflict(f"unit {unit.id} is held by claim {held[unit.id]}")

    def _write(self, uid: str, mine: list[Unit]) -> None:
        got = injected(mine, self._config)
        edits = {
            "env": [f"{key}={value}" for key, value in sorted(got.envs.items())],
            "mounts": [
                {"hostPath": one.host_path, "containerPath": one.container_path, "options": ["rw", "bind"]}
                for one in got.mounts
            ],
            "deviceNodes": [{"path": one.container_path} for one in got.devices],
        }
        spec = {
            "cdiVersion": "0.6.0",
            "kind": CDI_KIND,
            "annotations": got.annotations,
            "devices": [{"name": uid, "containerEdits": {key: value for key, value in edits.items() if value}}],
        }
        self._cdi.mkdir(parents=True, exist_ok=True)
        new = self._file(uid).with_suffix(".new")
        new.write_bytes(msgspec.json.encode(spec))
        new.rename(self._file(uid))

    def _file(self, uid: str) -> Path:
        return self._cdi / f"{DRIVER}-claim-{uid}.json"

    def _prepared_files(self) -> Iterator[tuple[str, list[str]]]:
        for path in sorted(self._cdi.glob(f"{DRIVER}-claim-*.json")):
            spec = msgspec.json.decode(path.read_bytes())
            yield spec["devices"][0]["name"], spec["annotations"]["dure.dev/units"].split(",")


def resource_slice(node: str, units: list[Unit]) -> Json:
    """All units of a node as one slice of one pool."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_described(unit) for unit in units],
        },
    }


def _described(unit: Unit) -> Json:
    return {
        "name": unit.id,
        "attributes": {
            "device": {"string": unit.device.name},
            "mode": {"string": str(unit.device.mode)},
            "linkGroup": {"int": unit.device.link_group},
        },
        "capacity": {"compute": {"value": f"{unit.compute_milli}m"}, "memory": {"value": f"{unit.memory_mib}Mi"}},
    }
