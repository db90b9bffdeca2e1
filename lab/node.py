"""A real node of a lab cluster: containerd and a kubelet, so that pods become containers that compute.

Made by `lab.cluster` where `real_nodes` asks for it. Everything of the node lives in namespaces of one keeper process
(see `lab.keeper`); its images are made on the spot (`lab.images`), its pods have addresses of a range that no other
lab on this machine has. `why_no_real_node` says in one line why there can be none here.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab import cgroups, images, kubelet
from lab.components import LOOPBACK
from lab.errors import LabError
from lab.pki import KeyPair
from lab.ports import FIRST, Ports
from lab.process import Component
from lab.rest import Api

KEEPER = Path(__file__).with_name("keeper.py")
RUNTIME = Path(__file__).with_name("runtime.py")
PARTS = ("keeper", "containerd", "kubelet")
TOOLS = ("unshare", "nsenter", "mount", "gcc")


@dataclass(frozen=True)
class NodeFiles:
    """What the cluster gives its node."""

    kubeconfig: Path
    serving: KeyPair
    ca: Path


class RealNode:
    """`keeper`, `containerd` and `kubelet` are its parts; `end` leaves nothing of it."""

    def __init__(
        self, name: str, folder: Path, binaries: Mapping[str, Path], files: NodeFiles, api: Api, ports: Ports
    ) -> None:
        self.name = name
        self.folder = folder
        self._binaries = binaries
        self._api = api
        self._port = ports.take()
        self._health_port = ports.take()
        self.cgroup = f"{cgroups.PREFIX}{self._port}"
        for part in ("kubelet", "containerd", "cni", "cdi"):
            (folder / part).mkdir(parents=True)
        self.address = folder / "containerd.sock"
        self._write_configs(files)
        self.keeper = self._make_keeper()
        self.containerd = self._make_containerd()
        self.kubelet = self._make_kubelet(files)

    @property
    def parts(self) -> tuple[Component, Component, Component]:
        return self.keeper, self.containerd, self.kubelet

    @property
    def plugins(self) -> Path:
        """Where the kubelet looks for device plugins, as this machine sees it."""
        return self.folder / "kubelet" / "device-plugins"

    def start(self) -> None:
        """Runtime, image of the sandbox, kubelet; returns when the node is registered."""
        self.keeper.start()
        self.containerd.start()
        self.load(images.sandbox(self.folder / "images"))
        self.kubelet.start(wait=False)
        path = f"/api/v1/nodes/{self.name}"
        self._api.until(path, lambda _: True, what=f"node {self.name}")
        # The kubelet refuses to be at a loopback address; as with a cloud, somebody else says where it is.
        self._api.patch(f"{path}/status", {"status": {"addresses": [{"type": "InternalIP", "address": LOOPBACK}]}})
        self._api.patch(path, {"spec": {"taints": None}})
        self.kubelet.wait_ready()

    @property
    def ctr(self) -> str:
        """The program that speaks with containerd; call it with `run`."""
        return str(self._binaries["containerd"] / "ctr")

    def load(self, archive: Path) -> None:
        """Import an image."""
        self.run(self.ctr, "--address", str(self.address), "-n", "k8s.io", "images", "import", str(archive))

    def run(self, *command: str) -> str:
        """Run a program inside the node's namespaces."""
        done = subprocess.run(self._inside(*command), capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"`{' '.join(command)}` on node {self.name}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def end(self) -> None:
        """Kill the node. Its namespaces end with the keeper; what is left are empty control groups."""
        for part in (self.kubelet, self.containerd, self.keeper):
            part.kill()
        cgroups.remove(self.cgroup)

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", "--target", (self.folder / "keeper.pid").read_text(), "--mount", "--pid", "--", *command]

    def _make_keeper(self) -> Component:
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["--", sys.executable, "-I", "-S", str(KEEPER), str(self.folder)]
        ready = self.folder / "keeper.pid"
        return Component(f"{self.name}/keeper", command, self.folder / "keeper.log", ready.exists)

    def _make_containerd(self) -> Component:
        binary = self._binaries["containerd"] / "containerd"
        config = self.folder / "containerd.toml"

        def argv() -> list[str]:
            return self._inside(
                str(binary),
                f"--config={config}",
                f"--address={self.address}",
                f"--root={self.folder / 'containerd'}",
                "--state=/run/containerd",
            )

        def ready() -> bool:
            return (
                subprocess.run(
                    self._inside(self.ctr, "--address", str(self.address), "version"),
                    capture_output=True,
                ).returncode
                == 0
            )

        return Component(f"{self.name}/containerd", argv, self.folder / "containerd.log", ready)

    def _make_kubelet(self, files: NodeFiles) -> Component:
        def argv() -> list[str]:
            return self._inside(
                str(self._binaries["kubelet"]),
                f"--config={self.folder / 'kubelet.yaml'}",
                f"--kubeconfig={files.kubeconfig}",
                f"--hostname-override={self.name}",
                f"--node-labels=kubernetes.io/hostname={self.name}",
                "--cloud-provider=external",
                "--root-dir=/var/lib/kubelet",
            )

        def ready() -> bool:
            node = self._api.get(f"/api/v1/nodes/{self.name}")
            states = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
            return states.get("Ready") == "True"

        return Component(f"{self.name}/kubelet", argv, self.folder / "kubelet.log", ready)

    def _write_configs(self, files: NodeFiles) -> None:
        config = kubelet.config(self._port, self._health_port, self.address, files.ca, files.serving)
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(config))
        starter = self.folder / "runc"
        command = f"{sys.executable} -I -S {RUNTIME} {self.cgroup} {self._binaries['runc']}"
        starter.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        starter.chmod(0o755)
        toml = kubelet.containerd_config(starter, self._binaries["cni"], self.folder / "cni")
        (self.folder / "containerd.toml").write_text(toml)
        (self.folder / "cni" / "10-lab.conflist").write_text(kubelet.network(self._port - FIRST))


def why_no_real_node() -> str | None:
    """One line; None where a real node can run."""
    if platform.system() != "Linux":
        return "a real node needs Linux"
    if os.geteuid() != 0:
        return "a real node needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"a real node needs {', '.join(missing)}"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return f"no namespaces can be made here: {probe.stderr.strip()}" if probe.returncode else None
