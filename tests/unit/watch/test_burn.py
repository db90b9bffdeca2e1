"""Error budgets: a fast burn pages, an old one does not, a restarted counter loses nothing."""

from __future__ import annotations

from dure.watch.burn import Count, budget_state

HOUR = 3600.0


def counted(*rates: tuple[float, float, float]) -> list[Count]:
    """(hours, requests per minute, share good) one after the other, a point a minute."""
    made, at_s, total, good = [Count(0.0, 0.0, 0.0)], 0.0, 0.0, 0.0
    for hours, rate, share in rates:
        for _ in range(round(hours * 60)):
            at_s, total, good = at_s + 60.0, total + rate, good + rate * share
            made.append(Count(at_s, total, good))
    return made


def test_all_good_burns_nothing_and_leaves_the_whole_budget() -> None:
    state = budget_state(counted((80, 100, 1.0)), 0.999, 80 * HOUR)
    assert state.level == ""
    assert state.left == 1.0


def test_two_percent_bad_at_three_nines_pages_by_the_fast_window() -> None:
    state = budget_state(counted((80, 100, 1.0), (1, 100, 0.98)), 0.999, 81 * HOUR)
    assert state.level == "page"
    assert state.burns[0].firing
    assert abs((state.burns[0].long or 0) - 20) < 0.5


def test_what_is_over_does_not_page_though_the_long_window_still_sees_it() -> None:
    state = budget_state(counted((80, 100, 1.0), (0.9, 100, 0.9), (0.2, 100, 1.0)), 0.999, 81.1 * HOUR)
    assert (state.burns[0].long or 0) > 14.4
    assert not state.burns[0].firing


def test_a_slow_leak_is_a_ticket() -> None:
    state = budget_state(counted((100, 100, 0.998)), 0.999, 100 * HOUR)
    assert state.level == "ticket"
    assert state.left is not None
    assert state.left < 0


def test_a_counter_that_starts_anew_counts_on() -> None:
    before = counted((2, 100, 1.0))
    after = [Count(one.at_s + 2 * HOUR, one.total, one.good) for one in counted((2, 100, 0.5))[1:]]
    state = budget_state([*before, *after], 0.99, 4 * HOUR)
    assert state.attained is not None
    assert abs(state.attained - 0.75) < 0.01


def test_nothing_asked_is_unknown_and_not_perfect() -> None:
    state = budget_state([], 0.99, 0.0)
    assert (state.attained, state.left, state.level) == (None, None, "")
