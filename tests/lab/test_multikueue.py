"""MultiKueue on two real clusters: the CPU queue on the manager, the GPU queue on a worker, our dispatcher beside."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import yaml

from dure.adapters.kube.rest import Api
from dure.gateway.dispatcher import GRAMS, NAME, PRICE
from dure.gateway.process import Gateway
from dure.gateway.settings import Settings
from lab import Lab
from lab.cluster import Cluster
from tests.lab.kueue_objects import KUEUE, NODES, job, queues
from tests.lab.objects import has_condition

pytestmark = pytest.mark.lab

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLUSTERS = "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters"
CHECK = "gpu-multikueue"


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    with Lab(["hub", "worker"], kueue={"hub", "worker"}, off={"hub": {"kwok", "kube-scheduler"}}) as lab:
        hub, worker = lab["hub"], lab["worker"]
        worker.add_nodes(NODES)
        worker.apply(*queues())
        config = hub.folder / "kueue.yaml"
        settings = yaml.safe_load(config.read_text())
        config.write_text(yaml.safe_dump({**settings, "multiKueue": {"dispatcherName": NAME}}))
        hub.restart("kueue")
        hub.apply(*_manager(worker))
        yield hub, worker


def _manager(worker: Cluster) -> list[dict[str, object]]:
    """The published layout: the GPU queue has an admission check that sends its jobs to the worker."""
    found = queues()
    for one in found:
        if one["kind"] == "ClusterQueue" and one["metadata"]["name"] == "gpu-cluster-queue":
            one["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    names = ["multikueue-gpu-worker"]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "worker", "namespace": "kueue-system"},
        "stringData": {"kubeconfig": worker.kubeconfig_path.read_text()},
    }
    source = {"kubeConfig": {"location": "worker", "locationType": "Secret"}}
    cluster = {
        "apiVersion": KUEUE,
        "kind": "MultiKueueCluster",
        "metadata": {"name": names[0], "annotations": {PRICE: "2.5", GRAMS: "100"}},
        "spec": {"clusterSource": source},
    }
    config = {
        "apiVersion": KUEUE,
        "kind": "MultiKueueConfig",
        "metadata": {"name": "multikueue-config"},
        "spec": {"clusters": names},
    }
    check = {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {"name": CHECK},
        "spec": {
            "controllerName": "kueue.x-k8s.io/multikueue",
            "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "multikueue-config"},
        },
    }
    return [secret, cluster, config, check, *found]


def test_a_gpu_job_runs_on_the_worker_that_the_dispatcher_names(clusters: tuple[Cluster, Cluster]) -> None:
    hub, worker = clusters
    hub.api.until(f"{CLUSTERS}/multikueue-gpu-worker", has_condition("Active"), what="the worker cluster")
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        made = Gateway(api, Settings(dispatches=True), everybody=True)
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=60.0) as client:
            assert client.post("/v1/jobs", content=yaml.safe_dump(job("afar", run_s=1))).status_code == 201
            worker.api.until(f"{JOBS}/afar", has_condition("Complete"), what="the job on the worker")
            hub.api.until(f"{JOBS}/afar", has_condition("Complete"), what="the job on the manager")
            seen = client.get("/v1/queues").json()
        made.stop()
    assert [one["name"] for one in seen["multikueue_clusters"]] == ["multikueue-gpu-worker"]
    assert "multikueue-gpu-worker" in made.dispatcher.offered["default/afar"]
    local = hub.api.get("/api/v1/namespaces/default/pods")["items"]
    assert local == []
