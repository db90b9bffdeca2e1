"""One home that a workload could have: a pool of a cluster, a start time, a number of replicas."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from dure.model.accelerator import AcceleratorProfile
from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.once import once
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, CarbonSeries, Tariff
from dure.model.units import HOUR_S, Instant
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


class _Market(NamedTuple):
    """The tariffs and grids of one hour by name, and the sums over time of those that were asked for."""

    tariffs: dict[tuple[str, str], Tariff]
    grids: dict[str, CarbonSeries]
    worst_g_per_kwh: float
    sums: dict[tuple[str, str, Capacity, str, int, int], PoolSeries]


def world_of(snapshot: Snapshot, hours: int) -> World:
    """`hours` is how far the series have to reach."""
    clusters = {cluster.name: cluster for cluster in snapshot.clusters}
    market = _market(snapshot.tariffs, snapshot.carbon)
    homes = []
    for pool in sorted(snapshot.pools, key=lambda pool: (pool.cluster, pool.name)):
        cluster, tariff = clusters.get(pool.cluster), market.tariffs.get((pool.cluster, pool.name))
        if cluster is None or tariff is None:
            continue
        series = _series(market, tariff, pool.capacity, cluster.grid, snapshot.now_s, hours)
        profile = snapshot.catalogue.accelerator(pool.class_name)
        homes.append(Home(cluster, pool, tariff, profile, series, market.worst_g_per_kwh))
    return World(tuple(homes))


def options(workload: Workload, world: World, start_s: Instant) -> list[Option]:
    """Every pool as an option; speed 0 where the class is not accepted, which the filters then say."""
    return [
        Option(
            home.cluster, home.pool, home.tariff, home.profile, home.series, home.unknown_g_per_kwh,
            workload.speed_on(home.pool.class_name) or 0.0, start_s,
            workload.size_on(home.pool.class_name),
        )
        for home in world.homes
    ]  # fmt: skip


@once
def _market(tariffs: tuple[Tariff, ...], carbon: tuple[CarbonSeries, ...]) -> _Market:
    """Prices that change, even within an hour, are another tuple and so another market."""
    return _Market(
        {(tariff.cluster, tariff.pool): tariff for tariff in tariffs},
        {series.grid: series for series in carbon},
        _worst(carbon),
        {},
    )


def _series(market: _Market, tariff: Tariff, capacity: Capacity, grid: str, now_s: Instant, hours: int) -> PoolSeries:
    """The sums of one pool; made once for each hour and length."""
    key = tariff.cluster, tariff.pool, capacity, grid, int(now_s // HOUR_S), hours
    found = market.sums.get(key)
    if found is None:
        found = market.sums[key] = PoolSeries(
            weekly_integral(tariff.per_hour(capacity), now_s, hours),
            weekly_integral(tariff.electricity, now_s, hours),
            carbon_integral(market.grids.get(grid), now_s, hours),
        )
    return found


def _worst(carbon: tuple[CarbonSeries, ...]) -> float:
    """The highest mean of a known grid."""
    means = [
        float(np.mean(known))
        for series in carbon
        if (known := [value for value in series.g_per_kwh if value is not None])
    ]
    return max(means, default=WORST_G_PER_KWH)
