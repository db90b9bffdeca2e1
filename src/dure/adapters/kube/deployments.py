"""Deployments as levers of a reallocation: how many pods they have, and draining, scaling and resuming them.

Called by `agent.pools`, `agent.warm` and `agent.awake`. Drained pods get the lowest deletion cost, so that the
ReplicaSet removes just those, and a label that routers may leave out. The plan under way is kept in a ConfigMap
beside the Deployments, the marks of engines that sleep in turn on their pods: whoever takes over goes on with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from dure.adapters.kube import names
from dure.adapters.kube.endpoints import is_ready
from dure.adapters.kube.objects import KubePod, instant
from dure.adapters.kube.reading import base_of, url_of
from dure.adapters.kube.rest import Api
from dure.model.errors import NotFound
from dure.model.units import Instant
from dure.scale.awake import EnginePod, Marks
from dure.scale.reallocation import Held, Plan

Json = dict[str, Any]

WANTED = "dure.dev/wanted-replicas"
DRAINING = "dure.dev/draining"
COST = "controller.kubernetes.io/pod-deletion-cost"
LOWEST_COST = "-2147483648"


class Deployments:
    """The Deployments of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def fetch(self, name: str) -> Held:
        found = self._fetch(name)
        pods = self._pods(found)
        ready = int(found.get("status", {}).get("readyReplicas", 0))
        return Held(int(found["spec"].get("replicas", 1)), ready, len(pods))

    def fetch_wanted(self, name: str) -> int | None:
        """What somebody who measures the service wants it to run, from its annotation."""
        text = self._fetch(name)["metadata"].get("annotations", {}).get(WANTED, "")
        return int(text) if text.isdigit() else None

    def fetch_shown(self, name: str, fetch: Callable[[str], str]) -> dict[str, str]:
        """The metrics text of each running pod that says where it shows some; empty for one that did not answer."""
        items = msgspec.convert(self._pods(self._fetch(name)), list[KubePod])
        return {pod.metadata.uid: fetch(url) for pod in items if (url := url_of(pod))}

    def fetch_engines(self, name: str) -> tuple[EnginePod, ...]:
        """Its pods that are on a node and not on their way out; without an address one that says no port to ask."""
        items = msgspec.convert(self._pods(self._fetch(name)), list[KubePod])
        return tuple(_engine(name, pod) for pod in items if pod.spec.node_name and not pod.leaving)

    def write_marks(self, pod: str, marks: Marks) -> None:
        said = {
            names.NEXT_SINCE: _text(marks.next_s),
            names.DRAINS_SINCE: _text(marks.drains_s),
            names.WAKE_FAILED: _text(marks.failed_s),
            COST: LOWEST_COST if marks.goes else None,
        }
        self._say(pod, {names.AWAKE: "true" if marks.serves else None}, said)

    def write_wanted(self, name: str, replicas: int) -> None:
        """Leave the wish to who divides devices between services (`agent.pools`)."""
        self._api.patch(self._deployment(name), {"metadata": {"annotations": {WANTED: str(replicas)}}}, Json)

    def scale(self, name: str, replicas: int) -> None:
        path = f"{self._deployment(name)}/scale"
        self._api.patch(path, {"spec": {"replicas": replicas}}, Json)

    def drain(self, name: str, count: int) -> None:
        """Mark the youngest pods: they have the least in their caches."""
        pods = sorted(self._pods(self._fetch(name)), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        marked = [pod for pod in pods if DRAINING in pod["metadata"].get("labels", {})]
        unmarked = [pod for pod in pods if DRAINING not in pod["metadata"].get("labels", {})]
        for pod in unmarked[len(unmarked) - max(count - len(marked), 0) :]:
            self._mark(pod, "true", LOWEST_COST)

    def resume(self, name: str) -> None:
        for pod in self._pods(self._fetch(name)):
            if DRAINING in pod["metadata"].get("labels", {}):
                self._mark(pod, None, None)

    def fetch_plan(self, group: str) -> Plan | None:
        try:
            found = self._api.get(self._map(group), Json)
        except NotFound:
            return None
        return msgspec.json.decode(found.get("data", {}).get("plan", "null"), type=Plan | None)

    def write_plan(self, group: str, plan: Plan) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"dure-pool-{group}"},
            "data": {"plan": msgspec.json.encode(plan).decode()},
        }
        self._api.apply(self._map(group), body, Json)

    def _mark(self, pod: Json, draining: str | None, cost: str | None) -> None:
        self._say(pod["metadata"]["name"], {DRAINING: draining}, {COST: cost})

    def _say(self, pod: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None:
        """Fine if it is gone."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{quote(pod)}"
        try:
            self._api.patch(path, {"metadata": {"labels": labels, "annotations": annotations}}, Json)
        except NotFound:
            return

    def _pods(self, deployment: Json) -> list[Json]:
        """Pods that hold devices: all that have not ended, those on their way out among them."""
        labels = deployment["spec"]["selector"].get("matchLabels", {})
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        found = self._api.get(f"/api/v1/namespaces/{self._namespace}/pods", Json, labelSelector=selector)
        items: list[Json] = found["items"]
        return [pod for pod in items if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]

    def _fetch(self, name: str) -> Json:
        return self._api.get(self._deployment(name), Json)

    def _deployment(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{quote(name)}"

    def _map(self, group: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/configmaps/dure-pool-{quote(group)}"


def _engine(service: str, pod: KubePod) -> EnginePod:
    said = pod.metadata.annotations
    marks = Marks(
        serves=pod.metadata.labels.get(names.AWAKE) == "true",
        next_s=_moment(said.get(names.NEXT_SINCE, "")),
        drains_s=_moment(said.get(names.DRAINS_SINCE, "")),
        failed_s=_moment(said.get(names.WAKE_FAILED, "")),
        goes=said.get(COST) == LOWEST_COST,
    )
    # How long it waited for a node says nothing about its engine.
    born_s = instant(pod.status.start_time or pod.metadata.creation_timestamp) or 0.0
    return EnginePod(service, pod.spec.node_name, pod.metadata.name, base_of(pod), is_ready(pod), born_s, marks)


def _text(at_s: Instant | None) -> str | None:
    return f"{at_s:.3f}" if at_s is not None else None


def _moment(text: str) -> Instant | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
