"""The fleet's figures as series over time, and the headline figures read back from them.

Called by the API's pulse at every look at the fleet. Pure: a status in, samples out. Names of series are
`dure_<what>_<figure>_<unit>`, as of the metrics that Prometheus reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dure.model.answer import FleetStatus
from dure.model.sample import Point, Sample

COST, CARBON, USED = "dure_fleet_cost_micros_per_hour", "dure_fleet_carbon_grams_per_hour", "dure_fleet_used_ratio"
RUNNING, WAITING, SLO = "dure_fleet_running_count", "dure_fleet_waiting_count", "dure_fleet_slo_ratio"
CLUSTER_COST, CLUSTER_CARBON = "dure_cluster_cost_micros_per_hour", "dure_cluster_carbon_grams_per_hour"
POOL_USED, POOL_PRICE = "dure_pool_used_ratio", "dure_pool_price_micros_per_hour"
POOL_DEVICES = "dure_pool_devices_count"
# Not the names on `/metrics`: a Prometheus that keeps these and scrapes those would add every request up twice.
REQUESTS, GOOD = "dure_service_requests_total", "dure_service_requests_good_total"
UP = "dure_service_up_ratio"
HEADLINES = (COST, CARBON, USED, RUNNING, WAITING, SLO)
SERIES = (*HEADLINES, CLUSTER_COST, CLUSTER_CARBON, POOL_USED, POOL_PRICE, POOL_DEVICES, REQUESTS, GOOD, UP)


def samples_of(status: FleetStatus) -> Iterator[Sample]:
    """Every series' figure at the moment of this status; what is unknown has none."""
    at_s, totals = status.now_s, status.totals
    headlines = {
        COST: totals.cost_per_hour_micros,
        CARBON: totals.carbon_g_per_hour,
        USED: _ratio(totals.used_milli, totals.devices),
        RUNNING: totals.running,
        WAITING: totals.held + totals.pending,
        SLO: totals.slo_attainment,
    }
    for name, value in headlines.items():
        if value is not None:
            yield Sample(name, {}, at_s, float(value))
    for cluster in status.clusters:
        here = {"cluster": cluster.name}
        yield Sample(CLUSTER_COST, here, at_s, float(cluster.cost_per_hour_micros))
        yield Sample(CLUSTER_CARBON, here, at_s, cluster.carbon_g_per_hour)
        for pool in cluster.pools:
            labels = {**here, "pool": pool.name}
            yield Sample(POOL_DEVICES, labels, at_s, float(pool.devices))
            yield Sample(POOL_USED, labels, at_s, _ratio(pool.used_milli, pool.devices))
            if pool.price_micros is not None:
                yield Sample(POOL_PRICE, labels, at_s, float(pool.price_micros))
    for service in status.services:
        labels = {"workload": service.workload, "tenant": service.tenant}
        yield Sample(REQUESTS, labels, at_s, float(service.requests))
        yield Sample(GOOD, labels, at_s, float(service.requests_good))
        yield Sample(UP, labels, at_s, float(service.ready > 0))


def points_of(fetch: Callable[[str], Iterable[Sample]]) -> tuple[Point, ...]:
    """The headline series joined by moment, oldest first."""
    found = {name: {one.at_s: one.value for one in fetch(name)} for name in HEADLINES}
    return tuple(
        Point(
            at_s=at_s,
            cost_per_hour_micros=round(cost),
            carbon_g_per_hour=found[CARBON].get(at_s, 0.0),
            used=found[USED].get(at_s, 0.0),
            running=round(found[RUNNING].get(at_s, 0.0)),
            held=round(found[WAITING].get(at_s, 0.0)),
            slo_attainment=found[SLO].get(at_s),
        )
        for at_s, cost in found[COST].items()
    )


def _ratio(used_milli: int, devices: int) -> float:
    return used_milli / 1000 / devices if devices else 0.0
