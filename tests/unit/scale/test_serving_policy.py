"""Dure's serving policy and its forecast: floors, holds, distrust, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dure.scale.demand import Seen, WorkModel
from dure.scale.forecast import Forecaster, ForecastSettings
from dure.scale.serving import ServingPolicy, ServingSettings
from dure.scale.signals import SIGNALS, fitting, query


def seen(arrivals: int, target: int, waiting: int = 0) -> Seen:
    return Seen(arrivals, arrivals * 1000, waiting, waiting * 1000.0, arrivals, arrivals * 200, target)


def play(policy: ServingPolicy, rates: list[int], target: int = 1) -> list[int]:
    counts = []
    for rate in rates:
        target = policy.step(seen(rate, target)).replicas
        counts.append(target)
    return counts


def test_more_arrivals_mean_more_replicas_and_fewer_mean_fewer_after_the_hold() -> None:
    settings = ServingSettings(boot_s=60.0, forecast=False, hold_s=60.0)
    counts = play(ServingPolicy(settings, WorkModel()), [10] * 20 + [100] * 20 + [10] * 40)
    assert counts[19] < counts[39]
    assert counts[45] == counts[39]
    assert counts[-1] == counts[19]


def test_a_spell_of_short_prompts_gives_no_replicas_back() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0, forecast=False), WorkModel())
    counts, target = [], 20
    for step in range(1440):
        prompt = 500 if 1080 <= step < 1260 else 1500
        target = policy.step(Seen(200, 200 * prompt, 0, 0.0, 200, 40_000, target)).replicas
        counts.append(target)
    assert min(counts[1080:]) >= counts[1079] - 2


def test_waiting_work_raises_the_wish() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=60.0, forecast=False), WorkModel())
    calm = policy.step(seen(10, 1)).replicas
    assert policy.step(seen(10, calm, waiting=500)).replicas > calm


def test_the_range_is_kept() -> None:
    settings = ServingSettings(boot_s=60.0, min_replicas=2, max_replicas=5, forecast=False)
    counts = play(ServingPolicy(settings, WorkModel()), [0] * 10 + [10_000] * 10, target=2)
    assert min(counts) == 2
    assert max(counts) == 5


def test_a_level_that_is_left_for_a_moment_is_provided_for_before_demand_comes_back() -> None:
    rates = ([100] * 60 + [40] * 24) * 12 + [100] * 60 + [40] * 24
    settings = ServingSettings(boot_s=150.0, hold_s=30.0, safety=1.0)
    with_floor = play(ServingPolicy(settings, WorkModel()), rates)
    without = play(ServingPolicy(ServingSettings(boot_s=150.0, hold_s=30.0, forecast=False), WorkModel()), rates)
    assert with_floor[-1] > without[-1]


def test_a_forecast_never_removes_replicas_that_demand_still_needs() -> None:
    rates = [int(200 - 0.2 * step) for step in range(700)]
    settings = ServingSettings(boot_s=150.0, hold_s=30.0, safety=0.0, load=1.0)
    policy = ServingPolicy(settings, WorkModel())
    target = 60
    for rate in rates:
        wish = policy.step(seen(rate, target))
        target = wish.replicas
        assert target >= math.floor(wish.demand)


def test_a_forecast_that_does_harm_switches_itself_off_and_says_so() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=60.0, distrust=0.0, trust=0.0), WorkModel())
    wishes, target = [], 10
    for step in range(400):
        wishes.append(policy.step(seen(50 + (step * 7919) % 40, target)))
        target = wishes[-1].replicas
    assert not wishes[-1].forecast_on
    assert any(wish.reason == "SteadyForecastOff" for wish in wishes)


def test_too_little_history_is_not_trusted() -> None:
    forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
    assert not forecaster.feed(10.0, 0.9).trusted


def test_a_service_that_begins_with_nothing_learns_nothing_from_its_first_request() -> None:
    for horizon_s in (3.0, 20.0, 150.0):
        forecaster = Forecaster(ForecastSettings(horizon_s))
        found = [forecaster.feed(4.0 if step > 100 else 0.0, 2.0) for step in range(400)]
        assert max(one.mean for one in found) < 20.0
        assert max(one.error for one in found) < 100.0


def test_more_safety_is_never_a_lower_floor_and_holds_more_often() -> None:
    rng = np.random.default_rng(7)
    series = 10 + 3 * np.sin(np.arange(1500) / 60) + rng.normal(0, 0.5, 1500)
    low, high = (Forecaster(ForecastSettings(horizon_s=100.0)) for _ in range(2))
    pairs = [(low.feed(float(v), 0.5), high.feed(float(v), 2.0)) for v in series]
    assert all(a.floor <= b.floor + 1e-9 for a, b in pairs)
    assert pairs[-1][0].held < pairs[-1][1].held


def test_deviations_that_do_not_last_are_not_expected_to_and_lasting_ones_are() -> None:
    rng = np.random.default_rng(3)
    noise = [float(v) for v in np.repeat(rng.uniform(5.0, 15.0, 400), 6)]
    slow = [float(v) for v in 10 + 4 * np.sin(np.arange(2400) / 150)]
    for series, lasts in ((noise, False), (slow, True)):
        forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
        for value in series[:-1]:
            forecaster.feed(value, 0.0)
        last = forecaster.feed(series[-1] * 1.5, 0.0)
        level = forecaster.said[-1].level
        now = float(forecaster.said[-1].means[-1])
        assert (abs(last.followed - level) > 0.5 * abs(now - level)) == lasts
        assert (last.lasts > 0.5) == lasts


def test_under_noise_that_does_not_last_a_rise_is_seen() -> None:
    rng = np.random.default_rng(5)
    noise = np.repeat(rng.uniform(0.5, 1.5, 500), 6)
    series = noise * np.geomspace(5.0, 200.0, 3000)
    forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
    forecasts = [forecaster.feed(float(value), 1.0) for value in series]
    assert forecasts[-1].mean > 1.1 * forecaster.said[-1].level


def test_where_loud_minutes_take_turns_with_quiet_ones_both_are_provided_for_all_along() -> None:
    """Five loud minutes after five quiet ones: a replica asked for in one is ready in the other."""
    series = ([5.0] * 60 + [15.0] * 60) * 30
    forecaster = Forecaster(ForecastSettings(horizon_s=300.0))
    found = [forecaster.feed(value, 1.0) for value in series][-120:]
    assert all(abs(one.mean - 10.0) < 0.5 and one.lasts == 0.0 for one in found)
    assert all(14.0 < one.floor <= 15.0 for one in found)


def test_a_loud_quarter_of_an_hour_raises_the_floor_and_is_not_forgotten_after_it() -> None:
    rng = np.random.default_rng(13)
    calm, loud = (np.repeat(rng.uniform(5.0, high, count), 6).tolist() for high, count in ((8.0, 480), (25.0, 30)))
    forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
    before, during, after = ([forecaster.feed(value, 1.5) for value in part][-1] for part in (calm, loud, calm[:360]))
    assert during.floor > 1.5 * before.floor
    assert 1.1 * before.floor < after.floor < 0.8 * during.floor


def test_in_a_surge_as_high_as_the_last_ones_no_second_one_on_top_is_provided_for() -> None:
    rng = np.random.default_rng(11)
    series = [float(v) for _ in range(6) for v in (*rng.uniform(9.0, 11.0, 660), *rng.uniform(48.0, 52.0, 60))]
    forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
    found = [forecaster.feed(value, 6.0) for value in series]
    assert all(one.floor <= max(forecaster.highest.value, one.mean) + 1e-9 for one in found[720:])
    assert found[-61].floor > 2.0 * found[-61].mean, "before it there is a margin"


def test_needs_are_remembered_longer_where_bursts_come_again() -> None:
    settings = ServingSettings(boot_s=140.0)
    assert settings.held_s(0.0) == 280.0
    assert settings.held_s(1.0) == 150.0
    assert settings.held_s(None) == 280.0


def test_after_a_day_the_hours_of_yesterday_speak_where_they_help() -> None:
    day = [10.0] * 700 + [60.0] * 20
    forecaster = Forecaster(ForecastSettings(horizon_s=50.0, day_s=3600.0, level_s=600.0, season_s=50.0))
    found = [forecaster.feed(value, 1.0) for value in day * 8]
    assert found[-1].law == "yesterday"
    assert found[-720 + 692].mean > 1.5 * found[-720 + 600].mean, "ahead of the peak"


def test_same_input_gives_the_same_wishes() -> None:
    rates = [30 + (step * 31) % 17 for step in range(300)]
    first, second = (play(ServingPolicy(ServingSettings(boot_s=60.0), WorkModel()), rates) for _ in range(2))
    assert first == second


def test_a_signal_that_saturates_early_is_called_useless() -> None:
    load = np.linspace(0.05, 1.0, 200)
    recorded = {"utilization": 1 - np.exp(-load * 12), "cache": load**1.5, "clock": np.ones(200)}
    fits = {fit.signal: fit for fit in fitting(load, recorded, 1.0)}
    assert fits["utilization"].verdict == "saturates below half load"
    assert fits["cache"].verdict == "follows load"
    assert fits["clock"].verdict == "does not move"


def test_what_a_signal_does_under_overload_does_not_count() -> None:
    load = np.linspace(0.05, 2.0, 400)
    recorded = {"utilization": np.minimum(load / 0.6, 1.0), "waiting": np.maximum(load - 0.6, 0.0) * 100.0}
    first, second = fitting(load, recorded, 0.55)
    assert (first.signal, first.verdict) == ("utilization", "follows load")
    assert (second.signal, second.verdict) == ("waiting", "does not move")


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_every_signal_has_a_query_for_exactly_its_pods(name: str) -> None:
    text = query(SIGNALS[name], "search", "chat-7b", "3g.20gb")
    assert 'namespace="search"' in text
    assert 'pod=~"chat-7b-[a-z0-9]+-[a-z0-9]+"' in text
    assert 'GPU_I_PROFILE="3g.20gb"' in text


def swinging(period: int, count: int) -> list[int]:
    return [int(60 + 50 * math.sin(2 * math.pi * step / period)) for step in range(count)]


def test_demand_that_swings_faster_than_a_boot_is_not_followed() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0), WorkModel())
    counts = play(policy, swinging(60, 1440))
    assert max(counts[-120:]) - min(counts[-120:]) <= 1


def test_demand_that_swings_slower_than_a_boot_is_followed() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=20.0), WorkModel())
    counts = play(policy, swinging(240, 720))
    assert max(counts[-240:]) - min(counts[-240:]) > 6


def test_a_kept_level_still_gives_way_to_a_backlog() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0), WorkModel())
    counts = play(policy, swinging(60, 1440))
    assert policy.step(seen(60, counts[-1], waiting=5000)).replicas > 1.5 * counts[-1]


def test_without_its_forecast_demand_keeps_the_margin_of_as_now() -> None:
    rates = [60 + (step * 7919) % 40 for step in range(500)]
    off = ServingSettings(boot_s=60.0, distrust=0.0, trust=0.0)
    guarded, bare = ServingPolicy(off, WorkModel()), ServingPolicy(ServingSettings(60.0, forecast=False), WorkModel())
    counts, plain = play(guarded, rates), play(bare, rates)
    assert not guarded.forecast_on
    assert sum(counts[-100:]) > sum(plain[-100:])


def test_a_surge_of_every_day_is_provided_for_before_it_comes_even_where_as_now_is_else_the_best() -> None:
    """Pre-warming: smooth demand that doubles at the same hour of each day; on the third the floor is there first."""
    policy = ServingPolicy(ServingSettings(300.0, load=1.0, safety=1.0, step_s=60.0), WorkModel(0.0, 0.0, 1.0))
    target, before = 5, []
    for minute in range(3 * 1440):
        rush = 720 <= minute % 1440 < 840
        rate = (4.0 + math.sin(minute / 229.0)) * (2.2 if rush else 1.0)
        wish = policy.step(Seen(round(rate * 60.0), 0, 0, 0.0, 0, 0, target))
        target = wish.replicas
        if minute % 1440 == 719:
            before.append((target, wish.demand))
    (first, demand), _, (third, same) = before
    assert third >= first + 2, f"replicas a minute before each surge: {before}"
    assert same == pytest.approx(demand, abs=2.0), "demand itself says nothing of it"
