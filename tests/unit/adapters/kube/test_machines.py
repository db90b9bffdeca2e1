"""Asking for machines: one wish is one machine, until that machine is there and others have taken its room."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dure.adapters.kube.machines import Machines, Maker
from dure.adapters.kube.rest import Api
from dure.model.errors import Conflict, NotFound
from dure.scale.nodes.state import NewNode, Offer, Pod

OFFER = Offer("g5.xlarge", "a10g", (1000, 4000, 16384), 1_006_000)
WISH = NewNode("gpu", OFFER, (Pod("default/chat-1", (1000, 2000, 8192)),))
POOL = {"metadata": {"uid": "1"}, "spec": {"template": {"spec": {}}}}


class Server:
    """What an API server keeps of the objects it was sent."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {"/apis/karpenter.sh/v1/nodepools/gpu": POOL}

    def post(self, path: str, body: dict[str, Any], _: type) -> dict[str, Any]:
        name = f"{path}/{body['metadata']['name']}"
        if name in self.kept:
            raise Conflict("already there")
        self.kept[name] = {**body, "status": {}}
        return body

    def get(self, path: str, _: type) -> dict[str, Any]:
        if path not in self.kept:
            raise NotFound("not there")
        return self.kept[path]

    def is_up(self, condition: str) -> None:
        for each in self.kept.values():
            each["status"] = {"conditions": [{"type": condition, "status": "True"}]}


@pytest.mark.parametrize(("maker", "up"), [("kwok", "Ready"), ("karpenter", "Initialized")])
def test_a_wish_is_new_when_its_machine_is_there_and_the_pods_still_wait(maker: Maker, up: str) -> None:
    server = Server()
    machines = Machines(cast(Api, server), [OFFER], maker)
    first = machines.start(WISH)
    assert machines.start(WISH) == first, "while it boots"
    server.is_up(up)
    second = machines.start(WISH)
    assert second != first
    assert machines.start(WISH) == second, "while that one boots"
    server.is_up(up)
    assert machines.start(WISH) not in (first, second)


def test_a_pod_for_which_others_are_pushed_aside_waits_for_no_machine() -> None:
    def pod(name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        return {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], **spec},
            "status": {"phase": "Pending", **status},
        }

    labels = {"node.kubernetes.io/instance-type": "g5.xlarge"}
    created = {"name": "n1", "labels": labels, "creationTimestamp": "2026-11-18T00:00:00Z"}
    server = Server()
    server.kept["/api/v1/nodes"] = {"items": [{"metadata": created, "spec": {}, "status": {}}]}
    pods = [pod("low", {"nodeName": "n1"}, {}), pod("up", {}, {"nominatedNodeName": "n1"}), pod("waits", {}, {})]
    left = [pod("late", {}, {"nominatedNodeName": "gone"}), pod("lost", {"nodeName": "gone"}, {})]
    server.kept["/api/v1/pods"] = {"items": [*pods, *left]}
    waiting, nodes = Machines(cast(Api, server), [OFFER], "kwok").fetch()
    assert [one.name for one in waiting] == ["default/waits", "default/late"]
    assert [[one.name for one in node.pods] for node in nodes] == [["default/low", "default/up"]]
