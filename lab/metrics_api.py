"""The three metrics APIs of Kubernetes, served from here to a lab cluster's own autoscaler.

Resource, custom and external metrics are aggregated APIs: the API server forwards them to a Service. This one is
of type ExternalName and leads to a TLS server in this process. Tests give a function that answers a `Question`; it
may take its time, and with that sets the pace of the autoscaler.
"""

import base64
import json
import ssl
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from lab.cluster import Cluster
from lab.loopback import Loopback, Quiet
from lab.rest import Json

NAMESPACE = "default"
SERVICE = "lab-metrics"
GROUPS = {
    "metrics.k8s.io": "v1beta1",
    "custom.metrics.k8s.io": "v1beta2",
    "external.metrics.k8s.io": "v1beta1",
}


@dataclass(frozen=True)
class Question:
    """What the autoscaler asks for. `metric` is empty for resource metrics, `about` is `pods/*` or an object."""

    group: str
    metric: str
    about: str
    selector: str


# Items of the list that is the answer; None stands for a metrics server that fails.
Answer = Callable[[Question], list[Json] | None]


class MetricsApi(Loopback):
    """Serves while the block lasts; entering waits until the API server forwards to it."""

    def __init__(self, cluster: Cluster, answer: Answer) -> None:
        self._cluster = cluster
        pair = cluster.serving_pair(SERVICE, [f"{SERVICE}.{NAMESPACE}.svc"])
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pair.cert, pair.key)
        super().__init__(_handler(answer), "lab-metrics", tls)

    def __enter__(self) -> Self:
        super().__enter__()
        authority = self._cluster.ca_path.read_bytes()
        self._cluster.apply(_service(self.port), *(_api_service(group, self.port, authority) for group in GROUPS))
        for group, version in GROUPS.items():
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}"
            self._cluster.api.until(path, available, what=f"the forwarded {group}")
            # Available is said by another part of the API server than the one that forwards.
            self._cluster.api.until(f"/apis/{group}/{version}", _ours, what=f"an answer of {group}")
        return self


def read(path: str) -> Question | None:
    """The question of a request's path; None for discovery."""
    parsed = urllib.parse.urlsplit(path)
    parts = [urllib.parse.unquote(part) for part in parsed.path.strip("/").split("/")]
    if parts[0] != "apis" or len(parts) < 6:
        return None
    selector = urllib.parse.parse_qs(parsed.query).get("labelSelector", [""])[0]
    group, rest = parts[1], parts[5:]
    if group == "metrics.k8s.io":
        return Question(group, "", "/".join(rest), selector)
    return Question(group, rest[-1], "/".join(rest[:-1]), selector)


def _handler(answer: Answer) -> type[Quiet]:
    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def get(self) -> None:
            question = read(self.path)
            if question is None:
                self._reply(200, _discovery(self.path))
                return
            items = answer(question)
            if items is None:
                self._reply(500, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no metrics"})
            else:
                self._reply(200, _list(question.group, items))

        def _reply(self, status: int, body: Json) -> None:
            self.reply(status, json.dumps(body).encode())

    return Handler


def _list(group: str, items: list[Json]) -> Json:
    kinds = {
        "metrics.k8s.io": "PodMetricsList",
        "custom.metrics.k8s.io": "MetricValueList",
        "external.metrics.k8s.io": "ExternalMetricValueList",
    }
    return {"kind": kinds[group], "apiVersion": f"{group}/{GROUPS[group]}", "metadata": {}, "items": items}


def _discovery(path: str) -> Json:
    group = next((name for name in GROUPS if f"/{name}/" in f"{path}/"), "metrics.k8s.io")
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{GROUPS[group]}",
        "resources": [
            {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        ],
    }


def _service(port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }


def _api_service(group: str, port: int, authority: bytes) -> Json:
    version = GROUPS[group]
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
            "caBundle": base64.b64encode(authority).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def _ours(discovery: Json) -> bool:
    return [one["name"] for one in discovery["resources"]] == ["pods"]


def available(api_service: Json) -> bool:
    """Whether the API server forwards to it."""
    conditions = api_service.get("status", {}).get("conditions", ())
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)
