"""Services that surge: courses are as described, and a group serves more of their requests than each alone."""

from __future__ import annotations

import itertools

import pytest

from dure.bench.surge import COURSES, FIRST, SECOND, play, surges


@pytest.mark.parametrize("course", COURSES)
def test_a_service_has_one_surge_at_a_time_and_both_surge(course: str) -> None:
    found = sorted(surges(course, 7), key=lambda one: one.after_s)
    assert found == sorted(surges(course, 7), key=lambda one: one.after_s)
    for name in (FIRST, SECOND):
        mine = [one for one in found if one.workload == name]
        assert mine
        assert all(one.after_s + one.for_s <= other.after_s for one, other in itertools.pairwise(mine))


def test_in_a_group_fewer_are_late_than_alone_and_the_same_seed_is_the_same() -> None:
    alone, group = play("turns", 7, "alone"), play("turns", 7, "group")
    assert isinstance(alone["late"], int)
    assert isinstance(group["late"], int)
    assert group["late"] < alone["late"] / 2
    assert play("turns", 7, "group") == group


def test_a_group_follows_no_wave_of_three_minutes_and_a_long_one() -> None:
    short, long = play("wave 180 s", 7, "group"), play("wave 600 s", 7, "group")
    assert isinstance(short["moved"], int)
    assert isinstance(long["moved"], int)
    assert short["moved"] < long["moved"], "although it turns more than three times as often"
