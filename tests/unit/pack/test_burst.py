"""Burst: a trend grants, a single spike does not; slices go back in steps; no flapping."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.pack.burst import (
    Backlog,
    BurstSettings,
    BurstState,
    LatencySample,
    QueueSample,
    backlog,
    burst,
    instances,
    trend,
)


def rising(start: float, slope: float, until: int = 60) -> list[LatencySample]:
    return [LatencySample(float(t), start + slope * t) for t in range(0, until + 1, 10)]


def test_a_rising_trend_is_granted_before_the_target_is_passed() -> None:
    samples = rising(200.0, 3.0)
    assert samples[-1].latency_ms < 400.0
    assert burst(BurstState(), samples, 60.0, 400.0, elastic_free=8).extra >= 1


def test_a_single_spike_grants_nothing() -> None:
    samples = [LatencySample(float(t), 100.0) for t in range(0, 60, 10)]
    samples[3] = LatencySample(30.0, 900.0)
    assert burst(BurstState(), samples, 60.0, 400.0, elastic_free=8).extra == 0


def test_no_more_is_granted_than_the_elastic_share_has() -> None:
    assert burst(BurstState(), rising(300.0, 20.0), 60.0, 400.0, elastic_free=1).extra == 1
    assert burst(BurstState(), rising(300.0, 20.0), 60.0, 400.0, elastic_free=0) == BurstState()


def test_slices_go_back_one_at_a_time_and_only_after_calm() -> None:
    calm = [LatencySample(float(t), 100.0) for t in range(0, 1000, 10)]
    state = BurstState(extra=3, since_s=0.0)
    history = []
    for now in range(60, 1000, 30):
        state = burst(state, calm[: now // 10 + 1], float(now), 400.0, elastic_free=8)
        history.append(state.extra)
    assert history[0] == 3
    assert history[-1] == 0
    assert all(before - after in (0, 1) for before, after in pairwise(history))


def test_latency_that_hovers_around_the_threshold_does_not_flap() -> None:
    state = BurstState(extra=2, since_s=0.0)
    changes = 0
    samples: list[LatencySample] = []
    for now in range(0, 3600, 15):
        samples.append(LatencySample(float(now), 240.0 + (30.0 if (now // 15) % 2 else -30.0)))
        after = burst(state, samples, float(now), 400.0, elastic_free=8)
        changes += after.extra != state.extra
        state = after
    assert changes <= 2


def flat(latency_ms: float) -> list[LatencySample]:
    return [LatencySample(float(t), latency_ms) for t in range(0, 61, 10)]


def test_a_service_exactly_at_its_target_is_granted_nothing_and_one_above_it_is() -> None:
    assert burst(BurstState(), flat(400.0), 60.0, 400.0, elastic_free=8) == BurstState()
    assert burst(BurstState(), flat(401.0), 60.0, 400.0, elastic_free=8) == BurstState(1, 60.0)
    assert burst(BurstState(), flat(700.0), 60.0, 400.0, elastic_free=8) == BurstState(3, 60.0)
    assert burst(BurstState(), flat(9000.0), 60.0, 400.0, elastic_free=8) == BurstState(4, 60.0)


def test_a_step_back_is_taken_when_the_calm_time_is_full_and_starts_the_next() -> None:
    held = BurstState(2, since_s=0.0)
    calm = [LatencySample(at_s + 60.0, latency) for at_s, latency in flat(100.0)]
    assert burst(held, calm, 119.0, 400.0, elastic_free=8) == held
    assert burst(held, calm, 120.0, 400.0, elastic_free=8) == BurstState(1, 120.0)
    assert burst(BurstState(), calm, 120.0, 400.0, elastic_free=8) == BurstState()


def test_calm_is_below_a_part_of_the_target_and_not_rising() -> None:
    held = BurstState(2, since_s=-1000.0)
    assert burst(held, flat(240.0), 60.0, 400.0, elastic_free=8) == BurstState(1, 60.0)
    assert burst(held, flat(241.0), 60.0, 400.0, elastic_free=8) == BurstState(2, 60.0), "its calm time begins again"
    assert burst(held, rising(100.0, 1.4), 60.0, 400.0, elastic_free=8) == BurstState(2, 60.0)
    assert burst(held, flat(100.0)[:3], 60.0, 400.0, elastic_free=8) == held, "too few samples"


def test_the_trend_of_a_line_is_the_line() -> None:
    level, slope = trend(rising(100.0, 2.0), 60.0)
    assert (round(level, 6), round(slope, 6)) == (220.0, 2.0)


def test_only_samples_of_the_window_count_its_edges_included() -> None:
    settings = BurstSettings(window_s=30.0, least_samples=4, horizon_s=0.0)
    high = [LatencySample(at_s, 900.0) for at_s in (30.0, 40.0, 50.0, 60.0)]
    noise = [LatencySample(29.0, -9e9), LatencySample(61.0, -9e9)]
    assert burst(BurstState(), [*high, *noise], 60.0, 400.0, 8, settings) == BurstState(4, 60.0)
    assert burst(BurstState(), high[1:] + noise, 60.0, 400.0, 8, settings) == BurstState(), "three are too few"


def test_a_grant_is_a_quarter_of_the_target_for_each_slice_ahead_rounded_up() -> None:
    """Level 300 and 4 ms more each second: 420 in thirty seconds, a fifth of a quarter above 400."""
    line = [LatencySample(float(t), 300.0 + 4.0 * (t - 60)) for t in range(0, 61, 10)]
    assert burst(BurstState(2, 7.0), line, 60.0, 400.0, 8) == BurstState(3, 60.0)
    assert burst(BurstState(2, 7.0), line, 60.0, 420.0, 8) == BurstState(2, 60.0), "just reached is not passed"
    assert burst(BurstState(2, 7.0), line, 60.0, 330.0, 8) == BurstState(4, 60.0)
    assert burst(BurstState(2, 7.0), line, 60.0, 330.0, -3) == BurstState(2, 7.0)
    settings = BurstSettings(most_at_once=1)
    assert burst(BurstState(2, 7.0), line, 60.0, 330.0, 8, settings) == BurstState(3, 60.0)


def test_a_level_that_falls_back_under_the_target_by_itself_is_left_alone() -> None:
    falling = [LatencySample(float(t), 500.0 - 4.0 * (t - 60)) for t in range(0, 61, 10)]
    assert burst(BurstState(), falling, 60.0, 400.0, 8) == BurstState()
    assert burst(BurstState(), falling, 60.0, 379.0, 8) == BurstState(1, 60.0), "above the target now and then"


def test_calm_may_rise_by_a_tenth_of_the_target_within_the_horizon() -> None:
    def line(slope: float) -> list[LatencySample]:
        return [LatencySample(float(t), 100.0 + slope * (t - 60)) for t in range(0, 61, 10)]

    held = BurstState(3, -500.0)
    assert burst(held, line(1.0), 60.0, 300.0, 8) == BurstState(2, 60.0)
    assert burst(held, line(1.01), 60.0, 300.0, 8) == BurstState(3, 60.0)
    back = BurstSettings(step_back=5)
    assert burst(held, line(0.0), 60.0, 300.0, 8, back) == BurstState(0, 60.0)


def test_samples_of_one_moment_have_no_slope() -> None:
    assert trend([LatencySample(5.0, 10.0), LatencySample(5.0, 20.0)], 9.0) == (15.0, 0.0)
    uneven = [LatencySample(0.0, 1.0), LatencySample(1.0, 2.0), LatencySample(5.0, 0.0)]
    assert trend(uneven, 10.0) == pytest.approx((1 - 8 * 2 / 7, -2 / 7))


def test_instances_answer_what_comes_and_work_off_the_queue_in_time() -> None:
    assert instances(8.0, 2.0, 0, 30.0) == 4, "carried exactly needs no further one"
    assert instances(8.1, 2.0, 0, 30.0) == 5
    assert instances(8.0, 2.0, 120, 30.0) == 6, "four a second more for half a minute"
    assert instances(8.0, 2.0, 120, 60.0) == 5
    assert instances(0.0, 2.0, 0, 30.0) == instances(0.0, 2.0, -5, 30.0) == 1


def queue(*points: tuple[int, int], ready: int = 2) -> list[QueueSample]:
    """Samples ten seconds apart: how many wait, how many were answered since the one before."""
    return [QueueSample(10.0 * at, waiting, answered, 10.0 * ready) for at, (waiting, answered) in enumerate(points)]


def test_a_queue_that_stands_says_what_comes_what_a_replica_answers_and_how_long_the_last_waits() -> None:
    """Two replicas answer forty in ten seconds, sixty come: two a second for each, six a second in all."""
    found = backlog(queue((20, 0), (40, 40), (60, 40)), 20.0)
    assert found == Backlog(waiting=40, wait_s=10.0, rate_per_s=6.0, each_per_s=2.0, replicas=6)
    spare = BurstSettings(busy=1.0)
    assert backlog(queue((20, 0), (40, 40), (60, 40)), 20.0, spare) == found._replace(replicas=4)


def test_a_queue_seen_once_or_gone_by_now_is_none() -> None:
    assert backlog([], 0.0) is None
    assert backlog(queue((90, 0)), 0.0) is None
    assert backlog(queue((0, 0), (90, 40)), 10.0) is None, "it may be gone in a moment"
    assert backlog(queue((30, 0), (30, 40), (0, 70)), 20.0) is None
    assert backlog(queue((30, 0), (30, 40)), 80.0) is None, "long ago"


def test_a_queue_of_which_nobody_is_answered_has_no_size_that_would_help() -> None:
    assert backlog(queue((30, 0), (50, 0)), 10.0) is None
    assert backlog(queue((30, 0), (50, 5), ready=0), 10.0) is None


def test_only_times_with_a_queue_say_what_a_replica_can_answer() -> None:
    """Two idle minutes do not make it look slow."""
    idle = queue((0, 0), (0, 2), (0, 2), (20, 30), (20, 40))
    found = backlog(idle, 40.0)
    assert found is not None
    assert found.each_per_s == 2.0
    assert found.rate_per_s == 4.0


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=7),
    st.integers(1, 9),
    st.integers(1, 300),
)
def test_a_longer_queue_never_asks_for_fewer(points: list[tuple[int, int]], ready: int, more: int) -> None:
    def standing(extra: int) -> Backlog | None:
        return backlog(queue(*((w + extra if w else 0, a) for w, a in points), ready=ready), 10.0 * len(points) - 10)

    short, long = standing(0), standing(more)
    assert (short is None) == (long is None)
    if short is not None and long is not None:
        assert long.replicas >= short.replicas >= 1
        assert long.wait_s > short.wait_s
