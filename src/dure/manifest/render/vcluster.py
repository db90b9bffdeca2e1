"""Values for vcluster's own chart: how a tenant of the highest tier gets its control plane in production.

They say what differs from the chart's defaults and follows from the tenant: which Secret the kubeconfig lands in,
that quota and limits are the host namespace's (Dure renders those), and that a tenant sees no nodes of the host.
"""

from __future__ import annotations

import yaml

from dure.manifest.document import Json
from dure.model.tenant import Tenant

VCLUSTER = "dure-vcluster"
SECRET = "dure-virtual-cluster"


def vcluster_values(tenant: Tenant) -> str:
    """YAML for `helm install NAME vcluster -n dure-NAME -f values.yaml`."""
    values: Json = {
        "controlPlane": {
            "backingStore": {"etcd": {"deploy": {"enabled": True}}},
            "statefulSet": {"highAvailability": {"replicas": 3}, "persistence": {"volumeClaim": {"enabled": "auto"}}},
            "serviceMonitor": {"enabled": True, "labels": {"dure.dev/tenant": tenant.name}},
        },
        "sync": {
            "toHost": {
                "pods": {"enabled": True},
                "services": {"enabled": True},
                "configMaps": {"enabled": True, "all": False},
                "secrets": {"enabled": True, "all": False},
            },
            "fromHost": {"nodes": {"enabled": False}, "events": {"enabled": True}},
        },
        "policies": {
            "resourceQuota": {"enabled": False},
            "limitRange": {"enabled": False},
            "podSecurityStandard": "baseline",
        },
        "exportKubeConfig": {"context": tenant.name, "additionalSecrets": [{"name": SECRET}]},
        "telemetry": {"enabled": False},
    }
    return yaml.safe_dump(values, sort_keys=False)
