"""Slots are done as evenly as can be found, and places are told in few numbers."""

from __future__ import annotations

import heapq
import itertools

from hypothesis import given
from hypothesis import strategies as st

from dure.route.levelled import levelled
from dure.route.ranks import MOST, ranks
from dure.route.situation import Waiting


def jobs_of(runs: list[float]) -> list[Waiting]:
    return [Waiting(f"w{n}", {"slot": 1000}, run, float(n)) for n, run in enumerate(runs)]


def served(free_s: list[float], runs: list[float]) -> float:
    """When the last slot is done if they are served in this order."""
    free = list(free_s)
    heapq.heapify(free)
    for run in runs:
        heapq.heapreplace(free, free[0] + run)
    return max(free)


def end_of(free_s: list[float], runs: list[float]) -> float:
    return served(free_s, [job.run_s for job in levelled(free_s, jobs_of(runs))])


def test_seven_short_ones_share_a_slot_rather_than_three_long_and_four() -> None:
    """Rounds of 45, 39 and 36 s on eight slots: six or seven each, and the longest first gives seven of the wrong."""
    runs = [45.0] * 17 + [39.0] * 22 + [36.0] * 13
    assert served([0.0] * 8, sorted(runs, reverse=True)) == 279.0
    assert end_of([0.0] * 8, runs) == 264.0


def test_two_jobs_are_given_for_one_where_no_single_exchange_gains() -> None:
    """5 + 2 + 2 and 3 + 2 + 2: a 5 for 3 + 2 would change nothing, 2 + 2 for 3 does."""
    assert served([0.0, 0.0], [5.0, 3.0, 2.0, 2.0, 2.0, 2.0]) == 9.0
    assert end_of([0.0, 0.0], [5.0, 3.0, 2.0, 2.0, 2.0, 2.0]) == 8.0


@given(
    st.lists(st.floats(0.0, 50.0), min_size=1, max_size=5),
    st.lists(st.sampled_from([1.0, 7.5, 13.0, 20.0, 45.0]), max_size=24),
)
def test_levelling_keeps_everybody_and_never_ends_after_the_longest_first(
    free_s: list[float], runs: list[float]
) -> None:
    order = levelled(free_s, jobs_of(runs))
    assert sorted(job.name for job in order) == sorted(job.name for job in jobs_of(runs))
    assert end_of(free_s, runs) <= served(free_s, sorted(runs, reverse=True)) + 1e-6


@given(
    st.lists(st.floats(0.0, 9.0), min_size=2, max_size=3),
    st.lists(st.integers(1, 9).map(float), min_size=1, max_size=6),
)
def test_no_order_at_all_ends_much_sooner(free_s: list[float], runs: list[float]) -> None:
    least = min(served(free_s, list(order)) for order in itertools.permutations(runs))
    assert end_of(free_s, runs) <= least + max(runs) / 3 + 1e-6


def test_a_newcomer_gets_a_place_in_between_and_nobody_else_another() -> None:
    now = {"a": 900, "b": 500, "c": 100, "new": 0}
    found = ranks(("a", "new", "b", "c"), now)
    assert {name: rank for name, rank in found.items() if now[name] != rank} == {"new": 700}


def test_all_are_numbered_anew_where_there_is_no_place_in_between() -> None:
    found = ranks(("a", "new", "b"), {"a": 2, "b": 1, "new": 0})
    assert found["a"] > found["new"] > found["b"] > 0
    assert found["a"] - found["new"] > 100


def test_who_has_no_number_left_stays_first_come() -> None:
    found = ranks([f"j{n}" for n in range(MOST + 5)], {})
    assert sorted(found.values())[:6] == [0, 0, 0, 0, 0, 1]


@given(st.permutations([f"j{n}" for n in range(12)]), st.lists(st.integers(0, MOST), min_size=12, max_size=12))
def test_ranks_fall_along_the_order_whatever_they_were(order: list[str], given_now: list[int]) -> None:
    found = ranks(order, {f"j{n}": rank for n, rank in enumerate(given_now)})
    told = [found[name] for name in order]
    assert all(first > second for first, second in itertools.pairwise(told))
    assert told[-1] > 0
    assert told[0] <= MOST
