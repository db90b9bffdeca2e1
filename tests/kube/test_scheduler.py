"""The agent as the scheduler of a real cluster, with exactly the rights that `dure render agent` prints."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from click.testing import CliRunner

from dure.adapters.kube.rbac import binding
from dure.adapters.kube.rest import Api
from dure.cli.render import command as render
from dure.embedded.members import Member
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.small_world import desired, service, training
from tests.kube.checker import overcommitted
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES = """
nodes:
- {group: big, count: 2, zone: lab-a, gpu: {count: 4}, labels: {dure.dev/pool: big}}
- {group: far, count: 1, zone: lab-b, gpu: {count: 4}, labels: {dure.dev/pool: far}}
- group: guarded
  count: 1
  gpu: {count: 4}
  labels: {dure.dev/pool: guarded}
  taints: [{key: team, value: vision, effect: NoSchedule}]
- {group: plain, count: 1}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=2.0, first=install_crds) as lab:
        lab["test"].add_nodes(NODES)
        text = CliRunner().invoke(render, ["agent", "--cluster", "test", "--plane", "http://127.0.0.1:1"]).output
        lab["test"].kubectl("apply", "-f", "-", stdin=text)
        lab["test"].kubectl("delete", "deployment", "-n", "dure-system", "dure-agent")
        lab["test"].apply(binding([{"kind": "User", "name": "robot", "apiGroup": "rbac.authorization.k8s.io"}]))
        yield lab["test"]


@pytest.fixture(scope="module")
def plane() -> FixedPlane:
    return FixedPlane()


@pytest.fixture(scope="module")
def member(cluster: Cluster, plane: FixedPlane) -> Iterator[Member]:
    api = Api.from_kubeconfig(cluster.kubeconfig_for("robot"))
    member = member_of(cluster, spec_of(cluster, big="big", far="big", guarded="big"), plane, api)
    member.start()
    yield member
    member.stop()


@pytest.fixture(autouse=True)
def _clean(cluster: Cluster, plane: FixedPlane, member: Member) -> Iterator[None]:
    yield
    plane.desired = ()
    member.runner.wake()
    cluster.api.delete("/api/v1/namespaces/default/pods?labelSelector=test")
    until(lambda: not cluster.api.get("/api/v1/pods")["items"], "no pods")


def create(cluster: Cluster, pod: Json) -> None:
    cluster.api.post("/api/v1/namespaces/default/pods", pod)


def node_of(cluster: Cluster, name: str) -> str:
    pod = cluster.api.until(
        f"/api/v1/namespaces/default/pods/{name}",
        lambda found: bool(found["spec"].get("nodeName")),
        what=f"{name} bound",
    )
    return str(pod["spec"]["nodeName"])


def test_a_pod_made_with_kubectl_is_scheduled_and_carries_its_slice(cluster: Cluster) -> None:
    create(cluster, user_pod("mine", count=2))
    node_of(cluster, "mine")
    text = cluster.kubectl("get", "pod", "mine", "-o", r"jsonpath={.metadata.annotations.dure\.dev/slice}")
    assert text.count('"device"') == 2
    assert overcommitted(cluster.api) == []


def test_a_pod_without_accelerators_does_not_take_one(cluster: Cluster) -> None:
    create(cluster, user_pod("small", count=0))
    assert node_of(cluster, "small") == "plain-0"


def test_selector_affinity_and_taints_are_honoured(cluster: Cluster) -> None:
    zone = "topology.kubernetes.io/zone"
    create(cluster, user_pod("chosen", nodeSelector={zone: "lab-b"}))
    terms = [{"matchExpressions": [{"key": "dure.dev/pool", "operator": "NotIn", "values": ["big", "guarded"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    create(cluster, user_pod("drawn", affinity={"nodeAffinity": required}))
    tolerated = [{"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}]
    create(cluster, user_pod("welcome", nodeSelector={"dure.dev/pool": "guarded"}, tolerations=tolerated))
    create(cluster, user_pod("stranger", nodeSelector={"dure.dev/pool": "guarded"}))
    assert node_of(cluster, "chosen") == "far-0"
    assert node_of(cluster, "drawn") == "far-0"
    assert node_of(cluster, "welcome") == "guarded-0"
    assert "team" in why(cluster, "stranger")


def why(cluster: Cluster, name: str) -> str:
    def told(found: Json) -> bool:
        conditions = found["status"].get("conditions", ())
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

    pod = cluster.api.until(f"/api/v1/namespaces/default/pods/{name}", told, what=f"why {name} waits")
    return str(next(one["message"] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"))


def test_a_pod_that_does_not_fit_says_why_in_condition_and_event(cluster: Cluster) -> None:
    create(cluster, user_pod("huge", count=64))
    assert "64 whole devices" in why(cluster, "huge")
    path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dhuge"
    cluster.api.until(path, lambda found: bool(found["items"]), what="an event")


def test_a_job_runs_to_its_end_and_its_placement_shows_it(
    cluster: Cluster, plane: FixedPlane, member: Member
) -> None:
    plane.desired = (desired(training("fit", gang=3)),)
    member.runner.wake()
    until(lambda: "Done" in cluster.kubectl("get", "placements", "-A"), "a placement that is done")
    seen = next(one for one in plane.reports[-1].observed if one.workload == "fit")
    assert (seen.succeeded, seen.failed) == (3, 0)
    assert "big" in cluster.kubectl("get", "vnodepools")


def test_a_serving_gets_a_deployment_and_a_service(cluster: Cluster, plane: FixedPlane, member: Member) -> None:
    plane.desired = (desired(service("web", replicas=2)),)
    member.runner.wake()
    until(lambda: any(one.ready == 2 for one in plane.reports[-1].observed), "two replicas")
    assert "web" in cluster.kubectl("get", "deployments,services", "-n", "dure-search", "-o", "name")


def test_a_quota_that_keeps_pods_away_is_told(cluster: Cluster, plane: FixedPlane, member: Member) -> None:
    poor = msgspec.structs.replace(training("stuck"), tenant="poor")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dure-poor"}}
    limits = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": "dure-poor"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    cluster.apply(namespace, limits)
    path = "/api/v1/namespaces/dure-poor/resourcequotas/limits"
    cluster.api.until(path, lambda found: "used" in found["status"], what="a quota that counts")
    plane.desired = (desired(poor),)
    member.runner.wake()
    told = "quota dure-poor/limits allows 0 requests.nvidia.com/gpu"
    until(lambda: any(one.message.startswith(told) for one in plane.reports[-1].observed), "the quota named")


def test_an_older_generation_is_refused_by_the_server_itself(
    cluster: Cluster, plane: FixedPlane, member: Member
) -> None:
    plane.desired = (desired(service("fenced", replicas=1), generation=7),)
    member.runner.wake()
    path = "/apis/dure.dev/v1alpha1/namespaces/dure-search/placements?labelSelector=dure.dev/workload%3Dfenced"
    [found] = cluster.api.until(path, lambda answer: len(answer["items"]) == 1, what="a placement")["items"]
    with pytest.raises(LabError, match="older generation"):
        cluster.kubectl(
            "patch", "placement", found["metadata"]["name"], "-n", "dure-search", "--type=merge",
            "-p", '{"spec": {"generation": 6}}',
        )  # fmt: skip


def test_the_agent_may_read_no_secret_and_no_other_configuration(cluster: Cluster) -> None:
    robot = cluster.kubeconfig_for("robot")
    for verb, what in (("get", "secrets"), ("create", "pods"), ("delete", "nodes"), ("get", "configmaps")):
        with pytest.raises(LabError):
            cluster.kubectl("auth", "can-i", verb, what, "-A", kubeconfig=robot)
