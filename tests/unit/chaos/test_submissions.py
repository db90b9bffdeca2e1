"""The verdict about Jobs of the gateway: what counts as lost, and what as done twice."""

from __future__ import annotations

from tests.chaos.submissions import Run, Submitted, judged

FINE: dict[str, list[str]] = {"lost": [], "twice": []}


def test_a_job_that_ran_once_under_any_name_is_fine() -> None:
    submitted = [Submitted("a", 201, 1, "a"), Submitted("b", 201, 3, "b")]
    assert judged(submitted, [Run("a", "a", 1.0), Run("b", "b-m1", 2.0)], []) == FINE


def test_a_job_that_was_accepted_and_never_ran_is_lost() -> None:
    found = judged([Submitted("a", 201, 2, "a")], [], [])
    assert found["lost"] == ["a was accepted as a and never ran"]


def test_a_job_that_was_refused_or_has_not_ended_is_a_finding() -> None:
    found = judged([Submitted("a", 409, 2)], [Run("a", "a", 1.0)], ["default/a"])
    assert found["lost"] == [
        "a was refused with 409 at request 2",
        "default/a is still there and has not ended",
    ]


def test_a_job_that_started_as_two_is_told_with_both_names() -> None:
    found = judged([Submitted("a", 201, 1, "a")], [Run("a", "a", 1.0), Run("a", "a-m1", 2.0)], [])
    assert found == {"lost": [], "twice": ["a ran 2 times, as a, a-m1"]}


def test_a_job_that_nobody_asked_for_is_a_finding() -> None:
    assert judged([], [Run("a", "a", 1.0)], [])["lost"] == ["a ran and was never accepted"]
