"""A server with Kueue's older API only: its definitions without v1beta2, and objects as Kueue wrote them then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from dure.adapters.kube.rest import Api
from dure.gateway.process import Gateway
from dure.gateway.settings import Settings
from lab import Lab
from lab.build import ensure
from lab.cluster import Cluster
from lab.kueue import CRDS, established
from lab.rest import Json
from tests.lab.kueue_objects import job, queues

pytestmark = pytest.mark.lab

OLD = "kueue.x-k8s.io/v1beta1"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TO_CPU = (
    "[{class: t4, queue: user-gpu-queue, estimate: 60}, "
    "{class: cpu, queue: user-cpu-queue, estimate: 80, resources: {nvidia.com/gpu: null}}]"
)


@pytest.fixture(scope="module")
def old() -> Iterator[Cluster]:
    with Lab(["old"], off={"old": {"kwok", "kube-scheduler", "kube-controller-manager"}}) as lab:
        cluster = lab["old"]
        definitions = [_old_only(yaml.safe_load(path.read_text())) for path in _manifests()]
        cluster.apply(*definitions)
        names = {one["metadata"]["name"] for one in definitions}
        cluster.api.until(CRDS, lambda found: names <= established(found), what="Kueue's definitions")
        cluster.apply(*({**one, "apiVersion": OLD} for one in queues()))
        yield cluster


def _manifests() -> list[Path]:
    return sorted(ensure(["kueue-manifests"])["kueue-manifests"].glob("kueue.x-k8s.io_*.yaml"))


def _old_only(definition: Json) -> Json:
    kept = [one for one in definition["spec"]["versions"] if one["name"] == "v1beta1"]
    definition["spec"]["versions"] = [{**one, "served": True, "storage": True} for one in kept]
    return definition


@pytest.fixture
def client(old: Cluster) -> Iterator[httpx.Client]:
    with Api.from_kubeconfig(old.kubeconfig_path) as api:
        made = Gateway(api, Settings(), everybody=True)
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=60.0) as client:
            yield client
        made.stop()


def test_jobs_are_taken_in_and_queues_are_told(old: Cluster, client: httpx.Client) -> None:
    answer = client.post("/v1/jobs", content=yaml.safe_dump(job("first")))
    assert answer.status_code == 201, answer.text
    made = old.api.get(f"{JOBS}/first")
    assert made["spec"]["suspend"]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-gpu-queue"
    told = client.get("/v1/queues").json()
    assert told["api_version"] == "v1beta1"
    assert {one["name"] for one in told["cluster_queues"]} >= {"gpu-cluster-queue", "cpu-cluster-queue"}
    assert client.get("/quota").json()["quota"] == 4


def test_what_waits_and_runs_is_read_from_the_older_objects(old: Cluster, client: httpx.Client) -> None:
    for number in range(4):
        _workload(old, f"busy-{number}", "gpu-cluster-queue")
    for number in range(8):
        _workload(old, f"waits-{number}", "")
    seen: Json = {}

    def arrived() -> bool:
        body = yaml.safe_dump(job("light", accepts=TO_CPU))
        [answer] = client.post("/v1/jobs", content=body, params={"dryRun": "true"}).json()["jobs"]
        seen.update(answer)
        return bool(answer["figures"]["gpu-cluster-queue"]["running_seen"] == 4)

    old.api.until(WORKLOADS, lambda _: arrived(), what="the Workloads at the gateway")
    assert seen["figures"]["gpu-cluster-queue"]["waiting_seen"] == 8
    assert (seen["queue"], seen["rule"]) == ("user-cpu-queue", "ends-first")


def _workload(cluster: Cluster, name: str, admitted: str) -> None:
    """As Kueue 0.14 and older write them; with a ClusterQueue it holds quota."""
    requests = {"cpu": "4", "memory": "6Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "lab/none", "resources": {"requests": requests}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {
        "apiVersion": OLD,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "user-gpu-queue", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    cluster.api.post(WORKLOADS, body)
    if not admitted:
        return
    condition = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assigned = {
        "name": "main",
        "flavors": dict.fromkeys(requests, "gpu-flavor"),
        "resourceUsage": requests,
        "count": 1,
    }
    admission = {"clusterQueue": admitted, "podSetAssignments": [assigned]}
    status = yaml.safe_dump({"status": {"conditions": [condition], "admission": admission}})
    cluster.kubectl("patch", "workload", name, "--subresource=status", "--type=merge", "-p", status)
