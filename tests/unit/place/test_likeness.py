"""Parts of normal scores that neighbours share: learned from what they did, drawn so that each stays normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.place.likeness import SCALES, Likeness, likeness, scores_beyond, scores_of


def tied_by_hand(scores: list[float]) -> list[float]:
    """Mean products of pairs that share a block of each size and no smaller, five blocks of a half among them."""
    found = []
    for scale in SCALES:
        mine = [
            scores[i] * scores[j]
            for i in range(len(scores))
            for j in range(i)
            if i // scale == j // scale and i // (scale // 8) != j // (scale // 8)
        ]
        whole = scale * (scale - scale // 8) / 2
        found.append((sum(mine) / whole + 2.5) / (len(mine) / whole + 5.0))
    return found


@settings(max_examples=40)
@given(st.lists(st.floats(-3.5, 3.5), max_size=150))
def test_what_is_shared_is_the_mean_product_of_pairs_in_blocks(scores: list[float]) -> None:
    total = max(1.0, (sum(one * one for one in scores) + 5.0) / (len(scores) + 5.0))
    tied = np.minimum.accumulate([min(max(one, 0.0), 0.98 * total) for one in tied_by_hand(scores)])
    found = likeness(np.zeros(len(scores), np.int64), np.array(scores, np.float64))
    assert found.own == pytest.approx(total - tied[0])
    assert np.cumsum(found.shared[::-1])[::-1] == pytest.approx(tied)


def test_groups_are_judged_each_by_itself() -> None:
    turns = np.tile([1.0, -1.0], 64)
    together = likeness(np.zeros(128, np.int64), turns)
    apart = likeness(np.tile([0, 1], 64), turns)
    assert sum(together.shared) < 0.2, "one after another they differ"
    assert sum(apart.shared) > 0.8, "each group is of one kind"


@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_each_toll_is_exponential_however_much_is_shared(seed: int, one: float, two: float, three: float) -> None:
    parts = np.array([0.1, one, two, three])
    own, *shared = (parts / parts.sum()).tolist()
    alone = Likeness(own, tuple(shared)).tolls(4000, 1, np.random.default_rng(seed))[:, 0]
    assert alone.mean() == pytest.approx(1.0, abs=0.12)
    assert np.median(alone) == pytest.approx(math.log(2), abs=0.1)


def test_neighbours_share_and_those_far_apart_do_not() -> None:
    tolls = Likeness(0.1, (0.3, 0.6, 0.0)).tolls(6000, 72, np.random.default_rng(1))
    assert tolls.shape == (6000, 72)
    ties = [np.corrcoef(scores_of(tolls[:, 0]), scores_of(tolls[:, other]))[0, 1] for other in (7, 8, 63, 64)]
    assert ties == pytest.approx([0.9, 0.6, 0.6, 0.0], abs=0.05)
    assert Likeness(1.0, (0.0, 0.0, 0.0)).tolls(5, 0, np.random.default_rng(1)).shape == (5, 0)


def test_a_score_is_normal_and_who_still_runs_has_the_mean_of_what_may_come() -> None:
    paid = -np.log(np.array([0.95, 0.5, 0.05, 1e-12]))
    assert scores_of(paid) == pytest.approx([-1.645, 0.0, 1.645, 3.5], abs=0.01)
    drawn = np.random.default_rng(2).standard_normal(200_000)
    for least, beyond in zip(scores_of(paid)[:3], scores_beyond(paid[:3]), strict=True):
        assert beyond == pytest.approx(drawn[drawn > least].mean(), abs=0.02)
