"""Keeps a tenant's namespace of the host cluster what its virtual cluster says, and tells that one what is.

Started by `keeper`. Watches only wake it; every round lists both sides and works off the difference, so an event that
is lost, late or doubled does no harm, and a syncer that was away catches up by its first round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from ipaddress import ip_network
from typing import Any

import structlog

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.objects import Plain
from dure.adapters.kube.rest import Api
from dure.adapters.virtual.claims import OF_HOST, claim_down, claim_obstacle, claim_step, claim_up, class_up
from dure.adapters.virtual.decide import Step, next_step, within
from dure.adapters.virtual.names import NAMESPACE, host_name
from dure.adapters.virtual.service_names import aliases
from dure.adapters.virtual.translate import (
    Network,
    data_down,
    fixed,
    node_up,
    pod_down,
    pod_obstacle,
    references,
    service_down,
    status_up,
)
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound

Json = dict[str, Any]
# Even when nothing is heard: a watch may be silent for minutes before it is known to be dead.
CALM_S = 30.0
# How nodes and storage classes are changes slowly, and is the host's business.
SHOWN_S = 30.0
# A burst of events is one round.
GATHER_S = 0.1
_MOST_TOLD = 10_000
_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
_CLAIMS = "persistentvolumeclaims"
_RANGES = "/apis/networking.k8s.io/v1/servicecidrs"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

_log = structlog.get_logger("dure.virtual")


class Syncer:
    """`start`, then `stop`; a test may call `round` itself instead."""

    def __init__(self, virtual: Api, host: Api, namespace: str, tenant: str, kubelet: tuple[str, int]) -> None:
        self._virtual, self._host, self._kubelet = virtual, host, kubelet
        self._namespace, self._tenant = namespace, tenant
        self._told: set[tuple[str, str]] = set()
        self._shown_s = float("-inf")
        self._known: tuple[Network, ...] | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._mirrors = [
            *(
                Mirror(virtual, f"/api/v1/{kind}", Plain, self._wake.set)
                for kind in ("pods", "services", _CLAIMS, *_KINDS)
            ),
            Mirror(host, self._of_host("pods"), Plain, self._wake.set, NAMESPACE),
            Mirror(host, self._of_host(_CLAIMS), Plain, self._wake.set, NAMESPACE, optional=True),
        ]
        self._thread = threading.Thread(target=self._run, name=f"sync {namespace}", daemon=True)

    def start(self) -> None:
        for mirror in self._mirrors:
            mirror.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        for mirror in self._mirrors:
            mirror.stop()
        self._thread.join(10.0)
        for mirror in self._mirrors:
            mirror.join()

    def round(self) -> None:
        """One look at both sides, and one step for everything that differs."""
        pods = _by_host_name(self._listed(self._virtual, "/api/v1/pods"))
        self._sync_data(pods.values())
        self._sync_services()
        self._sync_claims()
        hosted = self._hosted("pods")
        self._show_what_is(hosted.values())
        services = self._hosted("services").values()
        for name in sorted(pods.keys() | hosted.keys()):
            self._guarded(pods.get(name), partial(self._pod, name, pods.get(name), hosted.get(name), services))

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(CALM_S)
            self._stopped.wait(GATHER_S)
            self._wake.clear()
            if self._stopped.is_set():
                return
            try:
                self.round()
            except DureError as error:
                _log.warning("virtual cluster not synced", namespace=self._namespace, error=str(error))
                self._stopped.wait(1.0)
                self._wake.set()

    def _pod(self, name: str, virtual: Json | None, host: Json | None, services: Iterable[Json]) -> None:
        step = next_step(virtual, host)
        path = self._of_host("pods", name)
        if step is Step.DELETE_HOST and host is not None:
            self._host.delete(path, uid=host["metadata"]["uid"])
        if virtual is None:
            return
        if step is Step.CREATE:
            if why := pod_obstacle(virtual):
                raise InvalidInput(why)
            named = aliases(virtual["metadata"]["namespace"], services)
            self._host.post(self._of_host("pods"), pod_down(virtual, self._tenant, named), dict)
        elif step is Step.DELETE_VIRTUAL:
            self._end(virtual)
        elif step is Step.BIND and host is not None:
            target = {"apiVersion": "v1", "kind": "Node", "name": host["spec"]["nodeName"]}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": virtual["metadata"]["name"]},
                       "target": target}  # fmt: skip
            self._virtual.post(f"{_path(virtual, 'pods')}/binding", binding, dict)
            self._wake.set()
        elif step is Step.REPORT and host is not None:
            self._virtual.patch(f"{_path(virtual, 'pods')}/status", {"status": status_up(host)}, dict)

    def _end(self, pod: Json) -> None:
        """Its life in the host is over; a server keeps a bound pod until somebody says so."""
        if "deletionTimestamp" not in pod["metadata"]:
            self._tell(pod, "its pod in the host cluster is gone; nodes cannot be chosen by name")
        self._virtual.end(_path(pod, "pods"), uid=pod["metadata"]["uid"])

    def _sync_data(self, pods: Iterable[Json]) -> None:
        """Only what a pod needs is carried; the rest of a tenant's secrets stays where it is."""
        needed: dict[str, set[str]] = {kind: set() for kind in _KINDS}
        for pod in pods:
            for kind, name in references(pod):
                needed[kind].add(host_name(pod["metadata"]["namespace"], name))
        for kind, word in _KINDS.items():
            there = _by_host_name(self._listed(self._virtual, f"/api/v1/{kind}"))
            wanted = {name: data_down(there[name], word, self._tenant) for name in needed[kind] & there.keys()}
            self._make_equal(kind, wanted, there)

    def _sync_services(self) -> None:
        there = _by_host_name(
            one
            for one in self._listed(self._virtual, "/api/v1/services")
            if (one["metadata"]["namespace"], one["metadata"]["name"]) != ("default", "kubernetes")
        )
        kept = self._ranges()
        self._make_equal(
            "services", {name: service_down(one, self._tenant, kept) for name, one in there.items()}, there
        )

    def _ranges(self) -> Sequence[Network]:
        """Where the host gives addresses of services; none, where it does not say."""
        if self._known is None:
            try:
                found = self._listed(self._host, _RANGES)
            except (NotAllowed, NotFound):
                found = []
            self._known = tuple(ip_network(one) for each in found for one in each["spec"]["cidrs"])
        return self._known

    def _sync_claims(self) -> None:
        there = _by_host_name(self._listed(self._virtual, f"/api/v1/{_CLAIMS}"))
        try:
            hosted = self._hosted(_CLAIMS)
        except NotAllowed as error:
            for claim in there.values():
                self._tell(claim, error.message)
            return
        for name in sorted(there.keys() | hosted.keys()):
            self._guarded(there.get(name), partial(self._claim, name, there.get(name), hosted.get(name)))

    def _claim(self, name: str, virtual: Json | None, host: Json | None) -> None:
        why = claim_obstacle(virtual) if virtual is not None else ""
        wanted = claim_down(virtual, self._tenant) if virtual is not None and not why else None
        step = claim_step(virtual, host, wanted)
        if step is Step.DELETE_HOST and host is not None:
            self._host.delete(self._of_host(_CLAIMS, name), uid=host["metadata"]["uid"])
        elif step in (Step.CREATE, Step.UPDATE):
            if wanted is None:
                raise InvalidInput(why)
            self._host.apply(self._of_host(_CLAIMS, name), wanted, dict)
        elif step is Step.REPORT and virtual is not None:
            if host is None:
                self._tell(virtual, "its claim in the host cluster is gone, and what it held")
            self._virtual.patch(f"{_path(virtual, _CLAIMS)}/status", {"status": claim_up(host)}, dict)

    def _make_equal(self, kind: str, wanted: dict[str, Json], sources: dict[str, Json]) -> None:
        hosted = self._hosted(kind)
        for name in sorted(hosted.keys() - wanted.keys()):
            self._host.delete(self._of_host(kind, name), uid=hosted[name]["metadata"]["uid"])
        for name in sorted(hosted.keys() & wanted.keys()):
            if fixed(hosted[name], wanted[name]):
                self._host.delete(self._of_host(kind, name), uid=hosted[name]["metadata"]["uid"])
                del hosted[name]
        for name, body in sorted(wanted.items()):
            if name not in hosted or not within(body, hosted[name]):
                self._guarded(sources[name], partial(self._host.apply, self._of_host(kind, name), body, dict))

    def _show_what_is(self, pods: Iterable[Json]) -> None:
        anew = time.monotonic() - self._shown_s >= SHOWN_S
        self._show_nodes(pods, anew=anew)
        if anew:
            self._show_classes()
            self._known = None
            self._shown_s = time.monotonic()

    def _show_nodes(self, pods: Iterable[Json], *, anew: bool) -> None:
        """The nodes that this tenant's pods are on, and no others."""
        wanted = {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        there = _by_name(self._listed(self._virtual, "/api/v1/nodes"))
        for name in sorted(there.keys() - wanted):
            self._virtual.delete(f"/api/v1/nodes/{name}")
        for name in sorted(wanted if anew else wanted - there.keys()):
            try:
                node, status = node_up(self._host.get(f"/api/v1/nodes/{name}", dict), self._kubelet)
            except NotFound:
                continue
            self._virtual.apply(f"/api/v1/nodes/{name}", node, dict)
            self._virtual.patch(f"/api/v1/nodes/{name}/status", {"status": status}, dict)

    def _show_classes(self) -> None:
        """Those of the host, so that a claim can choose one; a class that the tenant has made stays as it is."""
        try:
            wanted = {one["metadata"]["name"]: class_up(one) for one in self._listed(self._host, _CLASSES)}
        except NotAllowed:
            return
        there = _by_name(self._listed(self._virtual, _CLASSES))
        ours = {name: one for name, one in there.items() if OF_HOST in one["metadata"].get("labels", {})}
        changed = {name for name in ours if name not in wanted or not within(wanted[name], ours[name])}
        for name in sorted(changed):
            # Most of a class can never be changed, only replaced.
            self._virtual.delete(f"{_CLASSES}/{name}")
        for name in sorted(wanted.keys() - (there.keys() - changed)):
            self._virtual.post(_CLASSES, wanted[name], dict)

    def _guarded(self, about: Json | None, act: Callable[[], object]) -> None:
        """One object that is refused holds up nobody else; its owner is told in the virtual cluster."""
        try:
            act()
        except (Conflict, NotFound):
            # It changed under our hands; the watch has woken us already.
            self._wake.set()
        except (InvalidInput, NotAllowed) as error:
            if about is not None:
                self._tell(about, error.message)

    def _tell(self, about: Json, message: str) -> None:
        metadata = about["metadata"]
        key = (metadata["uid"], message)
        if key in self._told:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(key)
        reference = {"kind": about.get("kind", ""), "namespace": metadata["namespace"], "name": metadata["name"],
                     "uid": metadata["uid"]}  # fmt: skip
        event = {
            "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "NotSynced", "message": message[:1000],
            "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
            "involvedObject": reference, "source": {"component": "dure"},
        }  # fmt: skip
        self._virtual.post(f"/api/v1/namespaces/{metadata['namespace']}/events", event, dict)

    def _of_host(self, kind: str, name: str = "") -> str:
        return "/".join(filter(None, (f"/api/v1/namespaces/{self._namespace}/{kind}", name)))

    def _hosted(self, kind: str) -> dict[str, Json]:
        return _by_name(self._listed(self._host, self._of_host(kind), NAMESPACE))

    def _listed(self, api: Api, path: str, selector: str = "") -> list[Json]:
        found: Json = api.get(path, dict, **({"labelSelector": selector} if selector else {}))
        # A list says it once for all; without it everything would look changed.
        head = {"apiVersion": found["apiVersion"], "kind": str(found["kind"]).removesuffix("List")}
        return [{**head, **one} for one in found["items"]]


def _by_host_name(objects: Iterable[Json]) -> dict[str, Json]:
    return {host_name(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in objects}


def _by_name(objects: Iterable[Json]) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in objects}


def _path(found: Json, kind: str) -> str:
    metadata = found["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/{kind}/{metadata['name']}"
