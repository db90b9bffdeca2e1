"""What Prometheus reads: the fleet's figures from the newest status, and the API's own traffic.

A registry of its own keeps the process's other metrics out. Names are `dure_<verb>_<what>_<unit>`; labels are
cluster, pool, phase, route: small sets all.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dure.api.backend import Shares
from dure.api.figures import (
    JournalCollector,
    NodeCollector,
    RiskCollector,
    ServingCollector,
    ShareCollector,
    WeightCollector,
)
from dure.api.pulse import Pulse
from dure.model.answer import ClusterStatus, FleetStatus
from dure.model.units import MICROS
from dure.model.workload import Phase, WorkloadRecord
from dure.ports import StorePort

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10)
_Figure: TypeAlias = Callable[[ClusterStatus], float | None]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    def __init__(self, pulse: Pulse, store: StorePort | None = None, shares: Shares | None = None) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "dure_serve_requests_total", "Answered requests.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "dure_serve_request_seconds", "Time to answer.", ("route",), registry=self.registry, buckets=_BUCKETS
        )
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self.registry.register(_FleetCollector(pulse))
        self.registry.register(NodeCollector(pulse))
        if store is not None:
            for collector in (ServingCollector, JournalCollector, WeightCollector, RiskCollector):
                self.registry.register(collector(store))
        if shares is not None:
            self.registry.register(ShareCollector(shares))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Called for every request, hence the children kept at hand."""
        key = (method, route, status)
        counter = self._counters.get(key)
        if counter is None:
            # A caller can invent methods; the label must not grow with them.
            shown = method if method in _METHODS else "other"
            counter = self._counters[key if shown == method else (shown, route, status)] = self._requests.labels(
                shown, route, str(status)
            )
            self._timers.setdefault(route, self._seconds.labels(route))
        counter.inc()
        self._timers[route].observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self.registry)


def own_page(records: Iterable[WorkloadRecord]) -> bytes:
    """The same format for one tenant: how many of its workloads are in which phase."""
    counts = Counts(record.status.phase for record in records)
    family = GaugeMetricFamily("dure_place_workloads_count", "Workloads.", labels=("phase",))
    for phase in Phase:
        family.add_metric((phase.value,), counts[phase])
    registry = CollectorRegistry()
    registry.register(_Fixed(family))
    return generate_latest(registry)


class _Fixed(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class _FleetCollector(Collector):
    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    def describe(self) -> list[Metric]:
        """Named at scrape time; asking the fleet while the registry is built would be too early."""
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._pulse.status()
        yield from _of_clusters(status)
        yield from _of_pools(status)
        yield _of_phases(status)
        slo = status.totals.slo_attainment
        if slo is not None:
            yield GaugeMetricFamily("dure_watch_slo_ratio", "Good requests over all.", value=slo)


def _of_clusters(status: FleetStatus) -> Iterator[Metric]:
    currency = status.currency.lower()
    yield _gauge("dure_observe_reachable_bool", "1 when the agent reports.", status, lambda one: float(one.reachable))
    yield _gauge("dure_watch_power_watts", "Electric power.", status, lambda one: one.power_w)
    yield _gauge(
        f"dure_watch_cost_{currency}_per_hour", "Cost now.", status, lambda one: one.cost_per_hour_micros / MICROS
    )
    yield _gauge("dure_watch_carbon_grams_per_hour", "CO2e now.", status, lambda one: one.carbon_g_per_hour)
    yield _gauge("dure_watch_intensity_grams_per_kwh", "CO2e of the grid.", status, lambda one: one.carbon_g_per_kwh)


def _gauge(name: str, text: str, status: FleetStatus, value: _Figure) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("cluster",))
    for cluster in status.clusters:
        figure = value(cluster)
        if figure is not None:
            family.add_metric((cluster.name,), figure)
    return family


def _of_pools(status: FleetStatus) -> Iterator[Metric]:
    devices = GaugeMetricFamily("dure_pack_devices_count", "Devices.", labels=("cluster", "pool"))
    used = GaugeMetricFamily("dure_pack_devices_used", "Devices' worth in use.", labels=("cluster", "pool"))
    for cluster in status.clusters:
        for pool in cluster.pools:
            devices.add_metric((cluster.name, pool.name), pool.devices)
            used.add_metric((cluster.name, pool.name), pool.used_milli / 1000)
    yield devices
    yield used


def _of_phases(status: FleetStatus) -> Metric:
    family = GaugeMetricFamily("dure_place_workloads_count", "Workloads.", labels=("phase",))
    totals = status.totals
    for phase in ("pending", "held", "starting", "running", "done", "failed"):
        family.add_metric((phase,), getattr(totals, phase))
    return family
