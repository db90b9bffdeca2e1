"""What Prometheus reads beyond the clusters' figures: servings, scaling, shared devices, tenants, weights.

`Metrics` registers these collectors; each asks the store or the board once for a scrape. Labels are names of
servings, tenants, pools and shared devices: sets that a fleet keeps small. Counters begin at zero with the process,
as counters may; what clusters count themselves (requests) is passed on as they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dure.api.backend import Shares
from dure.api.pulse import Pulse
from dure.model.answer import FleetStatus
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.units import MICROS
from dure.model.weights import WEIGHTS_SETTING, Weights
from dure.model.workload import WorkloadRecord, WorkloadType
from dure.plane.bursting import risks_of
from dure.ports import StorePort

UP, DOWN = "up", "down"
# The journal is read in pages of this many; one scrape reads as many pages as there are.
_PAGE = 5_000


class ServingCollector(Collector):
    """Requests asked, answered in time and waiting, replicas wanted and ready, of every serving that has a home."""

    def __init__(self, store: StorePort) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels = ("tenant", "workload", "cluster")
        asked = CounterMetricFamily("dure_serving_requests", "Requests asked.", labels=labels)
        good = CounterMetricFamily("dure_serving_requests_good", "Requests answered in time.", labels=labels)
        queue = GaugeMetricFamily("dure_serving_queue_count", "Requests that wait.", labels=labels)
        wanted = GaugeMetricFamily("dure_scale_replicas_count", "Replicas wanted.", labels=labels)
        ready = GaugeMetricFamily("dure_scale_replicas_ready", "Replicas that answer.", labels=labels)
        for record in self._servings():
            status, home = record.status, record.status.placement
            assert home is not None
            key = (record.spec.tenant, record.spec.name, home.cluster)
            wanted.add_metric(key, home.replicas)
            ready.add_metric(key, status.ready)
            if status.requests is not None:
                asked.add_metric(key, status.requests)
            if status.requests_good is not None:
                good.add_metric(key, status.requests_good)
            if status.waiting is not None:
                queue.add_metric(key, status.waiting)
        yield from (asked, good, queue, wanted, ready)

    def _servings(self) -> Iterable[WorkloadRecord]:
        for record in self._store.list_homed():
            if record.spec.type is WorkloadType.SERVING and record.status.placement is not None:
                yield record


class RiskCollector(Collector):
    """What the plane foresees for each serving with the replicas that it has."""

    def __init__(self, store: StorePort) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels = ("tenant", "workload")
        risk = GaugeMetricFamily("dure_watch_risk_ratio", "Of a promise that is broken soon.", labels=labels)
        late = GaugeMetricFamily("dure_watch_foreseen_late_ratio", "Late requests at the horizon.", labels=labels)
        rate = GaugeMetricFamily("dure_watch_foreseen_requests_per_second", "At the horizon.", labels=labels)
        for one in risks_of(self._store):
            key = (one.tenant, one.workload)
            risk.add_metric(key, one.risk)
            late.add_metric(key, one.late)
            rate.add_metric(key, one.rate_per_s)
        yield from (risk, late, rate)


class JournalCollector(Collector):
    """How many decisions of each kind, and how many steps of replicas up and down."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._seq: int | None = None
        self._decisions: dict[tuple[str, str], int] = {}
        self._steps: dict[tuple[str, str], int] = {}

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for entry in self._news():
            kind = str(type(entry.decision).__struct_config__.tag)
            self._add(self._decisions, (kind, entry.cluster))
            if isinstance(entry.decision, ScaleReplicas):
                grew = entry.decision.after > entry.decision.before
                self._add(self._steps, (entry.cluster, UP if grew else DOWN))
        labels = ("kind", "cluster")
        decisions = CounterMetricFamily("dure_decisions", "Decisions, by kind.", labels=labels)
        for key, count in sorted(self._decisions.items()):
            decisions.add_metric(key, count)
        steps = CounterMetricFamily("dure_scale_replica_steps", "Replicas changed.", labels=("cluster", "direction"))
        for way in (UP, DOWN):
            # Shown at zero too: a rate needs a beginning.
            self._steps.setdefault(("", way), 0)
        for key, count in sorted(self._steps.items()):
            steps.add_metric(key, count)
        yield from (decisions, steps)

    def _news(self) -> Iterator[JournalEntry]:
        if self._seq is None:
            newest = self._store.list_journal(limit=1, newest=True)
            self._seq = newest[-1].seq if newest else 0
        while entries := self._store.list_journal(after=self._seq, limit=_PAGE):
            self._seq = entries[-1].seq
            yield from entries

    @staticmethod
    def _add(counts: dict[tuple[str, str], int], key: tuple[str, str]) -> None:
        counts[key] = counts.get(key, 0) + 1


class NodeCollector(Collector):
    """Nodes of each pool, and how many came and went since this process looks."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._before: dict[tuple[str, str], int] = {}
        self._changed: dict[tuple[str, str, str], int] = {}

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._pulse.status()
        labels = ("cluster", "pool")
        nodes = GaugeMetricFamily("dure_scale_nodes_count", "Nodes.", labels=labels)
        ready = GaugeMetricFamily("dure_scale_nodes_ready", "Nodes that take pods.", labels=labels)
        cost = GaugeMetricFamily(
            f"dure_watch_pool_cost_{status.currency.lower()}_per_hour", "Cost now.", labels=labels
        )
        for cluster in status.clusters:
            for pool in cluster.pools:
                key = (cluster.name, pool.name)
                nodes.add_metric(key, pool.nodes)
                ready.add_metric(key, pool.nodes_ready)
                cost.add_metric(key, pool.cost_per_hour_micros / MICROS)
                self._count(key, pool.nodes_ready)
        changed = CounterMetricFamily(
            "dure_scale_node_changes", "Nodes that came and went.", labels=(*labels, "direction")
        )
        for where, count in sorted(self._changed.items()):
            changed.add_metric(where, count)
        yield from (nodes, ready, cost, changed)
        yield from _of_tenants(status)

    def _count(self, key: tuple[str, str], nodes: int) -> None:
        grown = nodes - self._before.get(key, nodes)
        self._before[key] = nodes
        for way, count in ((UP, max(0, grown)), (DOWN, max(0, -grown))):
            self._changed[(*key, way)] = self._changed.get((*key, way), 0) + count


class ShareCollector(Collector):
    """Shared devices: weight, promise, risk and queue of every tenant, and the policy in force."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels = ("device", "tenant")
        weight = GaugeMetricFamily("dure_share_weight_ratio", "Weight by equation 3; 1 is the mean.", labels=labels)
        attained = GaugeMetricFamily("dure_share_attained_ratio", "Of the promise most at risk.", labels=labels)
        risk = GaugeMetricFamily("dure_share_risk_ratio", "Above 1 a promise is being broken.", labels=labels)
        waiting = GaugeMetricFamily("dure_share_waiting_count", "Requests that wait.", labels=labels)
        policy = GaugeMetricFamily(
            "dure_share_policy_bool", "1 for the policy in force.", labels=("device", "policy")
        )
        for device in self._shares.list_devices():
            policy.add_metric((device.device, device.policy), 1.0)
            for tenant in device.tenants:
                key = (device.device, tenant.name)
                weight.add_metric(key, tenant.weight)
                waiting.add_metric(key, tenant.waiting)
                if tenant.attained is not None:
                    attained.add_metric(key, tenant.attained)
                if tenant.risk is not None:
                    risk.add_metric(key, tenant.risk)
        yield from (weight, attained, risk, waiting, policy)


class WeightCollector(Collector):
    """What placement has learned: its three weights, and the congestion prices that differ from 1."""

    def __init__(self, store: StorePort) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        kept = self._store.fetch_setting(WEIGHTS_SETTING)
        weights = msgspec.json.decode(kept, type=Weights) if kept else Weights()
        learned = GaugeMetricFamily("dure_place_weight_ratio", "Learned weights; 1 is neutral.", labels=("weight",))
        learned.add_metric(("slo",), weights.slo)
        learned.add_metric(("locality",), weights.locality)
        prices = GaugeMetricFamily(
            "dure_place_congestion_ratio", "Price of being full; 1 is neutral.", labels=("cluster", "class")
        )
        for key, price in sorted(weights.congestion.items()):
            cluster, _, name = key.partition("/")
            if "@" not in name:
                prices.add_metric((cluster, name), price)
        yield from (learned, prices)


def _of_tenants(status: FleetStatus) -> Iterator[Metric]:
    currency = status.currency.lower()
    spent = GaugeMetricFamily(f"dure_watch_month_spent_{currency}", "This calendar month.", labels=("tenant",))
    carbon = GaugeMetricFamily("dure_watch_month_carbon_grams", "CO2e, this calendar month.", labels=("tenant",))
    held = GaugeMetricFamily("dure_place_devices_held", "Devices' worth held now.", labels=("tenant", "class"))
    for usage in status.usage:
        spent.add_metric((usage.tenant,), usage.spent_micros / MICROS)
        carbon.add_metric((usage.tenant,), usage.carbon_g)
        for name, milli in sorted(usage.device_milli.items()):
            held.add_metric((usage.tenant, name), milli / 1000)
    yield from (spent, carbon, held)
