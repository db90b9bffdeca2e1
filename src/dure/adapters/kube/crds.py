"""The custom resources in which an agent keeps what it knows: `Placement` (a workload's home) and `VNodePool`.

They live in the member cluster's own etcd, so an agent that starts anew knows everything, and `kubectl get
placements` tells it to people. A rule in the schema keeps an older generation from ever overwriting a newer one.
"""

from __future__ import annotations

from typing import Any

from dure.adapters.kube.names import API_VERSION, GROUP

Json = dict[str, Any]
PLACEMENTS = "placements"
POOLS = "vnodepools"

_OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer", "minimum": 0}


def definitions() -> list[Json]:
    return [_placement(), _pool()]


def placement_path(namespace: str, name: str = "", part: str = "") -> str:
    return "/".join(filter(None, (f"/apis/{API_VERSION}/namespaces/{namespace}/{PLACEMENTS}", name, part)))


def _placement() -> Json:
    spec: Json = {
        "type": "object",
        "required": ["uid", "workload", "generation", "desired"],
        "properties": {
            "uid": {**_TEXT, "minLength": 1},
            "workload": {**_TEXT, "minLength": 1},
            "tenant": _TEXT,
            "type": {**_TEXT, "enum": ["training", "batch", "serving"]},
            "generation": {**_WHOLE, "minimum": 1},
            "pool": _TEXT,
            "class": _TEXT,
            "mode": _TEXT,
            "replicas": _WHOLE,
            "desired": _OPEN,
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.generation >= oldSelf.generation",
                "message": "an older generation never replaces a newer one",
            },
            {"rule": "self.uid == oldSelf.uid", "message": "a placement belongs to one workload for good"},
        ],
    }
    status: Json = {
        "type": "object",
        "properties": {
            "phase": _TEXT,
            "applied": _WHOLE,
            "deployed": _WHOLE,
            "asked": _TEXT,
            "remake": _WHOLE,
            "lost": _TEXT,
            "lostGeneration": _WHOLE,
            "doneSeconds": {"type": "number"},
            "savedGeneration": _WHOLE,
            "savedSeconds": {"type": "number"},
            "savedWorkSeconds": {"type": "number"},
            "pods": _WHOLE,
            "bound": _WHOLE,
            "ready": _WHOLE,
            "succeeded": _WHOLE,
            "failed": _WHOLE,
            "startedSeconds": {"type": "number"},
            "finishedSeconds": {"type": "number"},
            "message": _TEXT,
            "reserved": _OPEN,
            "requests": _WHOLE,
            "requestsGood": _WHOLE,
            "waiting": _WHOLE,
            "traffic": _OPEN,
            "pulse": _OPEN,
            "conditions": _conditions(),
        },
    }
    columns = [
        _column("Workload", ".spec.workload"),
        _column("Type", ".spec.type"),
        _column("Pool", ".spec.pool"),
        _column("Mode", ".spec.mode"),
        _column("Phase", ".status.phase"),
        _column("Ready", ".status.ready", "integer"),
        _column("Replicas", ".spec.replicas", "integer"),
        _column("Generation", ".spec.generation", "integer", 1),
        _column("Message", ".status.message", "string", 1),
        _column("Age", ".metadata.creationTimestamp", "date"),
    ]
    return _definition("Placement", PLACEMENTS, "Namespaced", ["pl"], spec, status, columns)


def _pool() -> Json:
    spec: Json = {
        "type": "object",
        "required": ["class"],
        "properties": {
            "class": {**_TEXT, "minLength": 1},
            "capacity": _TEXT,
            "share": {"type": "array", "items": _TEXT},
        },
    }
    status: Json = {
        "type": "object",
        "properties": {
            "nodes": _WHOLE,
            "nodesReady": _WHOLE,
            "devices": _WHOLE,
            "freeDevices": _WHOLE,
            "freeMilli": {"type": "integer"},
            "conditions": _conditions(),
        },
    }
    columns = [
        _column("Class", ".spec.class"),
        _column("Nodes", ".status.nodes", "integer"),
        _column("Ready", ".status.nodesReady", "integer"),
        _column("Devices", ".status.devices", "integer"),
        _column("Free", ".status.freeDevices", "integer"),
        _column("Age", ".metadata.creationTimestamp", "date"),
    ]
    return _definition("VNodePool", POOLS, "Cluster", ["vnp"], spec, status, columns)


def _definition(
    kind: str, plural: str, scope: str, short: list[str], spec: Json, status: Json, columns: list[Json]
) -> Json:
    version = {
        "name": API_VERSION.rpartition("/")[2],
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": spec, "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": short},
            "versions": [version],
        },
    }


def _conditions() -> Json:
    item = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": _TEXT,
            "status": {**_TEXT, "enum": ["True", "False", "Unknown"]},
            "reason": _TEXT,
            "message": _TEXT,
            "lastTransitionTime": {**_TEXT, "format": "date-time"},
        },
    }
    return {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def _column(name: str, path: str, kind: str = "string", priority: int = 0) -> Json:
    return {"name": name, "jsonPath": path, "type": kind, "priority": priority}
