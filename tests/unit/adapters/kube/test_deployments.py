"""Marks of engines that sleep in turn, on their pods: what is written is read again, and nonsense is nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dure.adapters.kube.deployments import COST, LOWEST_COST, Deployments
from dure.adapters.kube.rest import Api
from dure.model.errors import NotFound
from dure.scale.awake import Marks

Json = dict[str, Any]
PODS = "/api/v1/namespaces/serving/pods"


class Objects:
    """An API server with one Deployment: gets, and merge patches of metadata."""

    def __init__(self, *pods: Json) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}

    def get(self, path: str, kind: object, **params: str) -> Json:
        if path == PODS:
            assert params == {"labelSelector": "app=chat"}
            return {"items": list(self.pods.values())}
        return {"metadata": {}, "spec": {"selector": {"matchLabels": {"app": "chat"}}, "replicas": len(self.pods)}}

    def patch(self, path: str, body: Json, kind: object) -> Json:
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFound(name)
        for part, values in body["metadata"].items():
            there = self.pods[name]["metadata"].setdefault(part, {})
            there.update(values)
            for key in [key for key, value in there.items() if value is None]:
                del there[key]
        return self.pods[name]


def pod(name: str, node: str = "n1", **more: object) -> Json:
    said = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    metadata = {"name": name, "uid": name, "annotations": said, "creationTimestamp": "1970-01-01T00:01:00Z", **more}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": "10.1.2.3", "conditions": conditions}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def levers(objects: Objects) -> Deployments:
    return Deployments(cast("Api", objects), "serving")


@pytest.mark.parametrize(
    "marks",
    [Marks(), Marks(serves=True), Marks(next_s=1.5, failed_s=3.25), Marks(drains_s=2e9 + 0.125, goes=True)],
)
def test_marks_that_are_written_are_read_again_and_taken_off_again(marks: Marks) -> None:
    objects = Objects(pod("a"))
    levers(objects).write_marks("a", marks)
    [found] = levers(objects).fetch_engines("chat")
    assert found.marks == marks
    assert (found.service, found.node, found.url, found.ready) == ("chat", "n1", "http://10.1.2.3:8000", True)
    assert found.born_s == 60.0
    levers(objects).write_marks("a", Marks())
    assert objects.pods["a"] == pod("a", labels={})


def test_others_marks_stay_and_nonsense_is_nothing() -> None:
    objects = Objects(pod("a", labels={"app": "chat", "dure.dev/awake": "maybe"}))
    objects.pods["a"]["metadata"]["annotations"] |= {
        "dure.dev/next-since": "soon",
        "dure.dev/drains-since": "nan",
        COST: "5",
    }
    [found] = levers(objects).fetch_engines("chat")
    assert found.marks == Marks()
    levers(objects).write_marks("a", Marks(serves=True, goes=True))
    assert objects.pods["a"]["metadata"]["labels"] == {"app": "chat", "dure.dev/awake": "true"}
    assert objects.pods["a"]["metadata"]["annotations"][COST] == LOWEST_COST


def test_pods_without_a_node_or_on_their_way_out_are_no_engines_and_one_that_is_gone_is_no_fault() -> None:
    objects = Objects(pod("a"), pod("waits", node=""), pod("goes", deletionTimestamp="1970-01-01T00:02:00Z"))
    assert [one.name for one in levers(objects).fetch_engines("chat")] == ["a"]
    objects.pods["a"]["status"]["startTime"] = "1970-01-01T00:10:00Z"
    assert levers(objects).fetch_engines("chat")[0].born_s == 600.0, "since it has a node, however long it waited"
    levers(objects).write_marks("gone", Marks(serves=True))
    assert set(objects.pods) == {"a", "waits", "goes"}
