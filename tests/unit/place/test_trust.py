"""How far estimates are trusted: a line through each group, five observations of the prior among them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.place.trust import Past, Trust, trust_in

SEEN = st.builds(Past, st.sampled_from("ab"), st.floats(1e-3, 1e3), st.floats(1.0, 1e6), st.floats(0.0, 1e6))


def slope_by_hand(seen: list[Past]) -> float:
    above, below = 5.0, 5.0
    for group in "ab":
        said = [math.log(one.estimate_s) for one in seen if one.group == group]
        took = [math.log(one.estimate_s * one.ratio) for one in seen if one.group == group]
        for one, other in zip(said, took, strict=True):
            off = one - sum(said) / len(said)
            above += off * (other - sum(took) / len(took))
            below += off * off
    return min(1.0, max(0.0, above / below))


@given(st.lists(SEEN, max_size=30))
def test_the_slope_is_that_of_least_squares_within_groups(seen: list[Past]) -> None:
    assert trust_in(seen).slope == pytest.approx(slope_by_hand(seen), abs=1e-6)


@given(st.lists(SEEN, max_size=30), st.floats(1.0, 1e6))
def test_what_is_held_against_the_corrected_estimate_took_as_long_as_it_took(seen: list[Past], said_s: float) -> None:
    trust = trust_in(seen)
    for one in seen:
        held = trust.held_against(one)
        corrected_s = trust.corrected(one.group, one.estimate_s)
        assert held.ratio * corrected_s == pytest.approx(one.ratio * one.estimate_s)
    assert trust.corrected("nobody", said_s) == said_s


def test_an_estimate_is_drawn_to_the_middle_of_its_group_as_far_as_it_is_not_trusted() -> None:
    trust = Trust({"a": math.log(100.0)}, 0.5)
    assert trust.corrected("a", 10_000.0) == pytest.approx(1000.0)
    assert trust.corrected("a", 1.0) == pytest.approx(10.0)
    assert trust.corrected("a", 0.0) == pytest.approx(10.0), "nothing takes less than a second"
    assert trust_in([]) == Trust({}, 1.0)
