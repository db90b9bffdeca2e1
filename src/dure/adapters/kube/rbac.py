"""Everything an agent needs in its cluster, as manifests: definitions, an account with exactly its rights, itself.

`dure render agent` prints it; a test runs the agent with this role and no other. Pure.
"""

from __future__ import annotations

from typing import Any

from dure.adapters.kube import crds
from dure.adapters.kube.names import GROUP

Json = dict[str, Any]
NAMESPACE = "dure-system"
ACCOUNT = "dure-agent"
IMAGE = "dure:latest"

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
        _rule("", ["namespaces", "services"], _APPLY),
        _rule("apps", ["deployments"], [*_READ, *_APPLY]),
        _rule("policy", ["poddisruptionbudgets"], ["list", "watch"]),
        _rule("resource.k8s.io", ["resourceslices", "deviceclasses"], ["list", "watch"]),
        _rule("resource.k8s.io", ["resourceclaims"], ["list", "watch", "patch"]),
        _rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], ["patch"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], ["list", "watch"]),
        _rule("batch", ["jobs"], [*_READ, *_APPLY, "delete"]),
        _rule(GROUP, [crds.PLACEMENTS], [*_READ, *_APPLY, "delete"]),
        _rule(GROUP, [crds.POOLS], _APPLY),
        _rule(GROUP, [f"{crds.PLACEMENTS}/status", f"{crds.POOLS}/status"], ["patch"]),
        _rule(GROUP, [f"{crds.PLACEMENTS}/finalizers"], ["update"]),
    ]


def role() -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT},
        "rules": rules(),
    }


def manifests(cluster: str, plane: str, image: str = IMAGE) -> list[Json]:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *crds.definitions(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        role(),
        binding([subject]),
        _claim(),
        _deployment(cluster, plane, image),
    ]


def binding(subjects: list[Json]) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": subjects,
    }


def _claim() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }


def _deployment(cluster: str, plane: str, image: str) -> Json:
    """One agent, never two: the old one is gone before the new one starts. Its credential outlives it in a volume."""
    token = {"secretKeyRef": {"name": ACCOUNT, "key": "join-token", "optional": True}}
    container = {
        "name": "agent",
        "image": image,
        "args": ["agent", "--cluster", cluster, "--plane", plane, "--state", "/var/lib/dure"],
        "env": [{"name": "DURE_JOIN_TOKEN", "valueFrom": token}],
        "volumeMounts": [{"name": "state", "mountPath": "/var/lib/dure"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    labels = {"app.kubernetes.io/name": ACCOUNT}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532},
                    "containers": [container],
                    "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": ACCOUNT}}],
                },
            },
        },
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
