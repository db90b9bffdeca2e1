"""Everything an agent needs in its cluster, as manifests: definitions, an account with exactly its rights, itself.

`dure render agent` prints it; a test runs the agent with these roles, and finds every right of them used. Pure.
"""

from __future__ import annotations

from typing import Any

from dure.adapters.kube import crds, lease
from dure.adapters.kube.names import GROUP

Json = dict[str, Any]
NAMESPACE = lease.NAMESPACE
ACCOUNT = lease.NAME
IMAGE = "dure:latest"
REPLICAS = 2
RBAC = "rbac.authorization.k8s.io"
STATE = "/var/lib/dure"
TRUST = "/etc/dure/trust"
# Of the pod and of the container; the plane in the chart has the same.
NOBODY: Json = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONFINED: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_HOME = {"name": ACCOUNT, "namespace": NAMESPACE}

_READ = ["get", "list", "watch"]
# Server-side apply is a patch that may create.
_APPLY = ["create", "patch"]


def rules() -> list[Json]:
    """One rule for each thing the adapter does; nothing about secrets, config maps or other people's Jobs' bodies."""
    return [
        _rule("", ["nodes"], [*_READ, "patch"]),
        _rule("", ["pods"], _READ),
        _rule("", ["pods/binding", "pods/eviction"], ["create"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["events"], ["create"]),
        _rule("", ["namespaces"], ["list", "watch", *_APPLY]),
        _rule("", ["resourcequotas"], ["list", "watch"]),
        _rule("", ["services"], _APPLY),
        _rule("apps", ["deployments"], ["list", "watch", *_APPLY]),
        _rule("policy", ["poddisruptionbudgets"], ["list", "watch"]),
        _rule("resource.k8s.io", ["resourceslices", "deviceclasses"], ["list", "watch"]),
        _rule("resource.k8s.io", ["resourceclaims"], ["list", "watch", "patch"]),
        _rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], ["patch"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], ["list", "watch"]),
        _rule("batch", ["jobs"], ["list", "watch", *_APPLY, "delete"]),
        _rule(GROUP, [crds.PLACEMENTS], [*_READ, *_APPLY, "delete"]),
        _rule(GROUP, [crds.POOLS], _APPLY),
        _rule(GROUP, [f"{crds.PLACEMENTS}/status", f"{crds.POOLS}/status"], ["patch"]),
        _rule(GROUP, [f"{crds.PLACEMENTS}/finalizers"], ["update"]),
    ]


def home_rules() -> list[Json]:
    """In the agent's own namespace: the lease of the leader, and the one Secret that keeps its credential."""
    return [
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        {**_rule("coordination.k8s.io", ["leases"], ["get", "patch"]), "resourceNames": [lease.NAME]},
        {**_rule("", ["secrets"], ["get", "patch"]), "resourceNames": [ACCOUNT]},
    ]


def role() -> Json:
    """What it may do in the whole cluster."""
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": rules()}


def home_role() -> Json:
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": _HOME, "rules": home_rules()}


def readers() -> Json:
    """Whoever may look at a namespace may look at the placements in it."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "dure-view", "labels": {f"{RBAC}/aggregate-to-view": "true"}},
        "rules": [_rule(GROUP, [crds.PLACEMENTS], _READ)],
    }


def manifests(cluster: str, plane: str, image: str = IMAGE, authority: str = "") -> list[Json]:
    """`authority` is a Secret with the certificate (`ca.crt`) to believe the plane by."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *crds.definitions(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        role(),
        home_role(),
        binding([subject]),
        home_binding([subject]),
        readers(),
        *lease.fence(),
        _deployment(cluster, plane, image, authority),
    ]


def binding(subjects: list[Json]) -> Json:
    return _binding("ClusterRole", {"name": ACCOUNT}, subjects)


def home_binding(subjects: list[Json]) -> Json:
    return _binding("Role", _HOME, subjects)


def _binding(kind: str, metadata: Json, subjects: list[Json]) -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": ACCOUNT},
        "subjects": subjects,
    }


def _deployment(cluster: str, plane: str, image: str, authority: str) -> Json:
    """Two agents, of which the Lease lets one act. Their state, a name, may die with them."""
    believed = [{"name": "authority", "secret": {"secretName": authority}}] if authority else []
    container = {
        "name": "agent",
        "image": image,
        "args": [
            "agent", "--cluster", cluster, "--plane", plane,
            "--secret", f"{NAMESPACE}/{ACCOUNT}", "--state", STATE,
            *(["--ca", f"{TRUST}/ca.crt"] if authority else []),
        ],
        "volumeMounts": [
            {"name": "state", "mountPath": STATE},
            {"name": "scratch", "mountPath": "/tmp"},
            *({"name": each["name"], "mountPath": TRUST, "readOnly": True} for each in believed),
        ],
        "securityContext": CONFINED,
    }  # fmt: skip
    labels = {"app.kubernetes.io/name": ACCOUNT}
    apart = {
        "weight": 100,
        "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "securityContext": NOBODY,
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
                    "containers": [container],
                    "volumes": [{"name": "state", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}, *believed],
                },
            },
        },
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
