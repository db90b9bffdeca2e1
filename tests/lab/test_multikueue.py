"""MultiKueue on three real clusters: the CPU queue on the manager, the GPU queue on two workers, our dispatcher."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import yaml

from dure.adapters.kube.rest import Api
from dure.gateway.dispatcher import GRAMS, NAME, PRICE
from dure.gateway.process import Gateway
from dure.gateway.settings import Settings
from dure.route import dispatch
from lab import Lab
from lab.cluster import Cluster
from lab.rest import Json
from tests.lab.kueue_objects import KUEUE, NODES, job, queues
from tests.lab.objects import has_condition

pytestmark = pytest.mark.lab

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLUSTERS = "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters"
CHECK = "gpu-multikueue"
# Money and grams of CO2 of an hour there.
WORKERS = {"cheap": ("2", "300"), "green": ("5", "10")}


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Cluster]]:
    names = ["hub", *WORKERS]
    with Lab(names, kueue=set(names), off={"hub": {"kwok", "kube-scheduler"}}) as lab:
        hub = lab["hub"]
        for name in WORKERS:
            lab[name].add_nodes(NODES)
            lab[name].apply(*queues())
        config = hub.folder / "kueue.yaml"
        settings = yaml.safe_load(config.read_text())
        config.write_text(yaml.safe_dump({**settings, "multiKueue": {"dispatcherName": NAME}}))
        hub.restart("kueue")
        hub.apply(*_manager({name: lab[name] for name in WORKERS}))
        for name in WORKERS:
            hub.api.until(f"{CLUSTERS}/{name}", has_condition("Active"), what=f"worker {name}")
        yield {name: lab[name] for name in names}


def _manager(workers: dict[str, Cluster]) -> list[Json]:
    """The published layout: the GPU queue has an admission check that sends its jobs to the workers."""
    found = queues()
    for one in found:
        if one["kind"] == "ClusterQueue" and one["metadata"]["name"] == "gpu-cluster-queue":
            one["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    joined = [part for name, worker in workers.items() for part in _worker(name, worker)]
    config = {
        "apiVersion": KUEUE,
        "kind": "MultiKueueConfig",
        "metadata": {"name": "multikueue-config"},
        "spec": {"clusters": list(workers)},
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
    return [*joined, config, check, *found]


def _worker(name: str, cluster: Cluster) -> list[Json]:
    price, grams = WORKERS[name]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "kueue-system"},
        "stringData": {"kubeconfig": cluster.kubeconfig_path.read_text()},
    }
    joined = {
        "apiVersion": KUEUE,
        "kind": "MultiKueueCluster",
        "metadata": {"name": name, "annotations": {PRICE: price, GRAMS: grams}},
        "spec": {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}},
    }
    return [secret, joined]


@pytest.mark.parametrize(
    ("per_gram", "chosen", "other"), [(0.0, "cheap", "green"), (0.05, "green", "cheap")], ids=["money", "carbon"]
)
def test_a_gpu_job_runs_on_the_worker_that_costs_least(
    clusters: dict[str, Cluster], per_gram: float, chosen: str, other: str
) -> None:
    hub, name = clusters["hub"], f"to-{chosen}"
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        weighed = dispatch.Settings(per_gram=per_gram, patience_s=3600.0)
        made = Gateway(api, Settings(name=chosen, dispatches=True, dispatching=weighed), everybody=True)
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=60.0) as client:
            assert client.post("/v1/jobs", content=yaml.safe_dump(job(name, run_s=1))).status_code == 201
            clusters[chosen].api.until(f"{JOBS}/{name}", has_condition("Complete"), what="the job on the worker")
            hub.api.until(f"{JOBS}/{name}", has_condition("Complete"), what="the job on the manager")
            seen = client.get("/v1/queues").json()
        made.stop()
    assert {one["name"] for one in seen["multikueue_clusters"]} == set(WORKERS)
    assert made.dispatcher.offered[f"default/{name}"] == (chosen,)
    assert name not in {one["metadata"]["name"] for one in clusters[other].api.get(JOBS)["items"]}
    assert hub.api.get("/api/v1/namespaces/default/pods")["items"] == []
