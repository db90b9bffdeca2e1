"""Devices change hands between real Deployments: nobody below its minimum, nothing invented, failures undone."""

from __future__ import annotations

import pytest

from dure.adapters.kube.deployments import DRAINING, WANTED, Deployments
from dure.adapters.kube.rest import Api
from dure.agent.pools import PoolKeeper
from dure.cli.scale_pool import Member
from dure.model.elastic import ElasticGroup
from dure.scale.reallocation import LIMITS_S, Plan
from lab.cluster import Cluster
from lab.fixtures import LabFactory
from lab.rest import Json
from tests.kube.world import api_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
MEMBERS = {"model-a": Member(3, 2, 10, priority=2), "model-b": Member(4, 2, 8, priority=1)}


class Group:
    """Two Deployments on nine devices, a keeper that is made anew for every look, and a clock that is told."""

    def __init__(self, cluster: Cluster, api: Api) -> None:
        self.cluster, self.levers, self.now_s = cluster, Deployments(api, "default"), 1000.0
        self.elastic = 2
        self.least = dict.fromkeys(MEMBERS, 99)
        self.most = 0

    def turn(self) -> Plan | None:
        group = ElasticGroup("chat", {"model-a": 3, "model-b": 4}, elastic=self.elastic, calm=0)
        self.now_s += 1.0
        plan = PoolKeeper(group, MEMBERS, self.levers, self.levers.fetch_wanted).turn(self.now_s)
        held = {name: self.levers.fetch(name) for name in MEMBERS}
        self.least = {name: min(self.least[name], one.replicas) for name, one in held.items()}
        self.most = max(self.most, sum(one.replicas for one in held.values()))
        return plan

    def want(self, name: str, replicas: int) -> None:
        self.cluster.api.patch(f"{DEPLOYMENTS}/{name}", {"metadata": {"annotations": {WANTED: str(replicas)}}})

    def replicas(self) -> tuple[int, int]:
        return self.levers.fetch("model-a").ready, self.levers.fetch("model-b").ready

    def settle(self, a: int, b: int) -> None:
        until(lambda: self.turn() is None and self.replicas() == (a, b), f"{a} and {b} replicas")


def deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    container = {"name": "main", "image": "lab/none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def test_a_surge_takes_the_elastic_share_then_idle_replicas_and_a_failure_is_undone(lab_factory: LabFactory) -> None:
    cluster = lab_factory(["test"])["test"]
    cluster.add_nodes([{"group": "gpu", "count": 1, "gpu": {"count": 9}}])
    cluster.apply(deployment("model-a", 3), deployment("model-b", 4))
    with api_of(cluster) as api:
        surge_and_fail(Group(cluster, api))


def surge_and_fail(group: Group) -> None:
    until(lambda: group.replicas() == (3, 4), "the first seven")
    group.want("model-a", 5)
    group.want("model-b", 4)
    group.settle(5, 4)
    group.want("model-a", 7)
    group.want("model-b", 2)
    group.settle(7, 2)
    assert (group.least["model-b"], group.most) == (2, 9)
    assert [pod for pod in group.cluster.api.get(PODS)["items"] if DRAINING in pod["metadata"]["labels"]] == []
    # A tenth device is promised that nobody has: its replica never gets ready, and the time for that runs out.
    group.elastic = 3
    group.want("model-a", 8)
    until(
        lambda: (plan := group.turn()) is not None and plan.step is not None and plan.step.phase == "warm",
        "a warm-up",
    )
    group.now_s += LIMITS_S["warm"] + 1.0
    group.elastic = 2
    group.want("model-a", 7)
    group.settle(7, 2)
    plan = group.levers.fetch_plan("chat")
    assert plan is not None
    assert plan.standing == "undone"
