"""The regression that learns as it goes."""

from __future__ import annotations

import numpy as np
import pytest

from dure.scale.regression import Regression


def test_before_it_has_seen_anything_it_says_what_was_guessed() -> None:
    assert Regression((0.5, -1.0), 3600.0).expected(np.array([2.0, 1.0])) == pytest.approx(0.0)


def test_what_always_follows_is_learnt_and_what_is_long_ago_forgotten() -> None:
    rng = np.random.default_rng(1)
    learner = Regression((0.0, 0.0), 3600.0)
    for weights in ((2.0, -1.0), (-1.0, 3.0)):
        for features in rng.normal(0.0, 1.0, (5000, 2)):
            learner.learn(features, float(features @ weights), 5.0)
        assert learner.expected(np.array([1.0, 0.0])) == pytest.approx(weights[0], abs=0.05)
        assert learner.expected(np.array([0.0, 1.0])) == pytest.approx(weights[1], abs=0.05)


def test_time_counts_and_not_samples() -> None:
    often, seldom = Regression((0.0,), 3600.0), Regression((0.0,), 3600.0)
    one = np.array([1.0])
    for _ in range(100):
        often.learn(one, 1.0, 1.0)
    seldom.learn(one, 1.0, 100.0)
    assert often.expected(one) == pytest.approx(seldom.expected(one), abs=0.01)
