"""One home that a workload could have: a pool of a cluster, a start time, a number of replicas."""

from __future__ import annotations

import math

import msgspec

from dure.model.accelerator import AcceleratorProfile
from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.snapshot import Snapshot
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.units import Instant
from dure.model.workload import Workload, WorkloadType


class Option(msgspec.Struct, frozen=True):
    cluster: ClusterInfo
    pool: VNodePool
    tariff: Tariff
    profile: AcceleratorProfile
    carbon: CarbonSeries | None
    speed: float
    start_s: Instant
    replicas: int

    @property
    def where(self) -> str:
        return f"{self.cluster.name}/{self.pool.name}"


class World(msgspec.Struct, frozen=True):
    """The snapshot's pools joined with their cluster, tariff, class and grid: made once per cycle."""

    entries: tuple[tuple[ClusterInfo, VNodePool, Tariff, AcceleratorProfile, CarbonSeries | None], ...]


def world_of(snapshot: Snapshot) -> World:
    clusters = {cluster.name: cluster for cluster in snapshot.clusters}
    tariffs = {(tariff.cluster, tariff.pool): tariff for tariff in snapshot.tariffs}
    carbon = {series.grid: series for series in snapshot.carbon}
    entries = []
    for pool in snapshot.pools:
        cluster = clusters.get(pool.cluster)
        tariff = tariffs.get((pool.cluster, pool.name))
        if cluster is not None and tariff is not None:
            profile = snapshot.catalogue.accelerator(pool.class_name)
            entries.append((cluster, pool, tariff, profile, carbon.get(cluster.grid)))
    return World(tuple(entries))


def options(workload: Workload, world: World, start_s: Instant) -> list[Option]:
    """Every pool as an option; speed 0 where the class is not accepted, which the filters then say."""
    found = []
    for entry in world.entries:
        speed = workload.speed_on(entry[1].class_name) or 0.0
        found.append(Option(*entry, speed=speed, start_s=start_s, replicas=replicas_on(workload, speed)))
    return found


def replicas_on(workload: Workload, speed: float) -> int:
    """A serving needs more replicas on a slower class to carry the same rate; a gang has the size it has."""
    if workload.type is not WorkloadType.SERVING or speed <= 0:
        return workload.size
    return max(workload.replicas.min, min(workload.replicas.max, math.ceil(workload.replicas.min / speed - 1e-9)))
