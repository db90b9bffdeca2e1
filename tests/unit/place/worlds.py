"""Snapshots small enough to reason about: two or three pools, a few workloads."""

from __future__ import annotations

import msgspec

from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.money import Rates
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, CarbonSeries, Tariff, Weekly
from dure.model.tenant import Tenant, TenantUsage
from dure.model.units import MICROS
from dure.model.workload import Workload, WorkloadRecord, WorkloadStatus
from tests.fixtures.small_world import CATALOGUE, GIB

# Monday 2026-01-05 00:00 UTC.
NOW_S = 1_767_571_200.0


def pool(cluster: str, *, nodes: int = 1, devices: int = 4, class_name: str = "big", name: str = "") -> VNodePool:
    profile = CATALOGUE.classes[class_name]
    return VNodePool(
        cluster=cluster,
        name=name or class_name,
        class_name=class_name,
        capacity=Capacity.OWNED,
        share=profile.share,
        nodes=nodes,
        nodes_ready=nodes,
        nodes_max=nodes,
        devices_per_node=devices,
        devices=nodes * devices,
        free_whole=(devices,) * nodes,
        free_milli=nodes * devices * 1000,
        largest_memory_mib=profile.memory_mib,
        largest_compute_milli=1000,
        largest_bandwidth_milli=1000,
        free_cpu_milli=nodes * 64_000,
        free_host_memory_mib=nodes * 512 * GIB,
        largest_cpu_milli=64_000,
        largest_host_memory_mib=512 * GIB,
    )


def tariff(
    cluster: str,
    price: int | tuple[int, ...],
    *,
    class_name: str = "big",
    electricity: int | None = None,
    egress: int = 0,
) -> Tariff:
    values = (price,) if isinstance(price, int) else price
    return Tariff(
        cluster=cluster,
        pool=class_name,
        class_name=class_name,
        owned=Weekly(tuple(value * MICROS for value in values)),
        electricity=Weekly((electricity * MICROS,)) if electricity is not None else None,
        egress_micros_per_gib=egress * MICROS,
    )


def carbon(grid: str, values: float | tuple[float | None, ...] | None) -> CarbonSeries:
    known = values if isinstance(values, tuple) else (values,) * 96
    return CarbonSeries(grid=grid, start_s=NOW_S, g_per_kwh=known)


def record(spec: Workload, *, submitted_s: float = NOW_S, **changes: object) -> WorkloadRecord:
    changed = msgspec.structs.replace(spec, **changes) if changes else spec
    return WorkloadRecord(f"uid-{changed.name}", changed, WorkloadStatus(submitted_s=submitted_s))


def snapshot(
    records: tuple[WorkloadRecord, ...],
    *,
    pools: tuple[VNodePool, ...] = (pool("a"), pool("b")),
    tariffs: tuple[Tariff, ...] = (tariff("a", 1000), tariff("b", 2000)),
    grids: tuple[CarbonSeries, ...] = (carbon("a", 400.0), carbon("b", 100.0)),
    tenants: tuple[Tenant, ...] = (),
    usage: tuple[TenantUsage, ...] = (),
    carbon_per_kg: int = 0,
    **clusters: ClusterInfo,
) -> Snapshot:
    names = sorted({one.cluster for one in pools})
    return Snapshot(
        now_s=NOW_S,
        seed=1,
        catalogue=CATALOGUE,
        rates=Rates(),
        carbon_micros_per_kg=carbon_per_kg * MICROS,
        clusters=tuple(
            clusters.get(name, ClusterInfo(name=name, region=f"{name}-region", grid=name, observed_s=NOW_S))
            for name in names
        ),
        pools=pools,
        tariffs=tariffs,
        carbon=grids,
        tenants=tenants,
        usage=usage,
        records=records,
    )
