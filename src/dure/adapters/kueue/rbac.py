"""The account of the gateway in its cluster: exactly the rights that it uses, as manifests.

`dure render gateway` prints it, `dure doctor` asks for each right, the gateway's tests run with this account. Pure.
"""

from __future__ import annotations

from typing import Any

from dure.adapters.kube.rbac import NAMESPACE, RBAC
from dure.adapters.kueue.objects import GROUP

Json = dict[str, Any]
ACCOUNT = "dure-gateway"
_WATCH = ["list", "watch"]


def rules() -> list[Json]:
    """What every gateway needs: Kueue's figures, the Jobs it takes in and moves, and to act as who asks."""
    return [
        _rule(GROUP, ["clusterqueues", "localqueues", "workloads"], _WATCH),
        _rule(GROUP, ["cohorts", "resourceflavors", "multikueueclusters"], _WATCH),
        _rule("batch", ["jobs"], ["get", "list", "create", "patch", "delete"]),
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("", ["users", "groups", "serviceaccounts"], ["impersonate"]),
    ]


def order_rules() -> list[Json]:
    """To serve the longest jobs of a backlog first."""
    return [_rule(GROUP, ["workloadpriorityclasses"], ["create"])]


def dispatch_rules() -> list[Json]:
    """For `--dispatch` alone: to name worker clusters for a Workload."""
    return [_rule(GROUP, ["workloads/status"], ["patch"])]


def manifests(*, order: bool = True, dispatch: bool = False) -> list[Json]:
    extra = [*(order_rules() if order else ()), *(dispatch_rules() if dispatch else ())]
    api, subject = f"{RBAC}/v1", {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    name = {"name": ACCOUNT}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**name, "namespace": NAMESPACE}},
        {"apiVersion": api, "kind": "ClusterRole", "metadata": name, "rules": [*rules(), *extra]},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [subject],
        },
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
