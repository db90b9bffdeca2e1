"""Drift of Dure's own predictions: bias, spread, and the moment at which they stopped coming true."""

from __future__ import annotations

import numpy as np

from dure.watch.drift import Pair, drift


def pairs(ratios: list[float], group: str = "chat on h100") -> list[Pair]:
    return [Pair(float(index), group, 100.0, 100.0 * ratio) for index, ratio in enumerate(ratios)]


def test_predictions_that_come_true_have_no_bias() -> None:
    (found,) = drift("duration", pairs([1.0] * 20))
    assert (found.bias, found.error, found.within_20, found.since_s) == (0.0, 0.0, 1.0, None)


def test_twice_as_long_is_a_bias_of_one() -> None:
    (found,) = drift("duration", pairs([2.0] * 20))
    assert abs(found.bias - 1) < 1e-9
    assert found.within_20 == 0.0


def test_a_change_is_dated_and_the_new_bias_told() -> None:
    rng = np.random.default_rng(3)
    ratios = [float(np.exp(0.05 * rng.normal() + (0.3 if index >= 40 else 0.0))) for index in range(60)]
    (found,) = drift("duration", pairs(ratios))
    assert found.since_s is not None
    assert 36 <= found.since_s <= 43
    assert found.now is not None
    assert 0.2 < found.now < 0.5


def test_one_wild_value_is_no_drift() -> None:
    (found,) = drift("duration", pairs([1.0, 1.01] * 15 + [9.0] + [1.0] * 10))
    assert found.since_s is None


def test_groups_are_told_apart_the_furthest_off_first() -> None:
    found = drift("cost", [*pairs([1.1] * 9, "a"), *pairs([0.5] * 9, "b")])
    assert [one.group for one in found] == ["b", "a"]


def test_what_was_never_predicted_is_left_out() -> None:
    assert drift("cost", [Pair(0.0, "a", 0.0, 5.0), Pair(0.0, "a", 5.0, 0.0)]) == ()
