"""The front's policy as Gateway API inference-extension resources, for clusters that route by themselves.

Called by `dure front --render`. An InferencePool selects the pods and names the endpoint picker; an
InferenceObjective gives a service its priority. The picker then routes by queue and cache as the front does.
"""

from __future__ import annotations

from typing import Any


def render(name: str, namespace: str, labels: dict[str, str], port: int, priority: int = 0) -> list[dict[str, Any]]:
    """The resources of one service, as plain manifests."""
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": dict(sorted(labels.items()))},
            "targetPorts": [{"number": port}],
            "endpointPickerRef": {"name": f"{name}-epp", "port": {"number": 9002}},
        },
    }
    objective = {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"priority": priority, "poolRef": {"name": name}},
    }
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": "inference-gateway"}],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                    "backendRefs": [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name}],
                }
            ],
        },
    }
    return [pool, objective, route]
