from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.adapters.memory.stream import arrivals, standing
from dure.files.builtin import catalogue, demo_fleet
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Workload, WorkloadType
from tests.fixtures.embedded import START_S

FLEET, CATALOGUE = demo_fleet(), catalogue()
WEEK = arrivals(FLEET, CATALOGUE, 1, START_S, START_S + 7 * DAY_S)


def test_a_week_brings_about_two_thousand_workloads_in_order() -> None:
    assert 1900 <= len(WEEK) <= 2150
    assert [at_s for at_s, _ in WEEK] == sorted(at_s for at_s, _ in WEEK)
    assert all(START_S <= at_s < START_S + 7 * DAY_S for at_s, _ in WEEK)


def test_names_are_unique_in_a_month_and_tell_tenant_and_kind() -> None:
    month = arrivals(FLEET, CATALOGUE, 1, START_S, START_S + 30 * DAY_S)
    names = [workload.name for _, workload in month]
    assert len(names) == len(set(names))
    assert all(workload.name.startswith(f"{workload.tenant}-") for _, workload in month)


@settings(max_examples=30, deadline=None)
@given(start_h=st.floats(0, 150), hours=st.floats(0, 30))
def test_any_window_agrees_with_the_week_around_it(start_h: float, hours: float) -> None:
    since_s = START_S + start_h * HOUR_S
    until_s = min(since_s + hours * HOUR_S, START_S + 7 * DAY_S)
    part = arrivals(FLEET, CATALOGUE, 1, since_s, until_s)
    assert part == tuple((at_s, workload) for at_s, workload in WEEK if since_s <= at_s < until_s)


def test_another_seed_brings_other_workloads() -> None:
    assert arrivals(FLEET, CATALOGUE, 2, START_S, START_S + DAY_S) != WEEK[:1]
    assert {w for _, w in WEEK[:50]}.isdisjoint(
        {w for _, w in arrivals(FLEET, CATALOGUE, 2, START_S, START_S + DAY_S)}
    )


def test_the_mix_has_gangs_fractions_deadlines_and_patience_for_every_tenant() -> None:
    found = [workload for _, workload in WEEK]
    assert {workload.tenant for workload in found} == {tenant.name for tenant in FLEET.tenants}
    kinds = Counter(workload.type for workload in found)
    assert kinds[WorkloadType.TRAINING] > 400
    assert kinds[WorkloadType.BATCH] > 1000
    assert {1, 2, 4, 8} <= {workload.gang for workload in found}
    assert any(_devices(workload) >= 32 for workload in found), "something that has to wait for a whole hall"
    assert any(not workload.demand.whole for workload in found)
    assert 0.2 < sum(workload.deferrable for workload in found) / len(found) < 0.8
    assert all(workload.deadline_s and workload.deadline_s > 2 * workload.duration_s for workload in found)
    assert any(workload.regions for workload in found)
    assert any(workload.dataset for workload in found)


def test_office_hours_are_busier_than_nights_and_working_days_than_weekends() -> None:
    local = [(int((at_s - START_S) / HOUR_S) + 9, workload) for at_s, workload in WEEK]
    trained = [hour % 24 for hour, workload in local if workload.type is WorkloadType.TRAINING]
    assert sum(9 <= hour < 18 for hour in trained) > 2 * sum(hour < 8 for hour in trained)
    days = Counter(hour // 24 for hour, _ in local)
    assert max(days[5], days[6]) < min(days[1], days[2], days[3], days[4])


def test_standing_services_have_names_rates_and_promises() -> None:
    services = standing(FLEET, CATALOGUE)
    assert 3 <= len(services) <= 8
    assert len({service.name for service in services}) == len(services)
    for service in services:
        assert service.type is WorkloadType.SERVING
        assert service.rate_per_s > 0
        assert service.slo.latency_p95_ms
        assert service.tenant in {tenant.name for tenant in FLEET.tenants}


def test_a_fleet_that_can_run_nothing_of_it_sees_no_stream() -> None:
    bare = replace(FLEET, clusters=())
    assert arrivals(bare, CATALOGUE, 1, START_S, START_S + DAY_S) == ()
    assert standing(replace(FLEET, tenants=()), CATALOGUE) == ()


def _devices(workload: Workload) -> int:
    return workload.gang * workload.demand.devices
