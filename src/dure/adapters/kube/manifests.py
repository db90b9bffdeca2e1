"""From a placed workload to Kubernetes objects: Placement, and the Job or the Deployment and Service it owns.

Pure. A Job belongs to one generation and is replaced by the next; a Deployment belongs to the workload and is rolled,
so that a serving keeps its replicas. Both name their Placement as owner: deleting it takes everything along.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from dure.adapters.kube import names
from dure.adapters.kube.instances import cut_name, replica_name
from dure.model.accelerator import AcceleratorProfile, Geometry, ShareMode, SliceProfile
from dure.model.catalogue import Catalogue
from dure.model.cluster import Pod, VNodePool
from dure.model.demand import Demand, on_class
from dure.model.report import Desired
from dure.model.units import WHOLE_MILLI, Instant
from dure.model.workload import WorkloadType

Json = dict[str, Any]

# A workload without a pod template is a dry run: it holds what it asks for and sleeps.
DRY_RUN_IMAGE = "busybox:stable"
GANG_SIZE = "DURE_GANG_SIZE"
_SHARED = (ShareMode.MPS, ShareMode.TIMESLICE)
_RETRIES = 3
_FOREVER_S = 365 * 24 * 3600


def namespace(tenant: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": names.namespace_of(tenant), "labels": {names.TENANT: names.label_value(tenant)}},
    }


def placement_name(desired: Desired) -> str:
    return names.object_name(desired.spec.name, desired.uid)


def placement(desired: Desired) -> Json:
    spec, home = desired.spec, desired.placement
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Placement",
        "metadata": {
            "name": placement_name(desired),
            "namespace": names.namespace_of(spec.tenant),
            "labels": labels_of(desired),
        },
        "spec": {
            "uid": desired.uid,
            "workload": spec.name,
            "tenant": spec.tenant,
            "type": str(spec.type),
            "generation": home.generation,
            "pool": home.pool,
            "class": home.class_name,
            "mode": str(home.mode),
            "replicas": replicas_of(desired),
            "desired": msgspec.to_builtins(desired),
        },
    }


def replicas_of(desired: Desired) -> int:
    return desired.placement.replicas or desired.spec.size


def job_name(desired: Desired) -> str:
    return names.object_name(desired.spec.name, f"{desired.uid}/{desired.placement.generation}")


def job(desired: Desired, owner: Json, asked: Ask) -> Json:
    """Indexed, all pods at once; a pod that failed is replaced only when nothing of it is left."""
    size = replicas_of(desired)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(desired),
            "namespace": names.namespace_of(desired.spec.tenant),
            "labels": labels_of(desired),
            "annotations": {names.ASKED: asked.shape},
            "ownerReferences": [owner],
        },
        "spec": {
            "completions": size,
            "parallelism": size,
            "completionMode": "Indexed",
            "backoffLimit": _RETRIES * size,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": template(desired, asked, restart="Never"),
        },
    }


def deployment(desired: Desired, owner: Json, asked: Ask, *, counted: bool = True) -> Json:
    """Rolled one by one with the old replicas kept until the new ones are ready.

    Not `counted`: how many there are is left to whoever has scaled it.
    """
    chosen = {names.UID: names.label_value(desired.uid)}
    count = {"replicas": replicas_of(desired)} if counted else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": placement_name(desired),
            "namespace": names.namespace_of(desired.spec.tenant),
            "labels": labels_of(desired),
            "ownerReferences": [owner],
        },
        "spec": {
            **count,
            "selector": {"matchLabels": chosen},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(desired, asked, restart="Always"),
        },
    }


def service(desired: Desired, owner: Json) -> Json:
    ports = _ports(desired) or [{"name": "http", "port": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": placement_name(desired),
            "namespace": names.namespace_of(desired.spec.tenant),
            "labels": labels_of(desired),
            "ownerReferences": [owner],
        },
        "spec": {"selector": {names.UID: names.label_value(desired.uid)}, "ports": ports},
    }


def pool(found: VNodePool) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "VNodePool",
        "metadata": {"name": found.name},
        "spec": {
            "class": found.class_name,
            "capacity": str(found.capacity),
            "share": [str(one) for one in found.share],
        },
    }


def pool_status(found: VNodePool) -> Json:
    return {
        "nodes": found.nodes,
        "nodesReady": found.nodes_ready,
        "devices": found.devices,
        "freeDevices": found.free_devices,
        "freeMilli": found.free_milli,
    }


def owner_of(name: str, uid: str) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Placement",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_of(desired: Desired) -> dict[str, str]:
    return {
        names.UID: names.label_value(desired.uid),
        names.WORKLOAD: names.label_value(desired.spec.name),
        names.TENANT: names.label_value(desired.spec.tenant),
    }


class Ask(NamedTuple):
    """What one pod asks of the kubelet, how `pack` sees the same, and the PriorityClass of its priority, if any."""

    resources: dict[str, str]
    pod: Pod
    priority_class: str = ""

    @property
    def shape(self) -> str:
        """What hangs on how the nodes are cut just now: with another shape it takes other pods."""
        plain = {"resources": self.resources, "classes": self.pod.classes, "share": self.pod.share}
        return msgspec.json.encode(plain, order="sorted").decode()


def ask(desired: Desired, catalogue: Catalogue, created_s: Instant, *, cut: bool, replicas: int = 1) -> Ask:
    """`cut`: the pool's nodes offer fixed instances, so a share of a device is the smallest instance that covers it.

    `replicas`: their device plugin offers each device that many times, so a share that is no larger is one of them.
    A share of a device that Dure cuts itself asks the kubelet for nothing: its slice is in the Binding.
    """
    demand, home = desired.spec.demand, desired.placement
    profile = catalogue.accelerator(home.class_name)
    here = on_class(demand, profile, catalogue.accelerator(desired.spec.classes[0].name))
    asked: dict[str, str] = {}
    if demand.cpu_milli:
        asked["cpu"] = f"{demand.cpu_milli}m"
    if demand.host_memory_mib:
        asked["memory"] = f"{demand.host_memory_mib}Mi"
    pod = _model_pod(desired, created_s)
    instance = _instance(here, profile.geometry(home.mode)) if cut else None
    if demand.whole or home.mode is ShareMode.EXCLUSIVE:
        if profile.resource:
            asked[profile.resource] = str(max(1, demand.devices))
    elif instance is not None:
        asked[instance.resource] = "1"
        pod = _whole_of(pod, cut_name(profile.name, instance.name))
    elif replicas > 1 and home.mode in _SHARED and _within(here, profile, replicas):
        asked[profile.resource] = "1"
        pod = _whole_of(pod, replica_name(profile.name, replicas))
    return Ask(asked, pod)


def _whole_of(pod: Pod, class_name: str) -> Pod:
    whole = replace(pod.demand, devices=1, compute_milli=0, bandwidth_milli=0)
    return replace(pod, demand=whole, classes=(class_name,), share=())


def _within(demand: Demand, profile: AcceleratorProfile, replicas: int) -> bool:
    most = max(demand.compute_milli, demand.bandwidth_milli)
    return most * replicas <= WHOLE_MILLI and demand.memory_mib * replicas <= profile.memory_mib


def _instance(demand: Demand, geometry: Geometry | None) -> SliceProfile | None:
    fitting = [
        one
        for one in (geometry.profiles if geometry else ())
        if one.resource
        and one.memory_mib >= demand.memory_mib
        and one.compute_milli >= max(demand.compute_milli, demand.bandwidth_milli)
    ]
    return min(fitting, key=lambda one: (one.slots, one.compute_slices, one.name), default=None)


def template(desired: Desired, asked: Ask, *, restart: str) -> Json:
    """The workload's own pod template, with Dure as its scheduler and what it asks for filled in."""
    body: Json = json.loads(desired.spec.template) if desired.spec.template else {}
    metadata: Json = dict(body.get("metadata", {}))
    spec: Json = dict(body.get("spec", {}))
    gang = restart == "Never"
    containers = [dict(one) for one in spec.get("containers", [])] or [_sleeper(_left_s(desired) if gang else 0.0)]
    if gang:
        containers = [{**one, "env": [*one.get("env", []), *_told(desired, one)]} for one in containers]
    first = dict(containers[0].get("resources", {}))
    containers[0]["resources"] = {
        "requests": {**first.get("requests", {}), **asked.resources},
        "limits": {**first.get("limits", {}), **{name: n for name, n in asked.resources.items() if "/" in name}},
    }
    described = msgspec.json.encode(asked.pod).decode()
    if asked.priority_class:
        spec.setdefault("priorityClassName", asked.priority_class)
    return {
        "metadata": {
            "labels": {**metadata.get("labels", {}), **labels_of(desired)},
            "annotations": {**metadata.get("annotations", {}), names.POD: described},
        },
        "spec": {**spec, "schedulerName": names.SCHEDULER, "restartPolicy": restart, "containers": containers},
    }


def _model_pod(desired: Desired, created_s: Instant) -> Pod:
    """What `pack` needs to know of each pod. A serving's has neither generation nor date: they would roll it."""
    spec, home = desired.spec, desired.placement
    alone = spec.type is WorkloadType.SERVING
    return Pod(
        name="",
        uid=desired.uid,
        tenant=spec.tenant,
        type=spec.type,
        demand=spec.demand,
        classes=tuple(accepted.name for accepted in spec.classes),
        workload=spec.name,
        generation=0 if alone else home.generation,
        pool=home.pool,
        gang=1 if alone else replicas_of(desired),
        priority=spec.priority,
        share=(home.mode,),
        model=spec.model,
        interruptible=spec.interruptible,
        isolation=desired.isolation,
        checkpoint_s=spec.checkpoint_s,
        created_s=0.0 if alone else created_s,
    )


def _told(desired: Desired, container: Json) -> list[Json]:
    """Of how many it is one, which an elastic gang cannot know beforehand; what the template says itself counts."""
    said = {one["name"] for one in container.get("env", [])}
    return [] if GANG_SIZE in said else [{"name": GANG_SIZE, "value": str(replicas_of(desired))}]


def _left_s(desired: Desired) -> float:
    """What a gang that begins at a checkpoint has to do yet, at the speed of its size."""
    spec = desired.spec
    if not spec.duration_s:
        return 0.0
    left_s = spec.duration_s - desired.done_s
    return max(1.0, left_s / spec.speed_with(desired.placement.class_name, replicas_of(desired)))


def _sleeper(seconds: float) -> Json:
    return {
        "name": "dry-run",
        "image": DRY_RUN_IMAGE,
        "command": ["sleep", str(round(seconds) or _FOREVER_S)],
    }


def _ports(desired: Desired) -> list[Json]:
    body: Json = json.loads(desired.spec.template) if desired.spec.template else {}
    ports = [port for one in body.get("spec", {}).get("containers", []) for port in one.get("ports", [])]
    return [
        {"name": port.get("name", f"port-{port['containerPort']}"), "port": port["containerPort"]} for port in ports
    ]
