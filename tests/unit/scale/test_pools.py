"""Shares of the elastic pool: surges, minimums, give-back, and a plan that can be undone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dure.scale.pools import PoolSettings, Service, reallocation, rollback, shares


def by_name(services: tuple[Service, ...], settings: PoolSettings) -> dict[str, int]:
    return {share.service: share.after for share in shares(services, settings)}


def test_a_surge_takes_the_elastic_pool_first() -> None:
    services = (Service("a", 4, 2, 12, 4, 7, priority=1), Service("b", 4, 2, 12, 4, 4))
    assert by_name(services, PoolSettings(elastic=4)) == {"a": 7, "b": 4}


def test_then_it_takes_what_others_hold_idle_but_not_their_minimum() -> None:
    services = (Service("a", 4, 2, 12, 4, 12, priority=1), Service("b", 4, 2, 12, 4, 1))
    assert by_name(services, PoolSettings(elastic=2)) == {"a": 8, "b": 2}


def test_a_service_that_needs_its_replicas_keeps_them() -> None:
    services = (Service("a", 4, 2, 12, 4, 12, priority=9), Service("b", 4, 2, 12, 4, 4))
    assert by_name(services, PoolSettings(elastic=0)) == {"a": 4, "b": 4}


def test_giving_back_goes_in_steps_after_calm_rounds() -> None:
    settings = PoolSettings(elastic=4, give_back=1, calm=3)
    assert by_name((Service("a", 4, 2, 12, 8, 3, calm_rounds=2),), settings) == {"a": 8}
    assert by_name((Service("a", 4, 2, 12, 8, 3, calm_rounds=3),), settings) == {"a": 7}


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 12), st.integers(0, 12), st.integers(0, 3)),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 8),
)
def test_nobody_falls_below_its_minimum_and_devices_are_not_invented(
    raw: list[tuple[int, int, int, int, int]], elastic: int
) -> None:
    services = tuple(
        Service(f"s{i}", primary + least, least, 12, max(least, running), wanted, priority)
        for i, (primary, least, running, wanted, priority) in enumerate(raw)
    )
    after = by_name(services, PoolSettings(elastic=elastic))
    assert all(after[service.name] >= service.min_replicas for service in services)
    total = sum(service.primary for service in services) + elastic
    assert sum(after.values()) <= max(total, sum(service.min_replicas for service in services))


def test_the_plan_drains_before_it_moves_and_switches_last() -> None:
    services = (Service("a", 4, 2, 12, 4, 12, priority=1), Service("b", 4, 2, 12, 4, 1))
    steps = reallocation(shares(services, PoolSettings(elastic=2)))
    assert [step.phase for step in steps] == ["drain", "move", "warm", "switch"]
    assert rollback(steps, 3) == ("give the devices back to b", "let b take requests again")
