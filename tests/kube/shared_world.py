"""A real cluster on which services share machines: what the test of it steps through.

Nodes of one device each; the placeholders are those of the documentation. Dure's own planner is the node autoscaler,
on machines that KWOK imitates. Time is told, the cluster's is real: each look comes when the cluster is at rest.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from dure.adapters.kube.deployments import Deployments
from dure.adapters.kube.exposition import samples_of
from dure.adapters.kube.machines import Machines
from dure.adapters.kube.pulse import PulseBook, shown
from dure.adapters.kube.rest import Api
from dure.agent.nodes import NodeKeeper
from dure.agent.warm import ShareKeeper
from dure.cli.scale_nodes import read_pools
from dure.model.pulse import Pulse
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Share
from lab.cluster import Cluster
from lab.loopback import Loopback, Quiet
from lab.rest import Json
from tests.kube.checker import overcommitted
from tests.kube.world import until

GUIDE = Path(__file__).parents[2] / "docs" / "scale.md"
SPARE = "spare-nodes"
STEP_S, BOOT_S = 15.0, 120.0
LEAST, MOST = 2, 12
SERVICES = {name: Scaled(LEAST, 10, carries=2.0) for name in ("chat", "code")}
SHARE = Share(("chat", "code"), SPARE, boot=BOOT_S, start=STEP_S, safety=2.0, most=MOST)
PATIENT_TURNS = 80


class Engines:
    """Every pod of one service shows what it has answered; requests are spread over those that run."""

    def __init__(self) -> None:
        self.book, self.answered, self.here = PulseBook(), dict[str, float](), set[str]()

    def ask(self, requests: float) -> None:
        for url in self.here:
            self.answered[url] += requests / len(self.here)

    def pulse(self, levers: Deployments, name: str, now_s: float) -> Pulse | None:
        self.here.clear()
        texts = levers.fetch_shown(name, self._show)
        found = {uid: one for uid, text in texts.items() if (one := shown(samples_of(text))) is not None}
        return self.book.add(found, now_s)

    def _show(self, url: str) -> str:
        self.here.add(url)
        answered = self.answered.setdefault(url, 0.0)
        counters = {"request_success": answered, "prompt_tokens": answered * 1e3, "generation_tokens": answered * 200}
        gauges = {"num_requests_waiting": 0.0, "num_requests_running": 0.0}
        return "".join(f"vllm:{name} {value}\n" for name, value in {**counters, **gauges}.items())


class Fronts(Loopback):
    """The front before each service, at an address of its own: so many requests a second from now on."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        began_s = time.monotonic()

        class Handler(Quiet):
            def get(self) -> None:
                asked = int(rates[self.path.split("/")[1]] * (time.monotonic() - began_s))
                counts = {
                    "asked": asked, "prompt_tokens": asked * 1000, "answered": asked, "output_tokens": asked * 200
                }  # fmt: skip
                shown_here = {"counts": counts, "waiting": 0, "waiting_tokens": 0.0, "running": 0}
                self.reply(200, json.dumps(shown_here).encode())

        super().__init__(Handler, "fronts")


class World:
    """The share and the planner in turn."""

    def __init__(self, cluster: Cluster, api: Api, folder: Path) -> None:
        self.cluster, self.levers, self.now_s = cluster, Deployments(api, "serving"), 10_000.0
        (folder / "pools.yaml").write_text("pools: [{name: gpu, types: [g5.xlarge], zones: [lab-a]}]")
        pools = read_pools(folder / "pools.yaml")
        offers = [offer for pool in pools for offer in pool.offers]
        self.planner = NodeKeeper(Machines(api, offers, "kwok"), pools)
        self.engines = {name: Engines() for name in SERVICES}
        self.keeper = ShareKeeper(SHARE, SERVICES, self.levers, self._pulse, STEP_S)

    def begin(self, spare: int, **replicas: int) -> None:
        """So many replicas of each on machines of their own, and warm ones."""
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}})
        self.cluster.apply(*_guide(), *(_deployment(name, count) for name, count in replicas.items()))
        self.levers.scale(SPARE, spare)
        until(lambda: all(one.pods == one.replicas for one in self.held().values()), "pods of all of them")
        self.plan()

    def turn(self, **rates: float) -> None:
        """What came in one step, a look at it, and whatever the cluster makes of that."""
        self.now_s += STEP_S
        for name, rate in rates.items():
            self.engines[name].ask(rate * STEP_S)
        found = self.keeper.turn(self.now_s)
        assert found is None or not found.error
        until(self.rests, "a cluster at rest")
        held = self.held()
        used = sum(held[name].replicas for name in SERVICES)
        assert min(held[name].replicas for name in SERVICES) >= LEAST
        assert used <= self.nodes(), "replicas only where a machine is"
        assert used + held[SPARE].replicas <= MOST
        assert overcommitted(self.cluster.api) == []

    def play(self, reached: Callable[[], bool], what: str, *, boots: bool = True, **rates: float) -> None:
        """Turn until that is so. What was asked for is a node a boot later, and one that is empty then is gone."""
        for turn in itertools.count(1):
            self.turn(**rates)
            if boots and turn % round(BOOT_S / STEP_S) == 0:
                self.plan()
            if reached():
                return
            assert turn < PATIENT_TURNS, f"{turn} looks in vain for {what}: {self.held()}"

    def plan(self) -> None:
        until(lambda: not self.planner.turn(self.now_s) and self.rests(), "machines for what waits and no others")

    def rests(self) -> bool:
        """Every replica runs, and placeholders on all machines that are left."""
        held = self.held()
        spare, used = held.pop(SPARE), sum(one.replicas for one in held.values())
        room = max(min(spare.replicas, self.nodes() - used), 0)
        whole = all(one.pods == one.ready == one.replicas for one in held.values())
        return whole and spare.pods == spare.replicas and spare.ready == room

    def held(self) -> dict[str, Held]:
        return {name: self.levers.fetch(name) for name in (*SERVICES, SPARE)}

    def replicas(self, name: str) -> int:
        return self.levers.fetch(name).replicas

    def nodes(self) -> int:
        """Nodes that take pods."""
        found = self.cluster.api.get("/api/v1/nodes")["items"]
        return sum(not node["spec"].get("unschedulable") for node in found)

    def seats(self, name: str) -> dict[str, str]:
        """Pods of a Deployment and their nodes."""
        found = self.cluster.api.get(f"/api/v1/namespaces/serving/pods?labelSelector=app%3D{name}")["items"]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in found}

    def pushed_aside(self) -> set[str]:
        """Pods that the scheduler has preempted, by its own word."""
        path = "/api/v1/namespaces/serving/events?fieldSelector=reason%3DPreempted"
        return {event["involvedObject"]["name"] for event in self.cluster.api.get(path)["items"]}

    def _pulse(self, name: str, _service: Scaled) -> Pulse | None:
        return self.engines[name].pulse(self.levers, name, self.now_s)


def _guide() -> list[Json]:
    """The placeholders as the documentation has them."""
    [found] = [block for block in GUIDE.read_text().split("```") if block.startswith("yaml\n# spare-nodes.yaml")]
    return list(yaml.safe_load_all(found.removeprefix("yaml")))


def _deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    says = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "2", "memory": "8Gi"}}
    container = {"name": "main", "image": "lab/none", "resources": resources}
    template = {"metadata": {"labels": labels, "annotations": says}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "serving"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
