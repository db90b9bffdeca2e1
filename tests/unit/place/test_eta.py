"""Expected start and finish: ranges that nest, queues in order, errors that widen them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.eta import Range
from dure.place.eta import Coming, Errors, Going, etas, fresh_book, left, ratios_of

NOW_S = 1000.0


def test_a_waiting_workload_starts_when_the_one_before_it_ends() -> None:
    running = [Going("first", 3600.0, 1800.0, 4)]
    waiting = [Coming("second", 3600.0, 4), Coming("third", 600.0, 2)]
    found = etas(running, waiting, {"": 4}, np.array([1.0] * 9), NOW_S, fresh_book())
    assert found["second"].start.middle_s == found["first"].finish.middle_s == NOW_S + 1800.0
    assert found["third"].start.middle_s == found["second"].finish.middle_s


def test_what_never_fits_has_no_eta() -> None:
    assert etas([], [Coming("huge", 60.0, 9)], {"": 4}, ratios_of(()), NOW_S, fresh_book()) == {}


def test_a_workload_past_its_estimate_is_expected_to_go_on() -> None:
    late = Going("late", 3600.0, 40 * 3600.0, 1)
    assert left(late, ratios_of([0.9, 1.0, 1.1] * 40)) > 3600.0


@settings(max_examples=50)
@given(st.lists(st.floats(0.0, 1e6), max_size=80), st.floats(0.0, 1e6))
def test_ranges_nest_whatever_was_seen(came: list[float], middle: float) -> None:
    errors = Errors()
    for one in came:
        errors.add(errors.around(NOW_S + middle, NOW_S), NOW_S + one, NOW_S)
    said = errors.around(NOW_S + middle, NOW_S)
    assert NOW_S <= said.lowest_s <= said.low_s <= said.middle_s <= said.high_s <= said.highest_s


def test_ranges_learn_to_hold_nine_of_ten() -> None:
    draw = np.random.default_rng(5)
    errors, held = Errors(), 0
    for turn in range(1500):
        said = errors.around(NOW_S + 3600.0, NOW_S)
        came_s = NOW_S + 3600.0 * float(np.exp(draw.normal(0.8, 1.5)))
        held += turn >= 500 and said.holds(came_s)
        if came_s > said.highest_s:
            errors.overdue(said, NOW_S, came_s)
        errors.add(said, came_s, NOW_S)
    assert 0.85 <= held / 1000 <= 0.95


def test_a_range_that_fails_makes_the_next_one_wider() -> None:
    errors = Errors()
    before = errors.around(NOW_S + 600.0, NOW_S)
    for _ in range(30):
        errors.add(before, NOW_S + 60_000.0, NOW_S)
        errors.overdue(before, NOW_S, NOW_S + 60_000.0)
    after = errors.around(NOW_S + 600.0, NOW_S)
    assert isinstance(after, Range)
    assert after.highest_s > before.highest_s
