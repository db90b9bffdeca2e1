"""Every refusal names its reason and the two numbers that clash; what just fits is not refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.demand import Demand
from dure.model.reason import Reason
from dure.model.tenant import Budget, Isolation, Tenant, TenantUsage
from dure.model.workload import AcceptedClass, Slo, Workload
from dure.place.filters import STALE_S, budget_clash, isolation_clash, quota_clash, static_clash
from dure.place.option import Option, options, world_of
from tests.fixtures.small_world import GIB, training
from tests.unit.place.worlds import NOW_S, pool, snapshot

JOB = training("job")
WORLD = snapshot((), pools=(pool("a"),))


def option(cluster: dict[str, object] | None = None, home: dict[str, object] | None = None) -> Option:
    [found] = options(JOB, world_of(WORLD, 48), NOW_S)
    return replace(found, cluster=replace(found.cluster, **(cluster or {})), pool=replace(found.pool, **(home or {})))


def refusal(
    job: Workload = JOB,
    demand: Demand | None = None,
    cluster: dict[str, object] | None = None,
    home: dict[str, object] | None = None,
) -> tuple[Reason | None, str] | None:
    found = static_clash(job, option(cluster, home), demand or job.demand, WORLD)
    return None if found is None else (found.reason, found.sentence)


def test_what_fits_is_not_refused() -> None:
    assert refusal() is None
    whole = Demand(devices=4, memory_mib=40 * GIB, cpu_milli=64_000, host_memory_mib=512 * GIB)
    assert refusal(demand=whole) is None
    assert refusal(demand=Demand(compute_milli=1000, bandwidth_milli=1000)) is None


@pytest.mark.parametrize(
    ("demand", "reason", "words"),
    [
        (Demand(devices=1, memory_mib=41 * GIB), Reason.MEMORY_TOO_SMALL, "needs 41 GiB per device"),
        (Demand(compute_milli=1001), Reason.COMPUTE_TOO_SMALL, "needs 100.1 % of a big"),
        (Demand(bandwidth_milli=1001), Reason.BANDWIDTH_TOO_SMALL, "needs 100.1 % of the bandwidth"),
        (Demand(devices=5), Reason.NO_CAPACITY, "needs 5 devices on one node, nodes of a/big have 4"),
        (Demand(devices=1, cpu_milli=65_000), Reason.HOST_TOO_SMALL, "needs 65 cores"),
        (Demand(devices=1, host_memory_mib=513 * GIB), Reason.HOST_TOO_SMALL, "needs 513 GiB of host memory"),
    ],
)
def test_a_demand_that_no_device_or_node_can_meet(demand: Demand, reason: Reason, words: str) -> None:
    found = refusal(demand=demand)
    assert found is not None
    assert found[0] is reason
    assert found[1].startswith(words)


def test_a_pool_that_can_boot_nodes_is_not_judged_by_the_old_ones() -> None:
    wide = Demand(devices=1, cpu_milli=65_000)
    assert refusal(demand=wide, home={"nodes_max": 2}) is None
    assert refusal(demand=wide, home={"nodes": 0, "nodes_max": 0}) is None


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ({"reachable": False}, Reason.CLUSTER_UNREACHABLE),
        ({"observed_s": NOW_S - STALE_S - 1}, Reason.STALE_FIGURES),
        ({"observed_s": NOW_S - STALE_S}, None),
    ],
)
def test_a_cluster_that_is_away_or_was_not_seen_lately(cluster: dict[str, object], reason: Reason | None) -> None:
    found = refusal(cluster=cluster)
    assert (found and found[0]) is reason


def test_regions_are_globs() -> None:
    assert refusal(replace(JOB, regions=("us-*", "a-reg*"))) is None
    found = refusal(replace(JOB, regions=("us-*",)))
    assert found == (Reason.REGION_NOT_ALLOWED, "needs us-*, a is in a-region")


def test_a_class_that_is_not_accepted() -> None:
    found = static_clash(JOB, replace(option(), speed=0.0), JOB.demand, WORLD)
    assert found is not None
    assert (found.reason, found.sentence) == (Reason.CLASS_NOT_ACCEPTED, "needs big/small, a/big has big")


def test_data_is_not_pulled_through_the_metered_line_of_an_edge_site() -> None:
    job = replace(JOB, dataset="images", dataset_mib=3 * GIB)
    edge: dict[str, object] = {"edge": True, "metered_micros_per_gib": 5}
    found = refusal(job, cluster=edge)
    assert found is not None
    assert (found[0], found[1][:21]) == (Reason.DATA_TOO_FAR, "needs 3 GiB of images")
    assert refusal(job, cluster={**edge, "datasets": ("images",)}) is None
    assert refusal(job, cluster={**edge, "edge": False}) is None
    assert refusal(job, cluster={**edge, "metered_micros_per_gib": 0}) is None
    assert refusal(cluster=edge) is None


def test_a_network_that_takes_the_whole_latency_target() -> None:
    serves = replace(JOB, slo=Slo(latency_p95_ms=50.0))
    assert refusal(serves, cluster={"latency_ms": 49.0}) is None
    found = refusal(serves, cluster={"latency_ms": 50.0})
    assert found == (Reason.LATENCY_TOO_HIGH, "needs answers within 50 ms, a is 50 ms from the users")


def test_a_way_of_sharing_that_the_pool_does_not_offer() -> None:
    mps: dict[str, object] = {"share": (ShareMode.MPS,)}
    assert refusal(demand=Demand(compute_milli=100), home=mps) is None
    assert refusal(home=mps) == (Reason.SHARE_MODE_NOT_OFFERED, "needs exclusive, a/big offers mps")
    assert refusal(replace(JOB, share=(ShareMode.MPS,))) == (
        Reason.SHARE_MODE_NOT_OFFERED, "needs mps, a/big offers exclusive/mig",
    )  # fmt: skip


def test_a_quota_without_borrowing_is_kept_to_the_device() -> None:
    tenant = Tenant("t", quota={"big": 3}, borrow=False)
    held = TenantUsage("t", {"big": 2000})
    one, two = Demand(devices=1), Demand(devices=2)
    assert quota_clash(option(), one, tenant, held) is None
    found = quota_clash(option(), two, tenant, held)
    assert found is not None
    assert found.sentence == "needs 2 big, tenant t holds 2 of its quota of 3"
    assert quota_clash(option(), two, replace(tenant, borrow=True), held) is None
    assert quota_clash(option(), two, replace(tenant, quota={}), held) is None


def test_a_budget_covers_the_bill_to_the_last_unit() -> None:
    tenant = Tenant("t", budget=Budget(money_micros=100_000_000, carbon_g=5000.0))
    used = TenantUsage("t", {}, spent_micros=60_000_000, carbon_g=1000.0)
    assert budget_clash(option(), tenant, used, Bill(direct=40_000_000, carbon_g=4000.0)) is None
    dear = budget_clash(option(), tenant, used, Bill(direct=40_000_001))
    assert dear is not None
    assert (dear.reason, dear.found) == (Reason.BUDGET_EXCEEDED, "tenant t has 40 of 100 left this month")
    dirty = budget_clash(option(), tenant, used, Bill(carbon_g=4001.0))
    assert dirty is not None
    assert (dirty.reason, dirty.found) == (
        Reason.CARBON_BUDGET_EXCEEDED,
        "tenant t has 4.0 of 5.0 kg left this month",
    )
    assert budget_clash(option(), Tenant("t"), used, Bill(direct=10**15, carbon_g=1e9)) is None


def test_a_share_for_a_tenant_with_nodes_of_its_own_wants_an_empty_node() -> None:
    own, share = Tenant("t", isolation=Isolation.OWN_NODE), Demand(compute_milli=100)
    assert isolation_clash(option(), own, share) is None
    taken = option(home={"free_whole": (3,)})
    found = isolation_clash(taken, own, share)
    assert found is not None
    assert found.reason is Reason.ISOLATION_TIER
    assert isolation_clash(option(home={"free_whole": ()}), own, share) is not None
    assert isolation_clash(taken, Tenant("t"), share) is None
    assert isolation_clash(taken, own, Demand(devices=1)) is None


def test_a_pool_of_a_class_that_the_workload_does_not_name_is_no_home() -> None:
    other = replace(JOB, classes=(AcceptedClass("small"),))
    [found] = options(other, world_of(WORLD, 48), NOW_S)
    assert found.speed == 0.0
    clash = static_clash(other, found, other.demand, WORLD)
    assert clash is not None
    assert clash.reason is Reason.CLASS_NOT_ACCEPTED


def test_a_quota_counts_all_replicas_and_shares_of_devices() -> None:
    strict = Tenant("t", quota={"big": 2}, borrow=False)
    three = replace(option(), replicas=3)
    assert quota_clash(three, Demand(compute_milli=666), strict, TenantUsage("t")) is None
    found = quota_clash(three, Demand(compute_milli=667), strict, TenantUsage("t"))
    assert found is not None
    assert (found.wanted, found.found) == ("2.001 big", "tenant t holds 0 of its quota of 2")
    other = TenantUsage("t", {"small": 9000})
    assert quota_clash(option(), Demand(devices=2), strict, other) is None


def test_refusals_are_told_in_cores_gibibytes_and_kilograms() -> None:
    small = option(home={"largest_cpu_milli": 1500, "largest_host_memory_mib": 3 * GIB})
    found = static_clash(JOB, small, Demand(devices=1, cpu_milli=1501), WORLD)
    assert found is not None
    assert found.sentence == "needs 1.501 cores, the freest node of a/big has 1.5"
    memory = static_clash(JOB, small, Demand(devices=1, cpu_milli=1500, host_memory_mib=4 * GIB), WORLD)
    assert memory is not None
    assert memory.found == "the freest node of a/big has 3 GiB"
    unknown = option(home={"largest_cpu_milli": 0, "largest_host_memory_mib": 0})
    assert static_clash(JOB, unknown, Demand(devices=1, cpu_milli=9, host_memory_mib=9), WORLD) is None
    spent = TenantUsage("t", {}, spent_micros=90, carbon_g=9000.0)
    over = Tenant("t", budget=Budget(money_micros=80, carbon_g=5000.0))
    money = budget_clash(option(), over, spent, Bill(direct=1))
    assert money is not None
    assert "has 0 of" in money.found
    carbon = budget_clash(option(), replace(over, budget=Budget(carbon_g=5000.0)), spent, Bill(carbon_g=1500.0))
    assert carbon is not None
    assert (carbon.wanted, carbon.found) == ("1.5 kg CO2", "tenant t has 0.0 of 5.0 kg left this month")


def test_how_long_ago_a_cluster_was_seen_is_told() -> None:
    found = refusal(cluster={"observed_s": NOW_S - STALE_S - 1})
    assert found == (Reason.STALE_FIGURES, "needs figures of the last 300 s, a was last seen 301 s ago")
