"""The chart's pods on a real node, from the image of `make image-try`: a plane, and agents that join it."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dure.adapters.kube import rbac
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from tests.kube.virtual_world import settled
from tests.lab.test_chart import key, template
from tests.node.objects import pod
from tests.ship.image import ARCHIVE, NAME

pytestmark = [
    pytest.mark.lab,
    pytest.mark.full,
    pytest.mark.real_node,
    pytest.mark.parts("helm"),
    pytest.mark.skipif(not ARCHIVE.exists(), reason="no image was built here: make image-try"),
]
Json = dict[str, Any]
HOME = rbac.NAMESPACE
TOKEN = "dure-test-token-of-the-owner-0123456789abcdef"
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: charted}
spec:
  clusters:
    - name: seoul
      connect: {agent: joined}
      pools: [{name: h100, class: h100-80gb-sxm, devices: 8, price: {owned: 2100/h}}]
  tenants: [{name: vision}]
"""
PORT = 7420


def test_the_charts_pods_start_from_the_image_and_find_each_other(tmp_path: Path) -> None:
    with Lab(["seoul"], real_nodes={"seoul": 1}) as lab:
        cluster = lab["seoul"]
        cluster.real[0].load(ARCHIVE)
        _prepare(cluster)
        plane = _plane(cluster, tmp_path)
        with httpx.Client(
            base_url=plane, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60.0
        ) as api:
            assert httpx.get(f"{plane}/v1/status", trust_env=False, timeout=60.0).status_code == 401
            token = api.post("/v1/clusters/seoul/join-tokens").json()["token"]
            cluster.apply(_secret(rbac.ACCOUNT, **{"join-token": token}))
            _agents(cluster, tmp_path, plane)
            settled(partial(_reported, api), "a report of the agent in its pod")
        work = pod("work", "exec sleep 1000", schedulerName="dure")
        cluster.apply(work)
        settled(partial(_phase, cluster, "default", "work"), "a pod that the agent in its pod has bound")
        for container in ("deployment/dure-plane", "deployment/dure-agent"):
            printed = cluster.kubectl(
                "exec", "-n", HOME, container, "--", "python", "-c", "import os; print(os.getuid())"
            )
            assert printed == f"{rbac.NOBODY['runAsUser']}\n"
        with pytest.raises(LabError, match="Read-only file system"):
            cluster.kubectl("exec", "-n", HOME, "deployment/dure-plane", "--", "python", "-c", "open('/opt/x', 'w')")


def _prepare(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    cluster.apply(_secret("dure-store", url="sqlite:////var/lib/dure/plane.db"))
    cluster.apply(_secret("dure-token", token=TOKEN))


def _plane(cluster: Cluster, folder: Path) -> str:
    """Its address, once the kubelet finds it ready."""
    for each in _objects(folder, "--set", "plane.replicas=1"):
        cluster.apply(each)
    cluster.kubectl("rollout", "status", "deployment/dure-plane", "-n", HOME, "--timeout=300s")
    [found] = cluster.api.get(f"/api/v1/namespaces/{HOME}/pods")["items"]
    return f"http://{found['status']['podIP']}:{PORT}"


def _agents(cluster: Cluster, folder: Path, plane: str) -> None:
    """As the chart has them, but on the node's network: the lab's API server is on loopback and has no proxy."""
    options = ("--set", "plane.enabled=false", "--set", "agent.enabled=true", "--set", "agent.cluster=seoul")
    host, _, port = cluster.server.removeprefix("https://").partition(":")
    for each in _objects(folder, *options, "--set", f"agent.plane={plane}"):
        if key(each) == ("Deployment", rbac.ACCOUNT):
            spec = each["spec"]["template"]["spec"]
            spec["hostNetwork"] = True
            spec["containers"][0]["env"] = [
                {"name": "KUBERNETES_SERVICE_HOST", "value": host},
                {"name": "KUBERNETES_SERVICE_PORT", "value": port},
            ]
        cluster.apply(each)
    cluster.kubectl("rollout", "status", "deployment/dure-agent", "-n", HOME, "--timeout=300s")


def _objects(folder: Path, *options: str) -> list[Json]:
    (folder / "fleet.yaml").write_text(FLEET)
    repository, _, tag = NAME.partition(":")
    image = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}")
    return template(folder, *image, "--set-file", f"plane.fleet={folder / 'fleet.yaml'}", *options)


def _secret(name: str, **data: str) -> Json:
    encoded = {word: base64.b64encode(value.encode()).decode() for word, value in data.items()}
    document = f"{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: {HOME}}}}}"
    return {**yaml.safe_load(document), "data": encoded}


def _reported(api: httpx.Client) -> bool:
    [found] = api.get("/v1/clusters").raise_for_status().json()["items"]
    return bool(found.get("observed_s"))


def _phase(cluster: Cluster, namespace: str, name: str) -> bool:
    found = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return bool(found["status"]["phase"] == "Running")
