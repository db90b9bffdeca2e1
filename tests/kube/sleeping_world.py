"""A real cluster whose nodes have an engine of each service, of which one is awake: what its tests step through.

Deployments, Services and the account are those of the documentation. In `Modelled` engines are real HTTP servers on
loopback, one for each pod and at its address; users ask them through the front, which follows the label.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import yaml

from dure.adapters.kube.endpoints import Endpoints, urls
from dure.adapters.kube.names import AWAKE
from dure.embedded.engines import Engine
from dure.front.choose import Work
from dure.front.proxy import Front, FrontSettings
from lab.cluster import Cluster
from lab.rest import Json
from tests.kube.world import api_of, until

GUIDE = Path(__file__).parents[2] / "docs" / "scale.md"
SERVICES = ("chat-7b", "chat-13b")
ACCOUNT = "dure-scale"
PODS = "/api/v1/namespaces/serving/pods"
PATIENCE_S = 30.0
T = TypeVar("T")


def begin(cluster: Cluster, nodes: int, port: int = 8000) -> None:
    """Nodes whose GPU is sliced in time for both, and a pod of each on all of them."""
    add_nodes(cluster, "gpu", nodes)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}})
    cluster.apply(*_guide("only-dure.yaml"), *_account())
    for name in SERVICES:
        service, deployment = _guide("chat-7b.yaml", name, port)
        deployment["spec"]["replicas"] = nodes
        cluster.apply(service, deployment)
    until(lambda: len(running(cluster)) == nodes * len(SERVICES), "an engine of each on every node")


def add_nodes(cluster: Cluster, group: str, count: int) -> None:
    sharing = {"mode": "time-slicing", "replicas": len(SERVICES)}
    cluster.add_nodes([{"group": group, "count": count, "gpu": {"count": 1}, "sharing": sharing}])


def running(cluster: Cluster) -> list[Json]:
    found = cluster.api.get(PODS)["items"]
    return [
        pod for pod in found if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def endpoints(cluster: Cluster, service: str) -> set[str]:
    """Pods that the Service sends to, by the cluster's own controller."""
    chosen = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    slices = cluster.api.get(f"/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices?{chosen}")["items"]
    return {one["targetRef"]["name"] for each in slices for one in each.get("endpoints") or ()}


def seats(cluster: Cluster) -> dict[str, list[str]]:
    """Services that have a pod, by node."""
    found: dict[str, list[str]] = {}
    for pod in running(cluster):
        found.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["labels"]["app"])
    return {node: sorted(services) for node, services in sorted(found.items())}


def _guide(file: str, name: str = "chat-7b", port: int = 8000) -> list[Json]:
    [found] = [block for block in GUIDE.read_text().split("```") if block.startswith(f"yaml\n# {file}")]
    text = found.removeprefix("yaml").replace("chat-7b", name) if name != "chat-7b" else found.removeprefix("yaml")
    return list(yaml.safe_load_all(text.replace("8000", str(port))))


def _account() -> list[Json]:
    here = {"name": ACCOUNT, "namespace": "serving"}
    group = "rbac.authorization.k8s.io"
    bound = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": here,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", **here}],
    }
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here}, bound]


class Modelled:
    """An engine behind every pod, the fronts before them, and users; `wrong` is what must not have happened."""

    def __init__(self, cluster: Cluster, port: int, answer_s: float, wake_s: float) -> None:
        self.cluster, self._port, self._work, self._wake_s = cluster, port, Work(0.0, 0.0, answer_s), wake_s
        self.engines: dict[str, tuple[str, Engine]] = {}
        self.fronts: dict[str, str] = {}
        self.rates: Mapping[str, float] = {}
        self.answers, self.wrong = Counter[int](), list[str]()
        self._opened: list[Endpoints] = []
        self._made: list[Front] = []
        self._loop = asyncio.new_event_loop()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop.run_forever, name="engines"),
            threading.Thread(target=self._watch, name="who-is-awake"),
            *(threading.Thread(target=self._ask, args=(name,), name=name) for name in SERVICES),
        ]

    def __enter__(self) -> Self:
        self._threads[0].start()
        self.start_engines()
        self._api = api_of(self.cluster)
        for name in SERVICES:
            self._run(self._open(name))
        for thread in self._threads[1:]:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads[1:]:
            thread.join()
        for each in self._opened:
            each.stop()
        for front in self._made:
            self._run(front.stop())
        for _, engine in self.engines.values():
            self._run(engine.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads[0].join()
        self._loop.close()
        self._api.close()

    def start_engines(self) -> None:
        """Awake, as vLLM starts; the pod's address is that of its engine."""
        for pod in running(self.cluster):
            name = pod["metadata"]["name"]
            if name not in self.engines:
                number = len(self.engines) + 1
                host = f"127.77.{number // 200}.{number % 200 + 1}"
                engine = Engine(self._work, host=host, port=self._port, sleep_s=0.2, wake_s=self._wake_s)
                self._run(engine.start())
                self.engines[name] = (pod["spec"]["nodeName"], engine)
                status = {"podIP": host, "podIPs": [{"ip": host}]}
                self.cluster.api.patch(f"{PODS}/{name}/status", {"status": status})

    def serving(self) -> Counter[str]:
        """Engines that are sent to, by service."""
        return Counter(
            pod["metadata"]["labels"]["app"]
            for pod in running(self.cluster)
            if pod["metadata"]["labels"].get(AWAKE) == "true"
        )

    def awake(self) -> Counter[str]:
        """Engines that are awake, by node."""
        return Counter(node for node, engine in list(self.engines.values()) if not engine.asleep)

    def _watch(self) -> None:
        """From the moment when no node has two that started awake."""
        settled = False
        while not self._stopped.wait(0.01):
            twice = [node for node, count in self.awake().items() if count > 1]
            settled = settled or not twice
            if settled and twice:
                self.wrong.append(f"two awake on {twice}")

    def _ask(self, name: str) -> None:
        """As many requests a second as is said, each on a connection of its own."""
        with ThreadPoolExecutor(32) as users:
            while not self._stopped.wait(1.0 / max(self.rates.get(name, 0.0), 0.01) if self.rates else 0.05):
                if self.rates.get(name):
                    users.submit(self._ask_once, name)

    def _ask_once(self, name: str) -> None:
        try:
            answer = httpx.post(f"{self.fronts[name]}/v1/completions", content=b'{"prompt": "word"}', timeout=60.0)
            self.answers[answer.status_code] += 1
            if answer.status_code != 200:
                self.wrong.append(f"{name}: {answer.status_code} {answer.text}")
        except httpx.HTTPError as error:
            self.wrong.append(f"{name}: {error!r}")

    async def _open(self, name: str) -> None:
        front = Front([], FrontSettings(paths=("/v1/",), carry_s=1.0))
        found: list[Endpoints] = []

        def changed() -> None:
            self._loop.call_soon_threadsafe(lambda: front.follow(urls(found)))

        found.append(Endpoints(self._api, "serving", f"app={name},{AWAKE}=true", self._port, changed))
        await asyncio.to_thread(found[0].start)
        self._opened += found
        self._made.append(front)
        self.fronts[name] = f"http://127.0.0.1:{await front.start('127.0.0.1', 0)}"

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(what, self._loop)
        return done.result(PATIENCE_S)


class Told:
    """What the command says, each line with its moment."""

    def __init__(self, lines: Any) -> None:
        self.lines: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def handovers(self) -> list[tuple[str, float]]:
        """Pods that came to serve, and the seconds since they were next."""
        began: dict[str, float] = {}
        found = []
        for at_s, line in self.lines:
            pod = line.split(" on ")[0]
            if line.endswith("is next"):
                began[pod] = at_s
            elif line.endswith("serves") and pod in began:
                found.append((pod, at_s - began.pop(pod)))
        return found

    def _read(self, lines: Any) -> None:
        for line in lines:
            self.lines.append((time.monotonic(), line.rstrip()))
