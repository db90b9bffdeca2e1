"""The servers of one virtual cluster as processes: an API server on a prefix of an etcd, and its controllers.

Made by `keeper`. There is no scheduler: pods are placed by the host cluster's. Nor is there a node controller: nodes
are shown as the host sees them. The processes end with the one that started them; the state is in etcd, so a new
start finds everything.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

from dure.adapters.kube.rest import Api
from dure.adapters.virtual.etcd import Etcd
from dure.adapters.virtual.pki import KUBELET_CLIENT, VirtualAuthority
from dure.model.errors import DureError, InvalidInput, Temporary

APISERVER, CONTROLLERS = "kube-apiserver", "kube-controller-manager"
START_S = 120.0
# Beside the usual range of a host (10.96.0.0/12); 1,024 parts of 1,022 addresses.
SERVICES, _PART_BITS = "10.112.0.0/12", 10
_POLL_S = 0.2
_END_S = 10.0
_ADMINS = "system:masters"
_OFF = (
    "cloud-node-lifecycle-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "ttl-controller",
)


class Programs(NamedTuple):
    """What virtual clusters are made of: the two programs, the etcd that keeps their state, where they listen.

    `services` is the range of their services' addresses, of which each has a part of its own.
    """

    apiserver: Path
    controllers: Path
    etcd: Etcd
    address: str = "127.0.0.1"
    services: str = SERVICES


class ControlPlane:
    """`key` tells its state in etcd from everybody else's, also from that of an earlier tenant of the same name."""

    def __init__(self, programs: Programs, folder: Path, name: str, key: str) -> None:
        self._programs, self._folder, self._name, self._key = programs, folder, name, key
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.prefix = f"/dure-virtual/{key}"
        self.authority = VirtualAuthority(folder / "pki", name)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._port = self._kept_port()

    @property
    def server(self) -> str:
        return f"https://{self._programs.address}:{self._port}"

    @property
    def alive(self) -> bool:
        return len(self._running) == 2 and all(one.poll() is None for one in self._running.values())

    def start(self) -> str:
        """Start both, wait until the API server answers, give back a kubeconfig for the tenant."""
        self.stop()
        admin = self.authority.client("admin", _ADMINS)
        self._run(APISERVER, self._apiserver_argv())
        with contextlib.closing(self.connect()) as api:
            self._wait(api)
        self._run(CONTROLLERS, self._controllers_argv())
        return self.authority.kubeconfig(self.server, admin)

    def connect(self) -> Api:
        """As who syncs."""
        path = self._folder / "syncer.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(self.authority.kubeconfig(self.server, self.authority.client("dure-syncer", _ADMINS)))
        return Api.from_kubeconfig(path)

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def remove(self) -> None:
        """Everything that it ever kept, here and in etcd."""
        self.stop()
        self._programs.etcd.forget(self._key, self.prefix)
        shutil.rmtree(self._folder)

    def _run(self, name: str, argv: list[str]) -> None:
        leash = shutil.which("setpriv")
        if leash is None:
            raise InvalidInput("there is no setpriv", remedy="Install util-linux, which every Linux has.")
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [leash, "--pdeathsig", "KILL", *argv]
            self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait(self, api: Api) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                api.get("/api/v1/namespaces/default", dict)
            except DureError as error:
                if self._running[APISERVER].poll() is not None or time.monotonic() > deadline:
                    log = self._folder / f"{APISERVER}.log"
                    raise Temporary(f"the API server of {self._name} does not start: see {log}") from error
                time.sleep(_POLL_S)
            else:
                return

    def _kept_port(self) -> int:
        """The same at every start: it is in the tenant's kubeconfig."""
        kept = self._folder / "port"
        if not kept.exists():
            with socket.socket() as probe:
                probe.bind((self._programs.address, 0))
                kept.write_text(str(probe.getsockname()[1]))
        return int(kept.read_text())

    def _kept_range(self) -> str:
        """The same at every start, and nobody else's: then two tenants' services may have addresses in one host."""
        kept = self._folder / "services"
        if not kept.exists():
            taken = [path.read_text() for path in self._folder.parent.glob("*/services")]
            kept.write_text(free_part(self._programs.services, taken))
        return kept.read_text()

    def _apiserver_argv(self) -> list[str]:
        pair = self.authority.server([self._programs.address, "localhost", "kubernetes.default.svc"])
        key, client = self.authority.signing_key(), self.authority.client(KUBELET_CLIENT, "dure")
        return [
            str(self._programs.apiserver),
            *self._programs.etcd.admit(self._key, self.prefix).flags,
            f"--etcd-prefix={self.prefix}",
            f"--bind-address={self._programs.address}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--kubelet-certificate-authority={self.authority.certificate}",
            f"--kubelet-client-certificate={client.certificate}",
            f"--kubelet-client-key={client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={self._kept_range()}",
            # What a pod may do to a node is judged by the host cluster's own admission.
            "--allow-privileged=true",
            "--profiling=false",
        ]

    def _controllers_argv(self) -> list[str]:
        config = self._folder / "controllers.kubeconfig"
        client = self.authority.client("system:kube-controller-manager", "system:kube-controller-manager")
        config.touch(mode=0o600)
        config.write_text(self.authority.kubeconfig(self.server, client))
        return [
            str(self._programs.controllers),
            f"--kubeconfig={config}",
            f"--bind-address={self._programs.address}",
            "--secure-port=0",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={self.authority.signing_key()}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--controllers=*," + ",".join(f"-{name}" for name in _OFF),
        ]


def free_part(whole: str, taken: Sequence[str]) -> str:
    """The first part of a range that touches none of those."""
    known = [ip_network(one) for one in taken]
    network = ip_network(whole)
    parts = network.subnets(new_prefix=max(network.prefixlen, network.max_prefixlen - _PART_BITS))
    for part in parts:
        if not any(part.overlaps(one) for one in known):
            return str(part)
    raise InvalidInput(f"every part of {whole} is taken", remedy="Serve with a larger range: --services.")
