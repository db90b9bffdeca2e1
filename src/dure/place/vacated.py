"""What a pool and a tenant's usage are once some workloads have left: the copy on which a decision is tried.

Called by `preempt` for those who would have to give way and by `rearrange` for those who might stand aside. Only what
is certain counts: each pod frees what it has, on one node.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dure.model.catalogue import Catalogue
from dure.model.cluster import VNodePool
from dure.model.tenant import TenantUsage
from dure.model.units import WHOLE_MILLI
from dure.model.workload import WorkloadRecord


def room_without(pool: VNodePool, gone: Sequence[WorkloadRecord], catalogue: Catalogue) -> VNodePool:
    """The pool when all of `gone`, who are there, have left."""
    memory_mib = catalogue.accelerator(pool.class_name).memory_mib
    for one in gone:
        home, demand = one.status.placement, one.spec.demand
        assert home is not None
        pods, whole = home.replicas, demand.whole
        free = (*pool.free_whole, *((demand.devices,) * pods if whole else ()))
        compute, bandwidth = (WHOLE_MILLI,) * 2 if whole else (demand.compute_milli, demand.bandwidth_milli)
        pool = replace(
            pool,
            free_whole=tuple(sorted(free, reverse=True)),
            free_milli=pool.free_milli + demand.device_milli * pods,
            free_cpu_milli=pool.free_cpu_milli + demand.cpu_milli * pods,
            free_host_memory_mib=pool.free_host_memory_mib + demand.host_memory_mib * pods,
            largest_memory_mib=max(pool.largest_memory_mib, memory_mib if whole else demand.memory_mib),
            largest_compute_milli=max(pool.largest_compute_milli, compute),
            largest_bandwidth_milli=max(pool.largest_bandwidth_milli, bandwidth),
            largest_cpu_milli=max(pool.largest_cpu_milli, demand.cpu_milli),
            largest_host_memory_mib=max(pool.largest_host_memory_mib, demand.host_memory_mib),
        )
    return pool


def usage_without(used: TenantUsage, gone: Sequence[WorkloadRecord]) -> TenantUsage:
    """The tenant's usage when those of `gone` that are its own have left."""
    held = dict(used.device_milli)
    for one in gone:
        home = one.status.placement
        if one.spec.tenant == used.tenant and home is not None and home.class_name in held:
            held[home.class_name] -= one.spec.demand.device_milli * home.replicas
    return replace(used, device_milli=held)
