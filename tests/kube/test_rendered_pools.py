"""Rendered NodePools on the real Karpenter: it takes them, and boots for each service the pool meant for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dure.adapters.kube.machines import GPU, POOL
from dure.cli.render import command as render
from dure.files.builtin import instances
from dure.manifest.pool import FAMILY, GPU_COUNT
from lab.cluster import Cluster
from lab.fixtures import LabFactory
from lab.karpenter import (
    CAPACITY_TYPE,
    PARTS,
    ZONE,
    Karpenter,
    instance_type,
    node_class,
    node_class_reference,
    offer,
)
from lab.rest import Json

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.full, pytest.mark.parts(*PARTS)]

NAMESPACE = "dure-search"
KINDS = ("Deployment", "PodDisruptionBudget")
ZONES = ("kr-central-1a", "kr-central-1b")
SERVICE = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: search}}
spec:
  type: serving
  classes: [{{name: a10g}}]
  demand: {{devices: 1, cpu: 4, hostMemory: 16GiB}}
  replicas: {{min: 1, max: 4}}
  interruptible: {interruptible}
  template:
    spec:
      containers: [{{name: server, image: "registry.local/engine:1", ports: [{{containerPort: 8000}}]}}]
"""


def test_karpenter_boots_the_pool_that_render_meant(lab_factory: LabFactory, tmp_path: Path) -> None:
    cluster = lab_factory(["test"])["test"]
    made = _rendered(tmp_path)
    with Karpenter(cluster, _types()):
        cluster.apply(node_class(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        pools = [_on_kwok(one) for one in made if one["kind"] == "NodePool"]
        cluster.apply(*pools)
        for pool in pools:
            path = f"/apis/karpenter.sh/v1/nodepools/{pool['metadata']['name']}"
            cluster.api.until(path, _ready, what="a NodePool that Karpenter finds valid")
        # One after the other: the scheduler gives free devices of a node that is there to whoever tolerates it.
        for service, pool_name in (("cheap", "a10g-spot"), ("steady", "a10g")):
            cluster.apply(*(one for one in made if one["kind"] in KINDS and one["metadata"]["name"] == service))
            assert _pool_of(cluster, service) == pool_name


def _rendered(folder: Path) -> list[Json]:
    file = folder / "services.yaml"
    both = (SERVICE.format(name="steady", interruptible="false"), SERVICE.format(name="cheap", interruptible="true"))
    file.write_text("---".join(both))
    found: list[Json] = []
    for part in ("nodes", "serving"):
        answer = CliRunner().invoke(render, [part, "--cluster", "cloud-kr", "-f", str(file)])
        assert answer.exit_code == 0, answer.output
        found += yaml.safe_load_all(answer.stdout)
    return found


def _on_kwok(pool: Json) -> Json:
    """As it was rendered, but for the cloud: the class of its nodes is KWOK's."""
    template = pool["spec"]["template"]
    spec = {**template["spec"], "nodeClassRef": node_class_reference()}
    return {**pool, "spec": {**pool["spec"], "template": {**template, "spec": spec}}}


def _types() -> list[Json]:
    return [
        instance_type(
            one.name,
            {"cpu": str(one.vcpus), "memory": f"{one.memory_gib}Gi", GPU: str(one.devices)},
            [
                offer(
                    one.usd_micros_per_h / 1e6 * share,
                    {CAPACITY_TYPE: capacity, ZONE: zone, FAMILY: one.family, GPU_COUNT: str(one.devices)},
                )
                for zone in ZONES
                for capacity, share in (("on-demand", 1.0), ("spot", 0.4))
            ],
        )
        for one in instances()
    ]


def _pool_of(cluster: Cluster, service: str) -> str:
    """The pool of the node that runs the service, once it is ready."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{service}"
    cluster.api.until(path, lambda one: one.get("status", {}).get("readyReplicas") == 1, what=service, timeout_s=180)
    pods = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fname%3D{service}")
    [node] = {pod["spec"]["nodeName"] for pod in pods["items"]}
    labels = cluster.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    assert labels[GPU_COUNT] == "4", "the fleet's pool has four devices in a node"
    return str(labels[POOL])


def _ready(pool: Json) -> bool:
    conditions = pool.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
