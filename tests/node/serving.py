"""A real node with Dure's device daemon and plugin as processes, and model servers in containers on it."""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from dure.adapters.onnx.models import write_model
from dure.device.slice_wire import packed
from lab import images
from lab.cluster import Cluster
from lab.process import Component
from tests.lab.test_faults import ROOT
from tests.node.objects import Json, allocatable, node_file

IMAGE = "dure.lab/serving:1"
PACKAGES = ("msgspec", "numpy", "prometheus-client", "structlog")
SHAPES = '{"input": [32, 64]}'
PORT = 8000
RESOURCE = "dure.dev/virtual"


def serving_image(folder: Path) -> Path:
    """The model server with one small model, out of this checkout and this Python."""
    models = folder / "models"
    models.mkdir(parents=True)
    write_model("recommender", models / "recommender.onnx", seed=11)
    sources = {"/app": ROOT / "src", "/models": models}
    return images.python(folder, "serving", PACKAGES, sources, ["-m", "dure.device.serving"])


def training_image(folder: Path) -> Path:
    """The example's job, out of this checkout and this Python."""
    return images.python(folder, "training", ["numpy"], {"/app": ROOT / "examples" / "training"}, ["/app/train.py"])


def arguments(linger_s: float = 1.0) -> list[str]:
    return [
        "/models/recommender.onnx",
        "--address=0.0.0.0",
        f"--port={PORT}",
        f"--shapes={SHAPES}",
        f"--linger={linger_s}",
    ]


def server_pod(name: str, namespace: str = "default") -> Json:
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 1}
    container = {
        "name": "server",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": arguments(),
        "readinessProbe": probe,
        "resources": {"limits": {RESOURCE: "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"terminationGracePeriodSeconds": 10, "containers": [container]},
    }


class NodeProcesses:
    """`daemon` and `plugin` of one node, to be killed and started again."""

    def __init__(self, cluster: Cluster, folder: Path, slices: int = 2, cores: int = 0) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        sockets = folder / "slices"
        self.file = node_file(
            folder / "node.yaml", sockets, {"name": "v", "slices": slices, "memory_mib": 512 * slices}, cores=cores
        )
        self.first = sockets / "v-0" / "device.sock"
        self._slices = slices
        self._cluster = cluster
        kubelet = cluster.real[0].folder / "kubelet"
        self.daemon = self._process("serve", ["-f", str(self.file)], self.first.exists)
        self.plugin = self._process(
            "plugin", ["-f", str(self.file), "--kubelet", str(kubelet), "--every", "0.5"], lambda: True
        )
        self.book = kubelet / "dure-units.json"

    def start(self) -> None:
        self.daemon.start()
        self.plugin.start()
        allocatable(self._cluster, RESOURCE, self._slices)

    def end(self) -> None:
        self.plugin.kill()
        self.daemon.kill()

    def held(self) -> dict[str, str]:
        """Unit to pod, as the plugin has written it down."""
        raw = msgspec.json.decode(self.book.read_bytes())
        return {unit: one["owner"]["pod"] for unit, one in raw["held"].items() if one.get("owner")}

    def _process(self, name: str, options: list[str], ready: object) -> Component:
        argv = [sys.executable, "-m", "dure", "device", name, *options]
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        return Component(name, argv, self.folder / f"{name}.log", ready, env={"PYTHONPATH": path})  # type: ignore[arg-type]  # a condition


@contextlib.contextmanager
def node_processes(cluster: Cluster, folder: Path, slices: int = 2, cores: int = 0) -> Iterator[NodeProcesses]:
    made = NodeProcesses(cluster, folder, slices, cores)
    try:
        made.start()
        yield made
    finally:
        made.end()


class Client:
    """Asks one server, with a connection for each question, as whoever is not told of a move would."""

    def __init__(self, host: str, port: int = PORT) -> None:
        self.host, self.port = host, port
        question = {"inputs": packed({"input": np.ones((32, 64), np.float32)})}
        self._body = msgspec.json.encode(question)

    def infer(self) -> int:
        """The status; 0 when the connection failed."""
        try:
            return self._ask("POST", "/v1/infer", self._body)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def get(self, path: str) -> tuple[int, bytes]:
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=30.0)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
