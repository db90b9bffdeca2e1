"""Dynamic resource allocation on a real cluster: slices written by hand, claims allotted by Dure before it binds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dure.adapters.kube.rbac import binding, role
from dure.adapters.kube.rest import Api
from dure.embedded.members import Member
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DRIVER = "gpu.example.com"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
BIG = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes: `dra-0` offers two devices of 24 GiB, `dra-1` two of 80 GiB."""
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds) as lab:
        found = lab["test"]
        found.add_nodes([{"group": "dra", "count": 2, "labels": {"dure.dev/pool": "dra"}}])
        robot = {"kind": "User", "name": "robot", "apiGroup": "rbac.authorization.k8s.io"}
        found.apply(role(), binding([robot]), _slice("dra-0", "24Gi"), _slice("dra-1", "80Gi"), _class())
        yield found


@pytest.fixture(scope="module", autouse=True)
def member(cluster: Cluster) -> Iterator[Member]:
    api = Api.from_kubeconfig(cluster.kubeconfig_for("robot"))
    made = member_of(cluster, spec_of(cluster), FixedPlane(), api)
    made.start()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _clean(cluster: Cluster, member: Member) -> Iterator[None]:
    yield
    cluster.api.delete(f"{PODS}?labelSelector=test")
    until(lambda: not cluster.api.get(PODS)["items"], "no pods")
    cluster.api.delete(CLAIMS)
    until(lambda: not cluster.api.get(CLAIMS)["items"], "no claims")


def _slice(node: str, memory: str) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {"index": {"int": index}, "model": {"string": "LAB"}},
                    "capacity": {"memory": {"value": memory}},
                }
                for index in range(2)
            ],
        },
    }


def _class() -> Json:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "LAB"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "lab-gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _spec(count: int = 1, expression: str = "", **more: object) -> Json:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    exactly = {"deviceClassName": "lab-gpu", "count": count, "selectors": selectors}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}


def _template(name: str, spec: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": spec},
    }


def claiming(name: str, **source: str) -> Json:
    return user_pod(name, count=0, resourceClaims=[{"name": "gpu", **source}])


def bound(cluster: Cluster, name: str) -> str:
    def is_bound(found: Json) -> bool:
        return bool(found["spec"].get("nodeName"))

    return str(cluster.api.until(f"{PODS}/{name}", is_bound, what=f"{name} bound")["spec"]["nodeName"])


def claim_of(cluster: Cluster, pod: str) -> Json:
    (status,) = cluster.api.get(f"{PODS}/{pod}")["status"]["resourceClaimStatuses"]
    return cluster.api.get(f"{CLAIMS}/{status['resourceClaimName']}")


def why(cluster: Cluster, name: str, part: str) -> None:
    def told(found: Json) -> bool:
        conditions = found["status"].get("conditions", ())
        return any(one["type"] == "PodScheduled" and part in one.get("message", "") for one in conditions)

    cluster.api.until(f"{PODS}/{name}", told, what=f"{name} told '{part}'")


def test_a_claim_from_a_template_is_allotted_and_kept_before_the_pod_is_bound(cluster: Cluster) -> None:
    cluster.apply(_template("one-big", _spec(expression=BIG)))
    cluster.api.post(PODS, claiming("wants-big", resourceClaimTemplateName="one-big"))
    assert bound(cluster, "wants-big") == "dra-1"
    claim = claim_of(cluster, "wants-big")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["request"]) == (DRIVER, "dra-1", "gpu")
    (consumer,) = claim["status"]["reservedFor"]
    assert consumer["name"] == "wants-big"
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


def test_no_device_is_allotted_twice_and_the_one_too_many_waits_until_one_is_given_back(cluster: Cluster) -> None:
    cluster.apply(_template("one", _spec()))
    names = [f"crowd-{number}" for number in range(5)]
    for name in names:
        cluster.api.post(PODS, claiming(name, resourceClaimTemplateName="one"))

    def seated() -> list[str]:
        pods = cluster.api.get(PODS)["items"]
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]

    until(lambda: len(seated()) == 4, "four of five bound")
    (late,) = set(names) - set(seated())
    why(cluster, late, "devices for gpu of claim")
    given = [
        one for name in seated() for one in claim_of(cluster, name)["status"]["allocation"]["devices"]["results"]
    ]
    assert len({(one["pool"], one["device"]) for one in given}) == 4
    cluster.api.delete(f"{PODS}/{seated()[0]}")
    bound(cluster, late)


def test_two_pods_share_one_claim_on_the_node_of_its_devices(cluster: Cluster) -> None:
    cluster.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "shared", "namespace": "default"},
            "spec": _spec(count=2, expression=f'device.attributes["{DRIVER}"].index in [0, 1]'),
        }
    )
    for name in ("first", "second"):
        cluster.api.post(PODS, claiming(name, resourceClaimName="shared"))
    assert bound(cluster, "first") == bound(cluster, "second")
    claim = cluster.api.get(f"{CLAIMS}/shared")
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    assert {one["name"] for one in claim["status"]["reservedFor"]} == {"first", "second"}


def test_what_cannot_be_judged_holds_the_pod_and_says_what_it_is(cluster: Cluster) -> None:
    strange = f'device.attributes["{DRIVER}"].model.matches("^LAB$")'
    same = [{"requests": ["gpu"], "matchAttribute": f"{DRIVER}/model"}]
    cluster.apply(_template("strange", _spec(expression=strange)), _template("alike", _spec(2, constraints=same)))
    cluster.api.post(PODS, claiming("asks-cel", resourceClaimTemplateName="strange"))
    cluster.api.post(PODS, claiming("asks-alike", resourceClaimTemplateName="alike"))
    cluster.api.post(PODS, claiming("asks-nothing", resourceClaimName="nowhere"))
    why(cluster, "asks-cel", "method matches()")
    why(cluster, "asks-alike", "constraints cannot be judged")
    why(cluster, "asks-nothing", "not there yet")
