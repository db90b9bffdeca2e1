from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.adapters.memory.serving import good_part, queue_after, rate_at
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Slo
from tests.fixtures.embedded import START_S, Bench
from tests.fixtures.small_world import desired, fraction, pool, service

CHAT = service("s", replicas=2, rate_per_s=10.0)


def test_requests_are_counted_from_the_first_ready_replica_on() -> None:
    bench = Bench(pool("big", "big"))
    bench.port.apply(desired(CHAT))
    bench.after(HOUR_S)
    assert bench.seen("uid-s").requests == 0
    bench.bind_whole("uid-s")
    bench.after(120.0)
    assert bench.seen("uid-s").ready == 2
    bench.after(HOUR_S)
    seen = bench.seen("uid-s")
    assert seen.requests is not None
    assert seen.requests_good is not None
    assert 0.3 * 10 * HOUR_S < seen.requests < 2.0 * 10 * HOUR_S
    assert 0.95 * seen.requests < seen.requests_good <= seen.requests


def test_a_day_brings_about_the_mean_rate() -> None:
    rates = [rate_at(CHAT, START_S + step * 300.0, 1) for step in range(7 * 288)]
    assert sum(rates) / len(rates) == pytest.approx(10.0, rel=0.1)
    assert min(rates) < 6.0 < 13.0 < max(rates)


def test_the_night_is_quieter_than_the_afternoon() -> None:
    # START_S is a Monday, 09:00 where the users live.
    assert rate_at(CHAT, START_S + 6 * HOUR_S, 1) > 1.5 * rate_at(CHAT, START_S + 19 * HOUR_S, 1)


def test_without_a_ready_replica_every_request_is_a_bad_one() -> None:
    bench = Bench(pool("big", "big"))
    bench.port.apply(desired(CHAT))
    bench.bind_whole("uid-s")
    bench.after(HOUR_S)
    before = bench.seen("uid-s")
    bench.port.apply(desired(CHAT, generation=2, pool="big", replicas=2))
    bench.port.apply(desired(replace(CHAT, rate_per_s=10.0), generation=3, pool="big", replicas=2))
    moved = replace(
        desired(CHAT, generation=4), placement=replace(desired(CHAT, generation=4).placement, class_name="x")
    )
    bench.port.apply(moved)
    bench.after(HOUR_S)
    seen = bench.seen("uid-s")
    assert seen.ready == 0
    assert seen.requests is not None
    assert seen.requests > (before.requests or 0) > 0
    assert seen.requests_good == before.requests_good


@given(rate=st.floats(0.1, 100.0), ready=st.integers(1, 12), speed=st.floats(0.2, 4.0))
def test_more_replicas_and_faster_ones_never_answer_worse(rate: float, ready: int, speed: float) -> None:
    here = good_part(CHAT, rate, ready, speed)
    assert 0.0 <= here <= 1.0
    assert good_part(CHAT, rate, ready + 1, speed) >= here - 1e-12
    assert good_part(CHAT, rate, ready, speed * 1.5) >= here - 1e-12
    assert good_part(CHAT, rate * 1.5, ready, speed) <= here + 1e-12


def test_a_share_serves_as_fast_on_a_slower_class_because_it_gets_more_of_it() -> None:
    shared = replace(CHAT, demand=fraction().demand)
    assert good_part(shared, 12.0, 2, 0.5) == good_part(shared, 12.0, 2, 1.0)
    assert good_part(CHAT, 12.0, 2, 0.5) < good_part(CHAT, 12.0, 2, 1.0)


def test_without_a_latency_target_every_answer_is_good() -> None:
    free = replace(CHAT, slo=Slo())
    assert good_part(free, 10.0, 2, 1.0) == 1.0
    assert good_part(free, 52.0, 2, 1.0) == pytest.approx(0.5)


def test_counters_grow_by_whole_days_without_a_look() -> None:
    bench = Bench(pool("big", "big"))
    bench.port.apply(desired(CHAT))
    bench.bind_whole("uid-s")
    bench.after(2 * DAY_S)
    assert bench.seen("uid-s").requests == pytest.approx(2 * DAY_S * 10, rel=0.2)


def test_a_queue_stands_where_more_come_than_are_answered_until_people_hang_up() -> None:
    """Two replicas carry 26 a second. With 36 ten more wait each second; nobody waits for ten times its target."""
    bound = 36.0 * 10 * (CHAT.slo.latency_p95_ms or 0.0) / 1000
    assert queue_after(CHAT, 0.0, 36.0, 2, 1.0, 0.5) == pytest.approx(5.0)
    assert queue_after(CHAT, 3.0, 36.0, 2, 1.0, 0.5) == pytest.approx(8.0)
    assert queue_after(CHAT, 0.0, 36.0, 2, 1.0, HOUR_S) == pytest.approx(bound)
    assert queue_after(CHAT, 0.0, 36.0, 0, 1.0, HOUR_S) == pytest.approx(bound), "nobody is there to answer"


@given(rate=st.floats(0.1, 25.9), waiting=st.floats(0.0, 500.0), lasts_s=st.floats(0.1, 600.0))
def test_a_queue_is_worked_off_by_what_is_to_spare(rate: float, waiting: float, lasts_s: float) -> None:
    after = queue_after(CHAT, waiting, rate, 2, 1.0, lasts_s)
    usual = queue_after(CHAT, 0.0, rate, 2, 1.0, lasts_s)
    assert 0.0 <= usual <= after <= max(waiting, usual)
    assert queue_after(CHAT, waiting, rate, 3, 1.0, lasts_s) <= after + 1e-9
    assert queue_after(CHAT, waiting, rate, 2, 1.0, lasts_s + 500.0 / (26.0 - rate)) == pytest.approx(usual)


def test_every_request_is_answered_or_waits() -> None:
    bench = Bench(pool("big", "big"))
    bench.port.apply(desired(CHAT))
    bench.bind_whole("uid-s")
    bench.after(HOUR_S)
    before = bench.seen("uid-s")
    now_s = bench.clock.now()
    bench.port.surge("s", 3.6, now_s, now_s + HOUR_S)
    bench.after(HOUR_S)
    seen = bench.seen("uid-s")
    assert before.requests is not None
    assert seen.requests is not None
    assert seen.waiting
    assert seen.requests + seen.waiting - before.requests == pytest.approx(36.0 * HOUR_S, abs=2)
