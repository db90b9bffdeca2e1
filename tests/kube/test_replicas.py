"""A real Deployment follows what its engines show, and stays as it is when they fall silent."""

from __future__ import annotations

import pytest

from dure.adapters.kube.deployments import WANTED, Deployments
from dure.adapters.kube.exposition import samples_of
from dure.adapters.kube.pulse import PulseBook, shown
from dure.agent.replicas import ReplicaKeeper
from dure.model.pulse import Pulse
from dure.scale.scaled import Scaled
from lab.fixtures import LabFactory
from lab.rest import Json
from tests.kube.world import api_of, until
from tests.unit.adapters.kube.test_pulse import VLLM

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Engines:
    """Every pod of the Deployment shows vLLM's metrics; requests are spread over those that are asked."""

    def __init__(self, levers: Deployments) -> None:
        self.levers, self.book, self.now_s = levers, PulseBook(), 1000.0
        self.answered: dict[str, float] = {}
        self.silent = False

    def fetch(self, url: str) -> str:
        if self.silent:
            return ""
        answered = self.answered.setdefault(url, 0.0)
        counts = {"70.0": answered, "10.0": 0.0, "90000.0": answered * 1000.0, "16000.0": answered * 200.0}
        # Nothing stands in a queue: each is answered at once.
        text = VLLM
        for shown_there, now in {**counts, "3.0": 0.0, "12.0": 0.0}.items():
            text = text.replace(f" {shown_there}\n", f" {now}\n")
        return text

    def pulse(self, name: str, _service: Scaled) -> Pulse | None:
        texts = self.levers.fetch_shown(name, self.fetch)
        return self.book.add(
            {uid: one for uid, text in texts.items() if (one := shown(samples_of(text))) is not None}, self.now_s
        )

    def turn(self, keeper: ReplicaKeeper, rate: float) -> None:
        self.now_s += 15.0
        for url in self.answered:
            self.answered[url] += rate * 15.0 / len(self.answered)
        [found] = keeper.turn(self.now_s)
        assert not found.error


def deployment(name: str) -> Json:
    labels = {"app": name}
    says = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    container = {"name": "main", "image": "lab/none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": labels, "annotations": says}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def test_a_deployment_grows_with_its_requests_and_keeps_replicas_when_metrics_fail(
    lab_factory: LabFactory,
) -> None:
    cluster = lab_factory(["test"])["test"]
    cluster.add_nodes([{"group": "gpu", "count": 1, "gpu": {"count": 8}}])
    cluster.apply(deployment("chat"))
    with api_of(cluster) as api:
        levers, told = Deployments(api, "default"), list[str]()
        until(lambda: levers.fetch("chat").ready == 2, "two replicas")
        engines = Engines(levers)
        keeper = ReplicaKeeper({"chat": Scaled(2, 8, 60.0, carries=2.0)}, levers, engines.pulse, tell=told.append)
        for _ in range(4):
            engines.turn(keeper, 1.0)
        for _ in range(6):
            engines.turn(keeper, 9.0)
        until(lambda: levers.fetch("chat").ready == levers.fetch("chat").replicas == 5, "nine requests need five")
        assert "by 'serving': DemandAbove" in told[0]
        engines.silent = True
        for _ in range(20):
            engines.turn(keeper, 40.0)
        assert levers.fetch("chat").replicas == 5
        assert told[-1].startswith("chat is scaled by HPA's rules: serving metrics are ")
        wish = ReplicaKeeper({"chat": Scaled(2, 8, 60.0, carries=2.0, pool=True)}, levers, engines.pulse)
        engines.silent = False
        for _ in range(4):
            engines.turn(wish, 13.0)
        assert levers.fetch("chat").replicas == 5, "one of a pool leaves its wish to who divides it"
        assert levers.fetch_wanted("chat") == 7
        assert cluster.api.get(f"{DEPLOYMENTS}/chat")["metadata"]["annotations"][WANTED] == "7"
