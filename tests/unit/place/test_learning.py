"""The steps of the learned weights to the last digit, and which setting the bandit plays next."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dure.model.weights import Weights
from dure.place.adapt import Window, adapted, congestion_at, hour_key
from dure.place.bandit import ARMS, Bandit, Score, choose, context_of, learned
from tests.unit.place.worlds import NOW_S

HOUR_S = 3600.0
# Of the default rule: gain, leak, gains of a price and of an hour, wished-for use.
GAIN, KEPT, PRICE_GAIN, HOUR_GAIN, USE = 0.1, 0.95, 0.02, 0.01, 0.95


def test_a_weight_keeps_most_of_its_logarithm_and_moves_by_the_relative_error() -> None:
    found = adapted(Weights(slo=2.0, locality=1.5), Window({}, missed=0.03, reused=0.25))
    assert found.slo == pytest.approx(2.0**KEPT * math.exp(GAIN * 0.5))
    assert found.locality == pytest.approx(1.5**KEPT * math.exp(-GAIN * 0.5))


def test_the_error_of_one_window_counts_once_at_most() -> None:
    assert adapted(Weights(slo=2.0), Window({}, missed=1.0)).slo == pytest.approx(2.0**KEPT * math.exp(GAIN))
    assert adapted(Weights(slo=2.0), Window({}, missed=0.0)).slo == pytest.approx(2.0**KEPT * math.exp(-GAIN))
    both = adapted(Weights(slo=2.0, locality=2.0), Window({}))
    assert [both.slo, both.locality] == pytest.approx([2.0**KEPT] * 2), "nothing happened: only the leak"


def test_prices_of_classes_move_with_their_use_around_the_mean_of_one() -> None:
    found = adapted(Weights(congestion={"a/x": 1.05}), Window({"a/x": USE, "b/x": USE / 2}))
    moved = {"a/x": 1.05**KEPT, "b/x": math.exp(-PRICE_GAIN / 2)}
    mean = math.sqrt(moved["a/x"] * moved["b/x"])
    assert found.congestion == pytest.approx({key: price / mean for key, price in moved.items()})


def test_only_the_hour_of_the_window_moves_and_the_day_keeps_its_mean() -> None:
    found = adapted(Weights(), Window({"a/x": USE / 2}, hour=9)).congestion
    step = -HOUR_GAIN / 2
    assert len(found) == 25
    assert found[hour_key("a/x", 9)] == pytest.approx(math.exp(step * 23 / 24))
    assert found[hour_key("a/x", 8)] == found[hour_key("a/x", 10)] == pytest.approx(math.exp(-step / 24))
    again = adapted(Weights(congestion=found), Window({"a/x": USE})).congestion
    assert again == pytest.approx(found), "a window of no hour leaves the day as it was"
    assert set(adapted(Weights(), Window({"a/x": USE})).congestion) == {"a/x"}


def test_the_price_of_a_start_is_that_of_its_class_and_hour() -> None:
    weights = Weights(congestion={"a/x": 1.1, "a/x@00": 0.98, "a/x@01": 1.02, "b/x@01": 1.01})
    starts = np.array([NOW_S, NOW_S + HOUR_S - 1, NOW_S + 25 * HOUR_S, NOW_S + 2 * HOUR_S])
    assert np.asarray(congestion_at(weights, "a/x", starts)).tolist() == pytest.approx(
        [1.1 * 0.98, 1.1 * 0.98, 1.1 * 1.02, 1.1]
    )
    assert np.asarray(congestion_at(weights, "b/x", starts)).tolist() == pytest.approx([1.0, 1.0, 1.01, 1.0])
    assert congestion_at(weights, "c/x", starts) == 1.0
    assert congestion_at(Weights(), "a/x", starts) == 1.0
    assert (hour_key("a/x", 9), hour_key("a/x", 25)) == ("a/x@09", "a/x@01")


@pytest.mark.parametrize(
    ("use", "context"),
    [
        ({}, "low"),
        ({"a": 0.39}, "low"),
        ({"a": 0.4}, "middle"),
        ({"a": 0.8}, "middle"),
        ({"a": 0.81}, "high"),
        ({"a": 1.0, "b": 0.2}, "middle"),
    ],
)
def test_the_load_of_the_fleet_is_the_mean_use_of_its_pools(use: dict[str, float], context: str) -> None:
    assert context_of(Window(use)) == context


@pytest.mark.parametrize(
    ("scores", "arm"),
    [
        ((Score(4, 1.0), Score(9, 0.1)), 0),  # the rule has not been measured yet
        ((Score(5, 1.0), Score(0)), 1),  # what was never played is taken for the rule, with the widest doubt
        ((Score(10, 1.0), Score(5, 1.02)), 1),  # 1.02 - 0.074 against 1 - 0.052
        ((Score(10, 1.0), Score(5, 1.021)), 0),  # beyond the margin after the warm-up: not again
        ((Score(10, 1.0), Score(4, 1.029)), 1),  # beyond the margin, but not known well enough
        ((Score(10, 1.0), Score(4, 1.035)), 0),
        ((Score(5, 1.0), Score(5, 1.0)), 0),  # ties go to the lower arm
        ((Score(10, 2.0), Score(5, 2.04)), 1),  # all of it scales with the cost of the rule
        ((Score(10, 2.0), Score(5, 2.042)), 0),
    ],
)
def test_the_arm_with_the_lowest_bound_is_played_unless_it_is_known_to_be_worse(
    scores: tuple[Score, ...], arm: int
) -> None:
    assert choose(scores) == arm


def test_a_cost_is_booked_where_it_was_made() -> None:
    known = tuple(Score(2, 3.0) for _ in ARMS)
    bandit = Bandit(scores={"low": known}, played=3, context="low")
    after, _ = learned(bandit, Window({"a/x": 0.5}), 6.0)
    assert after.scores["low"] == (*known[:3], Score(3, 4.0), *known[4:])
    assert (after.context, after.played) == ("middle", 0)
    fresh, _ = learned(Bandit(), Window({"a/x": 0.9}), 5.0)
    assert fresh.scores == {"middle": (Score(1, 5.0), *(Score(),) * (len(ARMS) - 1))}
    idle, _ = learned(bandit, Window({}), None)
    assert (idle.scores, idle.context) == ({"low": known}, "low")


@pytest.mark.parametrize("arm", range(len(ARMS)))
def test_an_arm_turns_what_the_rule_says_inside_the_clamps(arm: int) -> None:
    scores = tuple(Score(50, 1.0 if number != arm else 0.5) for number in range(len(ARMS)))
    rule = Weights(slo=1.2, locality=1.1, congestion={"a/x": 1.04, "b/x": 0.97})
    after, found = learned(Bandit({"middle": scores}, rule), Window({"a/x": 0.7, "b/x": 0.3}, hour=4), None)
    ruled, setting = after.rule_weights, ARMS[arm]
    assert after.played == arm
    assert ruled == adapted(rule, Window({"a/x": 0.7, "b/x": 0.3}, hour=4))
    assert found.slo == pytest.approx(ruled.slo * setting.slo)
    assert found.locality == pytest.approx(ruled.locality * setting.locality)
    for key, price in ruled.congestion.items():
        assert found.congestion[key] == pytest.approx(price if "@" in key else price**setting.congestion)


def test_no_arm_leaves_the_clamps() -> None:
    rule = Weights(slo=3.9, locality=1.9, congestion={"a/x": 1.099, "b/x": 0.91})
    for arm, (slo, locality) in {1: (4.0, None), 2: (None, 2.0), 4: (None, None)}.items():
        scores = tuple(Score(50, 1.0 if number != arm else 0.5) for number in range(len(ARMS)))
        _, found = learned(Bandit({"middle": scores}, rule), Window({"a/x": 0.9, "b/x": 0.1}), None)
        assert slo is None or found.slo == slo
        assert locality is None or found.locality == locality
        assert 0.9 <= found.congestion["b/x"] < found.congestion["a/x"] <= 1.1
