"""A host cluster with a plane and `dure tenant serve` beside it, as real processes; for tests of virtual clusters."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.build import ensure
from lab.cluster import APISERVER, CONTROLLER_MANAGER, Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.waiting import free_port
from tests.kube.chaos import Process
from tests.kube.secure_etcd import SecureEtcd

NODES = "nodes:\n- {group: gpu, count: 2, cpu: 64, memory: 256Gi, gpu: {count: 8}}\n"
PATIENCE_S = 120.0
# Labs go without the controllers of volumes; a host that gives volumes has them.
VOLUMES = {"kube-controller-manager": ["--controllers=*,-node-ipam-controller"]}


class VirtualWorld:
    """`create` gives a `kubectl` of the tenant; `host` is the cluster that runs its pods."""

    def __init__(self, lab: Lab, folder: Path, etcd: Sequence[str]) -> None:
        self.lab, self.host, self._folder = lab, lab["host"], folder
        self.state = folder / "plane"
        self.plane = Process(folder / "plane.log", "up", "--state", str(self.state), "--port", str(free_port()))
        built = ensure([APISERVER, CONTROLLER_MANAGER])
        self.server = Process(
            folder / "serve.log", "tenant", "serve", "--kubeconfig", str(self.host.kubeconfig_path),
            *etcd, "--state", str(folder / "serve"),
            "--apiserver", str(built[APISERVER] / APISERVER),
            "--controllers", str(built[CONTROLLER_MANAGER] / CONTROLLER_MANAGER),
        )  # fmt: skip

    def dure(self, *args: str, state: bool = False) -> str:
        command = [sys.executable, "-m", "dure", *args, *(["--state", str(self.state)] if state else [])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise LabError(done.stderr)
        return done.stdout

    def wait_for_plane(self) -> None:
        settled(lambda: bool(self.dure("status", state=True)), "the plane")

    def create(self, tenant: str) -> Tenant:
        options = ("--virtual-cluster", "--kubeconfig", str(self.host.kubeconfig_path))
        path = self._folder / f"{tenant}.kubeconfig"
        path.write_text(self.dure("tenant", "create", tenant, *options, state=True))
        return Tenant(self.host, path)

    def delete(self, tenant: str) -> None:
        options = ("--virtual-cluster", "--kubeconfig", str(self.host.kubeconfig_path))
        self.dure("tenant", "delete", tenant, *options)

    def hosted(self, kind: str, tenant: str) -> list[Json]:
        """What of a tenant is in the host cluster because its virtual cluster asked for it."""
        text = self.host.kubectl(
            "get", kind, "-n", f"dure-{tenant}", "-l", "dure.dev/virtual-namespace", "-o", "json"
        )
        items: list[Json] = json.loads(text)["items"]
        return items


class Tenant:
    """One who has nothing but a kubeconfig."""

    def __init__(self, host: Cluster, kubeconfig: Path) -> None:
        self._host, self.kubeconfig = host, kubeconfig

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self._host.kubectl(*args, stdin=stdin, kubeconfig=self.kubeconfig)

    @contextlib.contextmanager
    def holding(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """A kubectl that does not end by itself, while the block lasts; who waits for it in vain hears its end."""
        command = [str(ensure(["kubectl"])["kubectl"] / "kubectl"), f"--kubeconfig={self.kubeconfig}", *args]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
            patience = threading.Timer(PATIENCE_S, process.kill)
            patience.start()
            try:
                yield process
            finally:
                patience.cancel()
                process.kill()

    def apply(self, text: str) -> None:
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, *args: str) -> Json:
        found: Json = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found


@contextlib.contextmanager
def virtual_world(
    lab: Lab, folder: Path, etcd: SecureEtcd | None = None, *, nodes: str = NODES
) -> Iterator[VirtualWorld]:
    """With the lab's own etcd, which trusts everybody on this machine, or with one that does not."""
    if nodes:
        lab["host"].add_nodes(nodes)
    kept = ("--etcd", etcd.url, "--etcd-pki", str(etcd.pki)) if etcd else ("--etcd", lab.etcd_url)
    world = VirtualWorld(lab, folder, kept)
    world.plane.start()
    world.server.start()
    try:
        world.wait_for_plane()
        yield world
    finally:
        world.server.close()
        world.plane.close()


def settled(reached: Callable[[], bool], what: str) -> None:
    """Until it is so; a server that does not answer yet is no reason to give up."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if reached():
                return
            problem = "it is not so"
        except (LabError, OSError, ValueError, KeyError, IndexError) as error:
            problem = str(error)
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s in vain for {what}: {problem}"
        time.sleep(0.2)
