"""Priorities on a real cluster: whoever is lower gives way through the Eviction API, unless a budget protects it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from dure.adapters.kube.rbac import binding, role
from dure.adapters.kube.rest import Api
from dure.embedded.members import Member
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.kube.checker import overcommitted
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PODS = "/api/v1/namespaces/default/pods"
REPLICAS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds) as lab:
        found = lab["test"]
        found.add_nodes([{"group": "big", "count": 2, "gpu": {"count": 2}, "labels": {"dure.dev/pool": "big"}}])
        robot = {"kind": "User", "name": "robot", "apiGroup": "rbac.authorization.k8s.io"}
        found.apply(role(), binding([robot]), _class("urgent", 1000), _class("patient", 1000, "Never"))
        yield found


@pytest.fixture(scope="module")
def member(cluster: Cluster) -> Iterator[Member]:
    api = Api.from_kubeconfig(cluster.kubeconfig_for("robot"))
    made = member_of(cluster, spec_of(cluster, big="big"), FixedPlane(), api)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def low(cluster: Cluster, member: Member) -> Iterator[None]:
    """A Deployment that fills the cluster with pods of priority 0."""
    cluster.apply(_deployment())
    until(lambda: len(_bound(cluster, "app=low")) == REPLICAS, "a full cluster")
    yield
    cluster.api.delete("/apis/apps/v1/namespaces/default/deployments/low")
    cluster.api.delete(f"{PODS}?labelSelector=test")
    until(lambda: not cluster.api.get(PODS)["items"], "no pods")


def _class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def _deployment() -> Json:
    pod = user_pod("low")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "low", "namespace": "default"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "low"}},
            "template": {"metadata": {"labels": {"app": "low"}}, "spec": pod["spec"]},
        },
    }


def _budget(least: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "low"}}},
    }


def _pods(cluster: Cluster, selector: str) -> list[Json]:
    return list(cluster.api.get(f"{PODS}?labelSelector={quote(selector)}")["items"])


def _bound(cluster: Cluster, selector: str) -> list[Json]:
    return [one for one in _pods(cluster, selector) if one["spec"].get("nodeName")]


def _names(pods: list[Json]) -> set[str]:
    return {str(pod["metadata"]["name"]) for pod in pods}


def _events(cluster: Cluster, reason: str) -> list[Json]:
    found = cluster.api.get(f"/api/v1/namespaces/default/events?fieldSelector={quote(f'reason={reason}')}")
    return list(found["items"])


def _message(cluster: Cluster, name: str) -> str:
    conditions = cluster.api.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return next((str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.mark.usefixtures("low")
def test_one_lower_pod_gives_way_is_told_why_and_waits_again(cluster: Cluster) -> None:
    before = _names(_pods(cluster, "app=low"))
    cluster.api.post(PODS, user_pod("up", priorityClassName="urgent"))
    until(lambda: bool(cluster.api.get(f"{PODS}/up")["spec"].get("nodeName")), "the urgent pod bound")
    until(lambda: len(_pods(cluster, "app=low")) == REPLICAS, "the victim made again by its owner")
    after = _pods(cluster, "app=low")
    (victim,) = before - _names(after)
    (again,) = _names(after) - before
    assert len(_bound(cluster, "app=low")) == REPLICAS - 1
    told = [one for one in _events(cluster, "Preempted") if one["involvedObject"]["name"] == victim]
    assert len(told) == 1
    assert "priority 1000 for default/up" in told[0]["message"]
    until(lambda: "whole devices" in _message(cluster, again), "why the victim waits")
    assert overcommitted(cluster.api) == []


@pytest.mark.usefixtures("low")
def test_a_budget_holds_the_urgent_pod_until_it_allows_one_to_go(cluster: Cluster) -> None:
    before = _names(_pods(cluster, "app=low"))
    cluster.apply(_budget(REPLICAS))
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
    cluster.api.until(path, lambda one: one.get("status", {}).get("expectedPods") == REPLICAS, what="a budget")
    cluster.api.post(PODS, user_pod("held", priorityClassName="urgent"))
    until(lambda: "default/guard allows 0 disruptions" in _message(cluster, "held"), "the budget's word")
    assert _names(_pods(cluster, "app=low")) == before
    cluster.apply(_budget(REPLICAS - 1))
    until(lambda: bool(cluster.api.get(f"{PODS}/held")["spec"].get("nodeName")), "the urgent pod bound")
    assert len(before & _names(_pods(cluster, "app=low"))) == REPLICAS - 1
    cluster.api.delete(path)


@pytest.mark.usefixtures("low")
def test_a_class_that_never_preempts_waits(cluster: Cluster) -> None:
    before = _names(_pods(cluster, "app=low"))
    cluster.api.post(PODS, user_pod("calm", priorityClassName="patient"))
    until(lambda: "whole devices" in _message(cluster, "calm"), "why it waits")
    assert _names(_pods(cluster, "app=low")) == before
