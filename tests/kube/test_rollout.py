"""A serving on a real cluster keeps its replicas: while it is rolled, when it is scaled, when somebody meddles."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

import msgspec
import pytest

from dure.embedded.members import Member
from dure.model.errors import Temporary
from dure.model.report import Desired
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.small_world import desired, service
from tests.kube.world import FixedPlane, api_of, install_crds, member_of, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PODS = "/api/v1/namespaces/dure-search/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/dure-search/deployments"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds) as lab:
        lab["test"].add_nodes([{"group": "big", "gpu": {"count": 4}, "labels": {"dure.dev/pool": "big"}}])
        yield lab["test"]


@pytest.fixture(scope="module")
def plane() -> FixedPlane:
    return FixedPlane()


@pytest.fixture(scope="module")
def member(cluster: Cluster, plane: FixedPlane) -> Iterator[Member]:
    made = member_of(cluster, spec_of(cluster, big="big"), plane)
    made.start()
    yield made
    made.stop()


def web(image: str, generation: int, replicas: int = 2) -> Desired:
    """Each replica needs a second to come up, so that a roll takes its time."""
    container = {"name": "main", "image": image}
    slow = {"annotations": {"lab.dure.dev/start-seconds": "1"}}
    template = json.dumps({"metadata": slow, "spec": {"containers": [container]}})
    spec = msgspec.structs.replace(service("web", replicas=2), template=template)
    return desired(spec, generation=generation, replicas=replicas)


def ready(cluster: Cluster, image: str) -> list[str]:
    """Names of the pods with this image that answer."""
    return sorted(
        pod["metadata"]["name"]
        for pod in cluster.api.get(PODS)["items"]
        if pod["spec"]["containers"][0]["image"] == image
        and "deletionTimestamp" not in pod["metadata"]
        and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
    )


def image_of(deployment: Json) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


class Watcher:
    """Every number of available replicas that the Deployment's controller has ever written since."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = api_of(cluster)
        now = self._api.get(DEPLOYMENTS, dict)["metadata"]["resourceVersion"]
        self._stream = self._api.watch(DEPLOYMENTS, {"watch": "true", "resourceVersion": now}, 300.0)
        self.available: list[int] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[int]:
        self._stream.stop()
        self._thread.join()
        self._api.close()
        return self.available

    def _run(self) -> None:
        with contextlib.suppress(Temporary):  # That is how a stream ends that is stopped.
            for line in self._stream:
                status: Json = json.loads(line)["object"].get("status", {})
                self.available.append(int(status.get("availableReplicas", 0)))


def test_a_new_image_is_rolled_in_without_a_replica_less(cluster: Cluster, plane: FixedPlane, member: Member) -> None:
    plane.desired = (web("web:1", 1),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:1")) == 2, "two replicas")
    until(lambda: cluster.api.get(DEPLOYMENTS)["items"][0]["status"].get("availableReplicas") == 2, "its status")
    watcher = Watcher(cluster)
    plane.desired = (web("web:2", 2),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:2")) == 2 and not ready(cluster, "web:1"), "two new replicas, no old one")
    seen = watcher.stop()
    assert len(seen) > 2
    assert min(seen) >= 2


def test_scaling_keeps_the_replicas_that_run(cluster: Cluster, plane: FixedPlane, member: Member) -> None:
    plane.desired = (web("web:2", 3),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:2")) == 2, "two replicas")
    before = ready(cluster, "web:2")
    plane.desired = (web("web:2", 4, replicas=3),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:2")) == 3, "three replicas")
    assert set(before) <= set(ready(cluster, "web:2"))


def test_what_somebody_else_changed_or_deleted_is_made_again(
    cluster: Cluster, plane: FixedPlane, member: Member
) -> None:
    plane.desired = (web("web:2", 5),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:2")) == 2, "two replicas")
    (name,) = (one["metadata"]["name"] for one in cluster.api.get(DEPLOYMENTS)["items"])
    cluster.kubectl("scale", "deployment", name, "-n", "dure-search", "--replicas=1")
    cluster.api.until(f"{DEPLOYMENTS}/{name}", lambda one: one["spec"]["replicas"] == 2, what="two wanted again")
    uid = cluster.api.get(f"{DEPLOYMENTS}/{name}")["metadata"]["uid"]
    cluster.kubectl("delete", "deployment", name, "-n", "dure-search", "--wait=false")
    cluster.api.until(f"{DEPLOYMENTS}/{name}", lambda one: one["metadata"]["uid"] != uid, what="another Deployment")
    until(lambda: len(ready(cluster, "web:2")) == 2, "two replicas again")


def test_while_the_plane_is_gone_an_autoscaler_scales_within_what_the_workload_allows(
    cluster: Cluster, plane: FixedPlane, member: Member
) -> None:
    plane.desired = (web("web:2", 6),)
    member.runner.wake()
    until(lambda: len(ready(cluster, "web:2")) == 2, "two replicas")
    (name,) = (one["metadata"]["name"] for one in cluster.api.get(DEPLOYMENTS)["items"])
    path = f"{DEPLOYMENTS}/{name}"
    plane.away = True
    cluster.kubectl("scale", "deployment", name, "-n", "dure-search", "--replicas=3")
    until(lambda: len(ready(cluster, "web:2")) == 3, "a third replica, scheduled without the plane")
    cluster.kubectl("set", "image", f"deployment/{name}", "main=meddled:1", "-n", "dure-search")
    cluster.api.until(path, lambda one: image_of(one) == "web:2", what="the workload's own image again")
    assert cluster.api.get(path)["spec"]["replicas"] == 3
    until(lambda: len(ready(cluster, "web:2")) == 3 and not ready(cluster, "meddled:1"), "three of its own")
    plane.away = False
    plane.desired = (web("web:2", 7, replicas=2),)
    member.runner.wake()
    cluster.api.until(path, lambda one: one["spec"]["replicas"] == 2, what="what the plane decides now")
