"""The weights converge, do not swing, and come back."""

from __future__ import annotations

from dure.model.snapshot import Weights
from dure.place.adapt import DEFAULT, Window, adapted
from dure.place.bandit import ARMS, CAUTIOUS, Bandit, Score, choose, learned


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
    assert 1 < seen[5].slo < seen[20].slo <= DEFAULT.high
    assert seen[-1].slo == seen[-2].slo


def test_a_square_wave_of_load_does_not_build_up() -> None:
    wave = ([Window({"a/x": 1.0, "b/x": 0.6})] * 6 + [Window({"a/x": 0.6, "b/x": 1.0})] * 6) * 40
    prices = [one.congestion["a/x"] for one in after(Weights(), wave)]
    early, late = prices[24:120], prices[-96:]
    assert max(late) - min(late) <= (max(early) - min(early)) * 1.01
    assert max(late) < DEFAULT.high
    assert min(late) > DEFAULT.low


def test_weights_recover_after_a_burst_as_fast_as_they_rose() -> None:
    up = after(Weights(), [Window({}, missed=1.0)] * 10)
    down = after(up[-1], [Window({}, missed=0.0)] * 10)
    assert up[-1].slo > 1.5
    assert down[-1].slo <= 1.0


def test_without_news_every_weight_leaks_back_to_one() -> None:
    start = Weights(slo=4.0, locality=0.25)
    last = after(start, [Window({}, None, None)] * 200)[-1]
    assert abs(last.slo - 1) < 0.01
    assert abs(last.locality - 1) < 0.01


def test_locality_follows_the_observed_reuse() -> None:
    often = after(Weights(), [Window({}, reused=0.9)] * 20)[-1]
    never = after(Weights(), [Window({}, reused=0.0)] * 20)[-1]
    assert often.locality > 1 > never.locality


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
