"""A lab cluster with the real KEDA and a real Prometheus, and the service that `dure render` made for it.

Used by the KEDA tests and by `keda_agreement`. The pods are KWOK's, so their engine's metrics are served from here:
one page for each pod that exists, scraped as the rendered PodMonitor says. Every manifest keeps the address of
Prometheus it would have in production; the lab's forwarder leads it to the real one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import yaml
from click.testing import CliRunner

from dure.cli.render import command as render
from dure.scale.hpa.spec import Behavior, Policy, Rules
from dure.scale.keda.serve import Failed, Value, query_value
from dure.scale.keda.spec import Fallback, ScaledObject, Trigger
from lab.cluster import Cluster
from lab.crds import install_crds
from lab.errors import ApiError
from lab.forward import Exchange
from lab.keda import PARTS, Keda
from lab.prometheus import PROMETHEUS, Prometheus
from lab.rest import Json
from tests.kube.hpa_log import VERBOSE
from tests.kube.pages import Pages, scraped_by, write_targets

NEEDED = (*PARTS, PROMETHEUS)
NAMESPACE = "dure-search"
ADDRESS = "prometheus-operated.monitoring.svc:9090"
GUIDE_ADDRESS = "prometheus.monitoring.svc:9090"
SYNC_S = 1
LAB_FLAGS = {"kube-controller-manager": [f"--horizontal-pod-autoscaler-sync-period={SYNC_S}s", VERBOSE]}
CHAT = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: chat, tenant: search}
spec:
  type: serving
  classes: [{name: a10g}]
  demand: {devices: 1, cpu: 4, hostMemory: 16GiB}
  replicas: {min: 2, max: 10}
  template:
    spec:
      containers:
      - name: server
        image: registry.local/engine:1
        ports: [{name: http, containerPort: 8000}]
"""
NODES = """
nodes:
- {group: gpu, count: 2, cpu: 64, memory: 512Gi, gpu: {count: 8}, labels: {dure.dev/class: a10g}}
"""


class KedaWorld:
    """What a test holds: the cluster, KEDA, Prometheus, and the load that the service reports."""

    def __init__(self, cluster: Cluster, keda: Keda, prometheus: Prometheus, pages: Pages, targets: Path) -> None:
        self.cluster, self.keda, self.prometheus = cluster, keda, prometheus
        self._pages, self._targets = pages, targets

    def deployment(self, name: str = "chat") -> tuple[int, int, int]:
        """(replicas wanted, replicas there, replicas ready)."""
        found = self.cluster.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")
        status = found.get("status", {})
        return int(found["spec"]["replicas"]), int(status.get("replicas", 0)), int(status.get("readyReplicas", 0))

    def pods(self, name: str = "chat") -> list[str]:
        """Oldest first; the last ones are the first to go."""
        chosen = f"labelSelector=app.kubernetes.io%2Fname%3D{name}"
        items = self.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?{chosen}")["items"]
        there = [one["metadata"] for one in items if "deletionTimestamp" not in one["metadata"]]
        return [one["name"] for one in sorted(there, key=lambda one: (one["creationTimestamp"], one["name"]))]

    def show(self, load: float | None, query: str) -> None:
        """Let the service report `load` requests and wait until Prometheus says so; None: Prometheus is gone."""
        if load is None:
            self.keda.forwarder.routes.pop(ADDRESS, None)
            return
        self.keda.forwarder.routes[ADDRESS] = self.prometheus.url
        pods = self.pods()
        for pod in pods:
            mine = load if pod == pods[0] else 0
            running = min(3, mine)
            self._pages.texts[f"/{pod}"] = (
                f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {mine - running}\n"
            )
        write_targets(
            self._targets,
            [self._pages.target(f"/{pod}", {"namespace": NAMESPACE, "pod": pod}) for pod in sorted(pods)],
        )

        def shown(found: list[Json]) -> bool:
            return [float(one["value"][1]) for one in found] == [load]

        # KEDA asks for the values of the last whole second.
        self.prometheus.until(query, shown, what=f"a load of {load}", at_s=lambda: int(time.time()))

    def report_devices(self, use: float, pods: list[str], *, honoured: bool) -> None:
        """What a DCGM exporter says, whose own pod has another name; `honoured` as its monitor's honorLabels."""
        lines = [
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",namespace="{NAMESPACE}",pod="{pod}"}} {use}'
            for number, pod in enumerate(pods)
        ]
        self._pages.texts["/dcgm"] = "\n".join([*lines, ""])
        own = {"namespace": "dure-monitoring", "pod": "dcgm-exporter-x7k2p"}
        there = [self._pages.target("/dcgm", own)]
        write_targets(self._targets.with_name("dcgm.json"), [] if honoured else there)
        write_targets(self._targets.with_name("honoured.json"), there if honoured else [])
        label = "pod" if honoured else "exported_pod"
        query = f'DCGM_FI_DEV_GPU_UTIL{{{label}="{pods[0]}"}}'
        self.prometheus.until(query, lambda found: len(found) == 1, what="the device's use")

    def ask_keda(self, metric: str, selector: str) -> list[Json] | None:
        """KEDA's own adapter; what it cannot answer is an error to the autoscaler too."""
        wanted = urllib.parse.urlencode({"labelSelector": selector})
        try:
            path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/{metric}?{wanted}"
            items: list[Json] = self.keda.api.get(path)["items"]
        except (ApiError, OSError):
            return None
        return items

    def ask_keda_overheard(self, metric: str, selector: str) -> tuple[list[Json] | None, tuple[Value, ...]]:
        """KEDA's answer, and what Prometheus told it meanwhile: the last first, more only where it differed."""
        heard = len(self.keda.forwarder.exchanges)
        items = self.ask_keda(metric, selector)
        told = [_told(one) for one in reversed(self.keda.forwarder.exchanges[heard:]) if one.name == ADDRESS]
        return items, tuple(dict.fromkeys(told)) or (Failed("KEDA asked nobody"),)


@contextlib.contextmanager
def keda_world(cluster: Cluster, folder: Path) -> Iterator[KedaWorld]:
    """Everything up: definitions, nodes, namespace, Prometheus, KEDA."""
    install_crds(cluster)
    cluster.add_nodes(NODES)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    folder.mkdir(parents=True, exist_ok=True)
    targets, devices, honoured = (folder / f"{name}.json" for name in ("targets", "dcgm", "honoured"))
    for file in (targets, devices, honoured):
        write_targets(file, [])
    jobs = [
        scraped_by(targets, job="chat"),
        scraped_by(devices, job="dcgm"),
        scraped_by(honoured, job="honoured", honor_labels=True),
    ]
    with (
        Pages() as pages,
        Prometheus(folder / "prometheus", {"scrape_configs": jobs}) as prometheus,
        Keda(cluster, {ADDRESS: prometheus.url, GUIDE_ADDRESS: prometheus.url}) as keda,
    ):
        yield KedaWorld(cluster, keda, prometheus, pages, targets)


def _told(exchange: Exchange) -> Value:
    """As KEDA's scaler reads it; the rendered trigger does not take an empty answer for zero."""
    if exchange.status != http.client.OK:
        return Failed("nobody answers")
    found = json.loads(exchange.body)["data"]["result"]
    return query_value(tuple(float(one["value"][1]) for one in found), ignore_null=False)


def rendered(folder: Path) -> list[Json]:
    """`dure render serving` for the demo fleet's Korean cloud, as a user would call it."""
    file = folder / "chat.yaml"
    file.write_text(CHAT)
    answer = CliRunner().invoke(render, ["serving", "--cluster", "cloud-kr", "-f", str(file)])
    assert answer.exit_code == 0, answer.output
    return list(yaml.safe_load_all(answer.stdout))


def of(kind: str, objects: list[Json]) -> Json:
    [found] = [one for one in objects if one["kind"] == kind]
    return found


def scaled_of(manifest: Json) -> ScaledObject:
    """The manifest as Dure's engine reads it."""
    spec = manifest["spec"]
    given = spec.get("fallback")
    behaviour = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get("behavior")
    triggers = tuple(
        Trigger(one["type"], float(one["metadata"]["threshold"]), metric_type=one.get("metricType", "AverageValue"))
        for one in spec["triggers"]
    )
    return ScaledObject(
        triggers,
        min_replicas=spec.get("minReplicaCount", 0),
        max_replicas=spec.get("maxReplicaCount", 100),
        fallback=given and Fallback(given["replicas"], given["failureThreshold"], given.get("behavior", "static")),
        behavior=behaviour and Behavior(_rules(behaviour.get("scaleUp")), _rules(behaviour.get("scaleDown"))),
    )


def _rules(given: Json | None) -> Rules:
    if given is None:
        return Rules()
    policies = tuple(Policy(one["type"], one["value"], one["periodSeconds"]) for one in given.get("policies", ()))
    return Rules(given.get("stabilizationWindowSeconds"), given.get("selectPolicy", "Max"), policies or None)
