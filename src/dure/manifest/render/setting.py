"""What the renderers may look at: one cluster of a fleet, its classes, and what only its owner knows."""

from __future__ import annotations

import msgspec

from dure.manifest.document import Json
from dure.model.accelerator import AcceleratorProfile
from dure.model.fleet import ClusterSpec, PoolSpec
from dure.model.offer import InstanceOffer
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant
from dure.model.workload import Workload

MONITORING = "dure-monitoring"
POOL = "dure.dev/pool"
CLASS = "dure.dev/class"
TENANT = "dure.dev/tenant"
ISOLATION = "dure.dev/isolation"
NVIDIA = "nvidia.com/gpu"


class Setting(msgspec.Struct, frozen=True):
    """`office_start_utc_h` is 09:00 of the cluster in UTC hours; it may lie outside of 0..23, on another day."""

    cluster: ClusterSpec
    classes: dict[str, AcceleratorProfile]
    offers: tuple[InstanceOffer, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    workloads: tuple[Workload, ...] = ()
    office_start_utc_h: int = 9
    discovery: str = ""
    ami: str = "al2023@v20260101"
    release: str = "prometheus"
    prometheus: str = "http://prometheus-operated.monitoring.svc:9090"
    scaler: str = "keda"

    @property
    def name(self) -> str:
        return self.cluster.info.name

    @property
    def tag(self) -> str:
        return self.discovery or self.name

    @property
    def rented(self) -> list[tuple[PoolSpec, Capacity]]:
        """Pools whose nodes Karpenter may boot, with how they are paid."""
        return [(pool, pool.capacity) for pool in self.cluster.pools if pool.capacity is not Capacity.OWNED]

    def resource(self, class_name: str) -> str:
        return self.classes[class_name].resource

    @property
    def has_nvidia(self) -> bool:
        return any(self.resource(pool.class_name) == NVIDIA for pool in self.cluster.pools)


def made(
    api: str, kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None, **rest: object
) -> Json:
    """An object with the label that tells who made it."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"app.kubernetes.io/managed-by": "dure", **(labels or {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}
