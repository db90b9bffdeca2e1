"""The weights converge, do not swing, and come back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.model.weights import Weights
from dure.place.adapt import DEFAULT, Window, adapted, congestion_at, hour_key
from dure.place.bandit import ARMS, CAUTIOUS, Bandit, Score, choose, learned
from dure.place.learn import Learning, Memory, learn
from tests.unit.place.worlds import NOW_S


def after(weights: Weights, windows: list[Window]) -> list[Weights]:
    seen = []
    for window in windows:
        weights = adapted(weights, window)
        seen.append(weights)
    return seen


def test_a_crowded_pool_becomes_dearer_than_an_idle_one_and_the_price_converges() -> None:
    seen = after(Weights(), [Window({"a/x": 1.0, "b/x": 0.4})] * 200)
    assert seen[-1].congestion["a/x"] > 1 > seen[-1].congestion["b/x"]
    assert abs(seen[-1].congestion["a/x"] - seen[-2].congestion["a/x"]) < 1e-6


def test_misses_raise_the_slo_weight_up_to_its_clamp_and_no_further() -> None:
    seen = after(Weights(), [Window({}, missed=0.5)] * 400)
    assert 1 < seen[5].slo < seen[20].slo <= DEFAULT.slo_high
    assert seen[-1].slo == seen[-2].slo


def test_a_square_wave_of_load_does_not_build_up() -> None:
    wave = ([Window({"a/x": 1.0, "b/x": 0.6})] * 6 + [Window({"a/x": 0.6, "b/x": 1.0})] * 6) * 40
    prices = [one.congestion["a/x"] for one in after(Weights(), wave)]
    early, late = prices[24:120], prices[-96:]
    assert max(late) - min(late) <= (max(early) - min(early)) * 1.01
    assert max(late) < DEFAULT.price_high
    assert min(late) > DEFAULT.price_low


def test_weights_recover_after_a_burst_as_fast_as_they_rose() -> None:
    up = after(Weights(), [Window({}, missed=1.0)] * 10)
    down = after(up[-1], [Window({}, missed=0.0)] * 10)
    assert up[-1].slo > 1.5
    assert down[-1].slo == 1.0


def test_without_news_every_weight_leaks_back_to_one() -> None:
    start = Weights(slo=4.0, locality=0.5)
    last = after(start, [Window({}, None, None)] * 200)[-1]
    assert abs(last.slo - 1) < 0.01
    assert abs(last.locality - 1) < 0.01


def test_locality_follows_the_observed_reuse() -> None:
    often = after(Weights(), [Window({}, reused=0.9)] * 20)[-1]
    never = after(Weights(), [Window({}, reused=0.0)] * 20)[-1]
    assert often.locality > 1 > never.locality


def test_a_calm_fleet_never_holds_a_promise_cheaper_than_its_penalty() -> None:
    assert after(Weights(), [Window({}, missed=0.0)] * 100)[-1].slo == 1.0


DAY = [Window({"a/x": 1.0 if hour in (9, 10) else 0.5, "b/x": 0.5}, hour=hour) for hour in range(24)]


def test_the_crowded_hours_of_a_day_become_dearer_and_the_empty_ones_cheaper() -> None:
    last = after(Weights(), DAY * 20)[-1]
    crowded, empty = last.congestion[hour_key("a/x", 9)], last.congestion[hour_key("a/x", 3)]
    assert crowded > 1 > empty
    assert DEFAULT.hour_low <= empty
    assert crowded <= DEFAULT.hour_high


def test_a_pool_that_is_always_full_never_makes_a_later_hour_look_better() -> None:
    always = [Window({"a/x": 1.0, "b/x": 0.2}, hour=hour) for hour in range(24)] * 10
    last = after(Weights(), always)[-1]
    starts = np.arange(NOW_S, NOW_S + 24 * 3600.0, 3600.0, dtype=np.float64)
    prices = congestion_at(last, "a/x", starts)
    assert np.ptp(prices) < 0.02
    assert np.all(prices > congestion_at(last, "b/x", starts))


def test_the_day_goes_on_where_it_was_when_its_shape_turns_round() -> None:
    learnt = after(Weights(), DAY * 20)[-1]
    turned = [Window({"a/x": 1.0 if hour == 3 else 0.5, "b/x": 0.5}, hour=hour) for hour in range(24)]
    last = after(learnt, turned * 30)[-1]
    once, now = hour_key("a/x", 9), hour_key("a/x", 3)
    assert last.congestion[now] > 1.01
    assert last.congestion[once] - 1 < (learnt.congestion[once] - 1) / 3


def test_prices_of_a_class_that_is_gone_are_forgotten() -> None:
    learnt = after(Weights(), DAY * 2)[-1]
    last = adapted(learnt, Window({"b/x": 0.5}, hour=1))
    assert {key.partition("@")[0] for key in last.congestion} == {"b/x"}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=60))
def test_whatever_is_seen_every_weight_stays_inside_its_clamps(seen: list[tuple[float, float, float, float]]) -> None:
    windows = [Window({"a/x": a, "b/x": b}, missed, reused, n % 24) for n, (a, b, missed, reused) in enumerate(seen)]
    for weights in after(Weights(), windows):
        assert DEFAULT.slo_low <= weights.slo <= DEFAULT.slo_high
        assert DEFAULT.locality_low <= weights.locality <= DEFAULT.locality_high
        for key, price in weights.congestion.items():
            hour = "@" in key
            assert (DEFAULT.hour_low if hour else DEFAULT.price_low) <= price
            assert price <= (DEFAULT.hour_high if hour else DEFAULT.price_high)


def test_all_ways_of_learning_share_one_interface_and_off_is_neutral() -> None:
    full = Window({"a/x": 1.0, "b/x": 0.2}, missed=0.5, hour=3)
    ruled = learn(Learning.RULE, Memory(), full, 1.0)
    bandit = learn(Learning.BANDIT, Memory(), full, 1.0)
    assert ruled.weights == bandit.weights
    assert ruled.weights.slo > 1
    assert learn(Learning.OFF, ruled, full, 1.0) == Memory()


def test_a_bandit_that_is_switched_on_later_goes_on_from_the_weights_of_the_rule() -> None:
    memory = Memory()
    for _ in range(2):
        memory = learn(Learning.RULE, memory, Window({}, missed=0.5), 1.0)
    assert learn(Learning.BANDIT, memory, Window({}, missed=0.5), 1.0).weights.slo > memory.weights.slo


def test_the_bandit_plays_the_rule_until_it_has_been_measured() -> None:
    assert choose((Score(),) * len(ARMS)) == 0


def test_the_bandit_drops_an_arm_that_is_worse_than_the_rule_and_keeps_a_better_one() -> None:
    true_cost = [1.0, 1.3, 1.2, 0.8, 1.25, 1.1]
    bandit, plays = Bandit(), [0] * len(ARMS)
    window = Window({"a/x": 0.6})
    for _ in range(600):
        cost = true_cost[bandit.played]
        bandit, _ = learned(bandit, window, cost)
        plays[bandit.played] += 1
    assert max(range(len(ARMS)), key=plays.__getitem__) == 3
    for arm in (1, 2, 4, 5):
        assert plays[arm] <= CAUTIOUS.warm_up + 1


def test_the_bandit_falls_back_to_the_rule_when_every_arm_is_worse() -> None:
    bandit = Bandit()
    for _ in range(300):
        bandit, _ = learned(bandit, Window({"a/x": 0.6}), 1.0 if bandit.played == 0 else 1.5)
    assert bandit.played == 0
