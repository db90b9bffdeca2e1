"""What each ranking policy promises, for any set of waiting tenants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.share.policies import POLICIES, Rank

TIMES = st.floats(0.01, 1000.0, allow_nan=False)
TENANT = st.tuples(st.booleans(), TIMES, st.floats(0.01, 1.0), st.floats(0.0, 500.0), TIMES, st.floats(0.1, 10.0))


def places(policy: Rank, rows: list[tuple[bool, float, float, float, float, float]]) -> list[int]:
    left, need, age, target, weight = (np.array([row[i] for row in rows], np.float64) for i in range(1, 6))
    out = np.zeros(len(rows), np.int64)
    policy(np.array([row[0] for row in rows], np.bool_), left, need, age, target, weight, out)
    return [int(place) for place in out]


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(deadline=None)
@given(rows=st.lists(TENANT, min_size=1, max_size=8))
def test_waiting_tenants_get_the_first_places_each_once(
    name: str, rows: list[tuple[bool, float, float, float, float, float]]
) -> None:
    found = places(POLICIES[name], rows)
    waiting = sorted(place for place, row in zip(found, rows, strict=True) if row[0])
    assert waiting == list(range(len(waiting)))
    assert all(place == len(rows) for place, row in zip(found, rows, strict=True) if not row[0])


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_answers_the_same_every_time(name: str) -> None:
    rows = [(True, 5.0 + i % 3, 0.5, float(i), 20.0 + i, 1.0) for i in range(6)]
    assert places(POLICIES[name], rows) == places(POLICIES[name], rows)


def test_jct_serves_the_shortest_first() -> None:
    rows = [(True, 9.0, 1.0, 0.0, 10.0, 1.0), (True, 2.0, 1.0, 0.0, 99.0, 1.0), (True, 5.0, 1.0, 0.0, 6.0, 1.0)]
    assert places(POLICIES["jct"], rows) == [2, 0, 1]


def test_jct_counts_work_that_leaves_room_for_others_as_shorter() -> None:
    rows = [(True, 5.0, 1.0, 0.0, 50.0, 1.0), (True, 6.0, 0.2, 0.0, 50.0, 1.0)]
    assert places(POLICIES["jct"], rows) == [1, 0]


def test_slo_serves_the_least_slack_first_and_the_lost_last() -> None:
    tight, calm, lost = (
        (True, 5.0, 1.0, 4.0, 10.0, 1.0),
        (True, 5.0, 1.0, 0.0, 90.0, 1.0),
        (True, 5.0, 1.0, 9.0, 10.0, 1.0),
    )
    assert places(POLICIES["slo"], [lost, calm, tight]) == [2, 1, 0]


def test_hybrid_prefers_the_heavier_of_two_equal_requests() -> None:
    rows = [(True, 5.0, 1.0, 0.0, 8.0, 1.0), (True, 5.0, 1.0, 0.0, 8.0, 4.0)]
    assert places(POLICIES["hybrid"], rows) == [1, 0]


def test_hybrid_serves_a_hopeless_request_again_once_equation_3_has_raised_its_tenant() -> None:
    """Its backlog waits behind it: worth nothing at all, it would keep them out for ever."""
    job = (True, 24.0, 1.0, 5.0, 1e6, 0.1)
    assert places(POLICIES["hybrid"], [(True, 10.0, 0.6, 1500.0, 60.0, 2.9), job]) == [0, 1]
    assert places(POLICIES["hybrid"], [(True, 10.0, 0.6, 1500.0, 60.0, 0.1), job]) == [1, 0]


def test_slack_guarded_is_jct_while_everyone_has_slack() -> None:
    rows = [(True, 9.0, 1.0, 0.0, 500.0, 1.0), (True, 2.0, 1.0, 0.0, 500.0, 1.0), (True, 5.0, 1.0, 0.0, 500.0, 1.0)]
    assert places(POLICIES["slack-guarded"], rows) == [2, 0, 1]


def test_slack_guarded_lets_a_deadline_pass_before_shorter_work() -> None:
    short, urgent = (True, 2.0, 1.0, 0.0, 500.0, 1.0), (True, 9.0, 1.0, 0.0, 10.0, 1.0)
    assert places(POLICIES["slack-guarded"], [short, urgent]) == [1, 0]


def test_slack_guarded_serves_a_tight_promise_before_an_earlier_deadline_that_can_wait() -> None:
    # One after the other somebody is late; together they need 1.3 devices, and the later deadline most of it.
    early, tight = (True, 4.0, 1.0, 11.0, 20.0, 1.0), (True, 10.0, 1.0, 0.0, 12.0, 1.0)
    assert places(POLICIES["slack-guarded"], [early, tight]) == [1, 0]


def test_slack_guarded_goes_by_deadline_among_those_who_are_pressed_alike() -> None:
    early, later = (True, 6.0, 1.0, 11.0, 20.0, 1.0), (True, 10.0, 1.0, 0.0, 12.0, 1.0)
    assert places(POLICIES["slack-guarded"], [early, later]) == [0, 1]


def test_slack_guarded_goes_by_deadline_when_nothing_can_save_everybody() -> None:
    early, tight, more = (
        (True, 4.0, 1.0, 11.0, 20.0, 1.0),
        (True, 10.0, 1.0, 0.0, 12.0, 1.0),
        (True, 9.0, 1.0, 0.0, 14.0, 1.0),
    )
    assert places(POLICIES["slack-guarded"], [early, tight, more])[0] == 0


def test_slack_guarded_does_not_hold_everyone_up_for_a_lost_request() -> None:
    short, lost = (True, 1.0, 1.0, 0.0, 500.0, 1.0), (True, 9.0, 1.0, 12.0, 10.0, 1.0)
    assert places(POLICIES["slack-guarded"], [short, lost]) == [0, 1]


def test_a_lost_request_ages_until_it_goes_first() -> None:
    assert places(
        POLICIES["slack-guarded"], [(True, 4.0, 1.0, 0.0, 500.0, 1.0), (True, 9.0, 1.0, 90.0, 10.0, 1.0)]
    ) == [1, 0]
