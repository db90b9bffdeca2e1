"""Own metrics of a small embedded fleet: what a Prometheus would find there."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import standing
from dure.api.figures import DOWN, UP, JournalCollector, NodeCollector, ServingCollector, ShareCollector
from dure.api.metrics import Metrics
from dure.api.pulse import Pulse
from dure.device.board import ShareStatus, ShareTenant
from dure.embedded.week import START_S
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.units import HOUR_S


def figures(collector: Any) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def running_world() -> tuple[EmbeddedWorld, VirtualClock]:
    clock = VirtualClock(START_S)
    fleet, known = demo_fleet(), catalogue()
    world = EmbeddedWorld(fleet, known, MemoryStore(), clock, seed=1)
    world.submit(standing(fleet, known)[:2])
    for step in range(12):
        world.step()
        clock.advance(START_S + (step + 1) * HOUR_S / 12)
    world.step()
    return world, clock


def test_servings_show_requests_and_replicas_by_tenant_workload_and_cluster() -> None:
    world, _ = running_world()
    found = figures(ServingCollector(world.store))
    record = world.store.fetch_workload("search-chat")
    assert record.status.placement is not None
    key = ("search", "search-chat", record.status.placement.cluster)
    assert found["dure_serving_requests_total", *key] == (record.status.requests or 0) > 0
    assert 0 < found["dure_serving_requests_good_total", *key] <= found["dure_serving_requests_total", *key]
    assert found["dure_serving_queue_count", *key] == record.status.waiting
    assert found["dure_scale_replicas_count", *key] == found["dure_scale_replicas_ready", *key] == 3
    nobody_knows = replace(record, status=replace(record.status, waiting=None))
    without = figures(ServingCollector(SimpleNamespace(list_homed=lambda: [nobody_knows])))
    assert ("dure_serving_queue_count", *key) not in without, "unknown is not none"


def test_decisions_and_steps_are_counted_from_when_the_process_looks() -> None:
    store = MemoryStore()
    entry = JournalEntry(0, 1.0, "", ScaleReplicas("chat", 2, 3, "late"), "search", "a")
    store.commit([], entries=[entry])
    collector = JournalCollector(store)
    assert figures(collector)["dure_scale_replica_steps_total", "", UP] == 0
    back = JournalEntry(0, 2.0, "", ScaleReplicas("chat", 3, 2, "calm"), "search", "a")
    store.commit([], entries=[entry, entry, back])
    for _ in range(2):
        found = figures(collector)
        assert found["dure_scale_replica_steps_total", "a", UP] == 2
        assert found["dure_scale_replica_steps_total", "a", DOWN] == 1
        assert found["dure_decisions_total", "scale-replicas", "a"] == 3


def test_nodes_that_come_and_go_are_counted_by_pool_and_direction() -> None:
    world, _ = running_world()
    status = world.desk.status()
    cluster = status.clusters[0]
    pulse: Any = SimpleNamespace(status=lambda: status)
    collector = NodeCollector(pulse)
    key = (cluster.name, cluster.pools[0].name)
    nodes = figures(collector)["dure_scale_nodes_ready", *key]
    fewer = replace(cluster.pools[0], nodes_ready=int(nodes) - 1)
    status = replace(status, clusters=(replace(cluster, pools=(fewer, *cluster.pools[1:])), *status.clusters[1:]))
    found = figures(collector)
    assert found["dure_scale_node_changes_total", *key, DOWN] == 1
    assert found["dure_scale_node_changes_total", *key, UP] == 0


def test_shared_devices_show_weights_risks_and_the_policy_in_force() -> None:
    tenants = (ShareTenant("chat", 3, 1.5, 100.0, 0.9, 1.2), ShareTenant("idle", 0, 0.5, 1e6))
    shares: Any = SimpleNamespace(
        list_devices=lambda: (ShareStatus("n1/0", "slo", False, True, 100, "SMs", 1.0, tenants),)
    )
    found = figures(ShareCollector(shares))
    assert found["dure_share_policy_bool", "n1/0", "slo"] == 1.0
    assert found["dure_share_weight_ratio", "n1/0", "chat"] == 1.5
    assert found["dure_share_risk_ratio", "n1/0", "chat"] == 1.2
    assert ("dure_share_risk_ratio", "n1/0", "idle") not in found


def test_the_page_has_no_family_twice_and_names_the_currency() -> None:
    world, _ = running_world()
    page = Metrics(Pulse(world.desk, MemoryMetrics()), world.store).page().decode()
    names = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert 'dure_watch_month_spent_krw{tenant="search"}' in page
    assert not math.isnan(float(page.rstrip().rsplit(" ", 1)[1]))
