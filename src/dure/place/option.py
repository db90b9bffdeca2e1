"""One home that a workload could have: a pool of a cluster, a start time, a number of replicas."""

from __future__ import annotations

import msgspec
import numpy as np

from dure.model.accelerator import AcceleratorProfile
from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.once import once
from dure.model.snapshot import Snapshot
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.units import Instant
from dure.model.workload import Workload
from dure.place.hours import CarbonIntegral, Integral, carbon_integral, weekly_integral

# For a fleet without a single known grid: a coal plant. Unknown must never look better than known.
WORST_G_PER_KWH = 820.0


class PoolSeries(msgspec.Struct, frozen=True):
    """What a device-hour, a kWh and a kWh's carbon are on one pool, summed over time."""

    price: Integral | None
    electricity: Integral | None
    carbon: CarbonIntegral


class Home(msgspec.Struct, frozen=True):
    """A pool joined with its cluster, tariff, class and series."""

    cluster: ClusterInfo
    pool: VNodePool
    tariff: Tariff
    profile: AcceleratorProfile
    series: PoolSeries
    unknown_g_per_kwh: float


class Option(msgspec.Struct, frozen=True):
    cluster: ClusterInfo
    pool: VNodePool
    tariff: Tariff
    profile: AcceleratorProfile
    series: PoolSeries
    unknown_g_per_kwh: float
    speed: float
    start_s: Instant
    replicas: int

    @property
    def where(self) -> str:
        return f"{self.cluster.name}/{self.pool.name}"


class World(msgspec.Struct, frozen=True):
    """The snapshot's pools as homes, sorted by cluster and pool: made once per cycle."""

    homes: tuple[Home, ...]


def world_of(snapshot: Snapshot, hours: int) -> World:
    """`hours` is how far the series have to reach."""
    clusters = {cluster.name: cluster for cluster in snapshot.clusters}
    tariffs = {(tariff.cluster, tariff.pool): tariff for tariff in snapshot.tariffs}
    carbon = {series.grid: series for series in snapshot.carbon}
    sums = {grid: carbon_integral(series, snapshot.now_s, hours) for grid, series in carbon.items()}
    unknown = carbon_integral(None, snapshot.now_s, hours)
    worst = _worst(snapshot.carbon)
    homes = []
    for pool in sorted(snapshot.pools, key=lambda pool: (pool.cluster, pool.name)):
        cluster, tariff = clusters.get(pool.cluster), tariffs.get((pool.cluster, pool.name))
        if cluster is None or tariff is None:
            continue
        series = PoolSeries(
            weekly_integral(tariff.per_hour(pool.capacity), snapshot.now_s, hours),
            weekly_integral(tariff.electricity, snapshot.now_s, hours),
            sums.get(cluster.grid, unknown),
        )
        profile = snapshot.catalogue.accelerator(pool.class_name)
        homes.append(Home(cluster, pool, tariff, profile, series, worst))
    return World(tuple(homes))


def options(workload: Workload, world: World, start_s: Instant) -> list[Option]:
    """Every pool as an option; speed 0 where the class is not accepted, which the filters then say."""
    return [
        Option(
            home.cluster, home.pool, home.tariff, home.profile, home.series, home.unknown_g_per_kwh,
            workload.speed_on(home.pool.class_name) or 0.0, start_s, workload.size,
        )
        for home in world.homes
    ]  # fmt: skip


@once
def _worst(carbon: tuple[CarbonSeries, ...]) -> float:
    """The highest mean of a known grid."""
    means = [
        float(np.mean(known))
        for series in carbon
        if (known := [value for value in series.g_per_kwh if value is not None])
    ]
    return max(means, default=WORST_G_PER_KWH)
