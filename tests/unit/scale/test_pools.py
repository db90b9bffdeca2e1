"""Shares of the elastic pool: surges, minimums, give-back, and a plan that can be undone."""

from __future__ import annotations

import math

import msgspec
from hypothesis import example, given
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


def test_who_is_sure_gives_up_to_what_it_needs_and_who_is_unsure_keeps_more() -> None:
    short = Service("a", 4, 2, 12, 4, 8, need=7.5, error=1.0)
    sure = Service("b", 4, 2, 12, 7, 3, need=2.8, error=0.1)
    assert by_name((short, sure), PoolSettings(elastic=3)) == {"a": 8, "b": 3}
    unsure = Service("b", 4, 2, 12, 7, 7, need=2.8, error=4.0)
    assert by_name((short, unsure), PoolSettings(elastic=3)) == {"a": 6, "b": 5}


def test_what_is_free_goes_to_the_higher_priority_and_what_is_taken_comes_from_the_lower() -> None:
    first = Service("a", 3, 1, 12, 3, 5, priority=3, need=4.9, error=0.5)
    second = Service("b", 3, 1, 12, 3, 5, priority=2, need=4.9, error=0.5)
    idle = [Service(name, 3, 1, 12, 3, 1, priority, need=0.5, error=0.1) for name, priority in (("c", 1), ("d", 0))]
    assert by_name((first, second), PoolSettings(elastic=2)) == {"a": 5, "b": 3}
    assert by_name((first, *idle), PoolSettings(elastic=0)) == {"a": 5, "c": 3, "d": 1}


NEEDY = st.lists(
    st.tuples(
        st.integers(0, 6), st.integers(0, 3), st.integers(0, 12), st.floats(0.0, 14.0), st.floats(0.05, 5.0),
        st.integers(0, 2),
    ),
    min_size=2, max_size=4,
)  # fmt: skip


@example([(4, 0, 4, 6.7, 4.4, 1), (5, 0, 0, 2.8, 0.85, 2), (3, 1, 2, 6.5, 0.75, 0), (5, 3, 12, 1.1, 2.1, 2)], 7, 0)
@given(NEEDY, st.integers(0, 8), st.integers(0, 5))
def test_nobody_is_pushed_below_what_it_needs_nor_below_its_minimum_and_giving_again_changes_nothing(
    raw: list[tuple[int, int, int, float, float, int]], elastic: int, rounds: int
) -> None:
    def made(running: dict[str, int]) -> tuple[Service, ...]:
        return tuple(
            Service(f"s{i}", primary + least, least, 12, running[f"s{i}"], math.ceil(need + error), priority, rounds,
                    need, error)
            for i, (primary, least, _, need, error, priority) in enumerate(raw)
        )  # fmt: skip

    settings = PoolSettings(elastic=elastic, calm=6)
    total = sum(primary + least for primary, least, *_ in raw) + elastic
    services = made({f"s{i}": max(least, held) for i, (_, least, held, *_) in enumerate(raw)})
    after = by_name(services, settings)
    assert sum(after.values()) <= max(total, sum(service.running for service in services))
    assert sum(after.values()) <= max(total, sum(service.min_replicas for service in services))
    fits = sum(service.running for service in services) <= total
    for service in services:
        assert after[service.name] >= service.min_replicas
        assert not fits or after[service.name] >= min(service.running, service.floor)
        assert after[service.name] <= max(service.running, service.max_replicas)
    assert by_name(made(after), settings) == after, "who has what it may have does not move on"


@given(NEEDY, st.integers(0, 8))
def test_a_higher_priority_never_gets_less_of_what_is_free_for_being_higher(
    raw: list[tuple[int, int, int, float, float, int]], elastic: int
) -> None:
    services = tuple(
        Service(f"s{i}", held + least, least, 12, held + least, math.ceil(need + error), priority, 0, need, error)
        for i, (_, least, held, need, error, priority) in enumerate(raw)
    )
    raised = (msgspec.structs.replace(services[0], priority=9), *services[1:])
    settings = PoolSettings(elastic=elastic, apart=math.inf)
    assert by_name(raised, settings)["s0"] >= by_name(services, settings)["s0"]


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
