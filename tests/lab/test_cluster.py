"""A hub and two members as real processes: access, fake nodes, pods with stated run times."""

import datetime
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.rest import Json
from tests.lab.objects import GPU_NODES, has_condition, job, phase_is, pod

pytestmark = pytest.mark.lab

PODS = "/api/v1/namespaces/default/pods"
MIG_NODES = """
nodes:
- group: mig
  gpu: {count: 2}
  mig_config: all-3g.20gb
  mig_layouts:
    all-3g.20gb: {3g.20gb: 2}
    all-1g.5gb: {1g.5gb: 7}
- group: plugin
  gpu: {count: 4}
  plugin_configs:
    shared-4: {mode: time-slicing, replicas: 4}
"""


@pytest.fixture(scope="module")
def gpu_nodes(hub: Cluster) -> Iterator[list[str]]:
    names = hub.add_nodes(GPU_NODES)
    yield names
    hub.kubectl("delete", "node", *names)


def test_a_hub_and_two_members_serve_the_same_release(hub: Cluster, members: list[Cluster]) -> None:
    versions = {cluster.api.get("/version")["gitVersion"] for cluster in (hub, *members)}
    assert versions == {"v1.36.4"}


def test_members_share_an_etcd_and_see_nothing_of_each_other(members: list[Cluster]) -> None:
    first, second = members
    first.kubectl("create", "namespace", "only-here")
    with pytest.raises(LabError, match="not found"):
        second.kubectl("get", "namespace", "only-here")
    assert first.pid("etcd") == second.pid("etcd")


def test_rbac_lets_a_user_do_only_what_a_role_grants(hub: Cluster) -> None:
    alice = hub.kubeconfig_for("alice", ["team-a"])
    with pytest.raises(LabError, match=r'User "alice" cannot list resource "pods"'):
        hub.kubectl("get", "pods", kubeconfig=alice)
    hub.kubectl("create", "rolebinding", "team-a", "--clusterrole=view", "--group=team-a")
    hub.api.until("/api/v1/namespaces/default", lambda _: "yes" in can_list_pods(hub), what="the binding to count")
    with pytest.raises(LabError, match="cannot create resource"):
        hub.kubectl("create", "configmap", "x", kubeconfig=alice)


def can_list_pods(hub: Cluster) -> str:
    return hub.kubectl("auth", "can-i", "list", "pods", "--as=alice", "--as-group=team-a")


def test_service_account_tokens_are_accepted_for_what_they_are(hub: Cluster) -> None:
    token = hub.kubectl("create", "token", "default").strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = hub.api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["authenticated"]
    assert status["user"]["username"] == "system:serviceaccount:default:default"


def test_nodes_carry_instance_type_zone_and_gpus(hub: Cluster, gpu_nodes: list[str]) -> None:
    node = hub.api.get(f"/api/v1/nodes/{gpu_nodes[0]}")
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "lab-b"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"


def test_pods_complete_in_their_stated_time_even_when_touched(hub: Cluster, gpu_nodes: list[str]) -> None:
    for name, seconds in (("first", "3"), ("touched", "5"), ("last", "6.5")):
        hub.api.post(PODS, pod(name, annotations={"lab.dure.dev/run-seconds": seconds}))
    hub.api.until(f"{PODS}/first", phase_is("Succeeded"), what="the first pod to end")
    # Were its clock started anew by this, it would end after the last one.
    hub.api.patch(f"{PODS}/touched", {"metadata": {"labels": {"touched": "yes"}}})
    touched = hub.api.until(f"{PODS}/touched", phase_is("Succeeded"), what="the touched pod to end")
    last = hub.api.until(f"{PODS}/last", phase_is("Succeeded"), what="the last pod to end")
    assert finished(touched) < finished(last)
    assert run_time_s(touched) >= 5
    assert run_time_s(last) >= 6.5


def finished(ended: Json) -> datetime.datetime:
    [container] = ended["status"]["containerStatuses"]
    return datetime.datetime.fromisoformat(container["state"]["terminated"]["finishedAt"])


def run_time_s(ended: Json) -> float:
    """From the exact start the lab noted to the end of the second in which it finished."""
    [started] = [c["message"] for c in ended["status"]["conditions"] if c["type"] == "lab.dure.dev/started"]
    return (finished(ended) - datetime.datetime.fromisoformat(started)).total_seconds() + 1


def test_a_pod_with_an_exit_code_fails_with_it(hub: Cluster, gpu_nodes: list[str]) -> None:
    hub.api.post(PODS, pod("broken", annotations={"lab.dure.dev/run-seconds": "0", "lab.dure.dev/exit-code": "7"}))
    ended = hub.api.until(f"{PODS}/broken", phase_is("Failed"), what="the pod to fail")
    [container] = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 7


def test_a_pod_that_says_nothing_runs_on_and_goes_when_deleted(hub: Cluster, gpu_nodes: list[str]) -> None:
    hub.api.post(PODS, pod("serving"))
    found = hub.api.until(f"{PODS}/serving", has_condition("Ready"), what="the pod to be ready")
    assert found["spec"]["nodeName"] in gpu_nodes
    hub.kubectl("delete", "pod", "serving", "--wait=true", "--timeout=30s")


def test_a_job_completes_through_the_real_controllers(hub: Cluster, gpu_nodes: list[str]) -> None:
    hub.api.post("/apis/batch/v1/namespaces/default/jobs", job("done", run_seconds="0.5"))
    path = "/apis/batch/v1/namespaces/default/jobs/done"
    assert hub.api.until(path, has_condition("Complete"), what="the job")["status"]["succeeded"] == 1


def test_a_node_labelled_down_is_not_ready_until_the_label_goes(hub: Cluster, gpu_nodes: list[str]) -> None:
    node = f"/api/v1/nodes/{gpu_nodes[1]}"
    hub.api.patch(node, {"metadata": {"labels": {"lab.dure.dev/down": "yes"}}})
    hub.api.until(node, lambda found: not has_condition("Ready")(found), what="the node to go down")
    hub.api.patch(node, {"metadata": {"labels": {"lab.dure.dev/down": None}}})
    hub.api.until(node, has_condition("Ready"), what="the node to come back")


def test_mig_nodes_follow_their_config_label_like_the_mig_manager(shared_lab: Lab) -> None:
    cluster = shared_lab["b"]
    cluster.add_nodes(MIG_NODES)
    node = cluster.api.get("/api/v1/nodes/mig-0")
    assert node["metadata"]["labels"]["nvidia.com/mig-3g.20gb.count"] == "4"
    assert node["status"]["allocatable"]["nvidia.com/mig-3g.20gb"] == "4"

    after = with_label(
        cluster, "mig-0", "nvidia.com/mig.config", "all-1g.5gb", {"nvidia.com/mig.config.state": "success"}
    )
    assert after["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] == "14"
    assert after["status"]["allocatable"]["nvidia.com/mig-3g.20gb"] == "0"
    assert after["metadata"]["labels"]["nvidia.com/mig-1g.5gb.count"] == "14"
    assert "nvidia.com/mig-3g.20gb.count" not in after["metadata"]["labels"]

    with_label(cluster, "mig-0", "nvidia.com/mig.config", "all-9g.99gb", {"nvidia.com/mig.config.state": "failed"})


def test_nodes_follow_the_device_plugin_config_label(shared_lab: Lab) -> None:
    cluster = shared_lab["b"]
    if "plugin-0" not in cluster.kubectl("get", "nodes", "-o", "name"):
        cluster.add_nodes(MIG_NODES)
    wanted = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}
    after = with_label(cluster, "plugin-0", "nvidia.com/device-plugin.config", "shared-4", wanted)
    assert after["status"]["allocatable"]["nvidia.com/gpu"] == "16"


def with_label(cluster: Cluster, node: str, label: str, value: str, wanted: dict[str, str]) -> Json:
    """Set a label and wait for the labels its operator answers with, which must not be there already."""
    path = f"/api/v1/nodes/{node}"
    cluster.api.patch(path, {"metadata": {"labels": {label: value}}})

    def answered(found: Json) -> bool:
        annotations = found["metadata"].get("annotations", {})
        applied = annotations.get(f"lab.dure.dev/applied-{label.rsplit('/', 1)[-1]}")
        return bool(applied == value and wanted.items() <= found["metadata"]["labels"].items())

    return cluster.api.until(path, answered, what=f"{label}={value} to be applied")
