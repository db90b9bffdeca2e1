"""The tenants' queues over time: lengths, waits and admissions out of the journal."""

from __future__ import annotations

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.decision import Hold, JournalEntry, Place
from dure.model.reason import Reason, Verdict
from dure.model.workload import WorkloadRecord
from dure.watch.past import Journey
from dure.watch.queues import QueuePoint, Wait, queue_points, waits
from tests.unit.watch.test_past import home, journey, record

NO_ROOM = (Verdict("seoul/h100", Reason.NO_CAPACITY),)


def points(known: Journey, *records: WorkloadRecord, until_s: float = 100.0) -> dict[float, QueuePoint]:
    found = queue_points(waits(records, known.homes), ["vision"], 0.0, until_s, 20.0)
    return {one.at_s: one for one in found}


def test_a_queue_grows_while_they_wait_and_empties_when_they_get_in() -> None:
    known = journey((10.0, Hold("a", NO_ROOM)), (50.0, Place("a", home("a", "h100"))))
    found = points(known, record("a", 5.0), record("b", 30.0))
    assert [one.waiting for one in found.values()] == [1, 2, 1, 1, 1]
    assert [one.oldest_s for one in found.values()] == [15.0, 35.0, 30.0, 50.0, 70.0]
    assert [one.admitted for one in found.values()] == [0, 0, 1, 0, 0]
    assert (found[40.0].waited_s, found[40.0].admitted_per_hour) == (45.0, 180.0)
    assert found[0.0].waited_s is None


def test_who_loses_its_home_queues_again_and_waits_anew() -> None:
    known = journey(
        (10.0, Place("a", home("a", "h100"))), (45.0, Hold("a", NO_ROOM)), (70.0, Place("a", home("a", "h100")))
    )
    found = points(known, record("a", 0.0))
    assert [one.waiting for one in found.values()] == [0, 0, 1, 0, 0]
    assert (found[0.0].waited_s, found[60.0].waited_s) == (10.0, 25.0)


def test_a_move_from_home_to_home_is_no_second_admission() -> None:
    known = journey((10.0, Place("a", home("a", "h100"))), (50.0, Place("a", home("a", "a100"))))
    assert sum(one.admitted for one in points(known, record("a", 0.0)).values()) == 1


def test_who_ends_without_a_home_leaves_the_queue_and_was_not_admitted() -> None:
    found = points(journey((10.0, Hold("a", NO_ROOM))), record("a", 5.0, 45.0))
    assert [one.waiting for one in found.values()] == [1, 1, 0, 0, 0]
    assert sum(one.admitted for one in found.values()) == 0


def test_a_second_workload_of_a_name_does_not_inherit_the_home_of_the_first() -> None:
    known = journey((10.0, Place("a", home("a", "h100"))), (90.0, Place("a", home("a", "h100"))))
    again = replace(record("a", 50.0), uid="second")
    found = points(known, record("a", 5.0, 30.0), again)
    assert [one.waiting for one in found.values()] == [0, 0, 1, 1, 0]
    assert [one.waited_s for one in found.values() if one.admitted] == [5.0, 40.0]


def test_of_one_whose_lines_the_journal_no_longer_has_the_record_tells_when_it_got_in() -> None:
    known = record("a", 5.0)
    status = replace(known.status, placement=replace(home("a", "h100"), decided_s=30.0), started_s=50.0)
    found = points(journey(), replace(known, status=status))
    assert [one.waiting for one in found.values()] == [1, 0, 0, 0, 0]
    assert found[20.0].waited_s == 25.0


def test_the_last_step_ends_now_and_its_rate_counts_only_what_is_over() -> None:
    known = journey((85.0, Place("a", home("a", "h100"))))
    found = points(known, record("a", 5.0), until_s=90.0)
    assert found[80.0].admitted_per_hour == 360.0


def test_a_queue_in_which_nobody_ever_was_is_shown_as_empty() -> None:
    found = queue_points((), ["idle"], 0.0, 40.0, 20.0)
    assert [(one.tenant, one.waiting, one.admitted) for one in found] == [("idle", 0, 0)] * 2


MOMENTS = st.integers(0, 400).map(float)


@st.composite
def stretches(draw: st.DrawFn) -> Wait:
    since_s = draw(MOMENTS)
    until_s = draw(st.one_of(st.just(math.inf), MOMENTS.map(lambda more: since_s + more)))
    return Wait(draw(st.sampled_from("ab")), since_s, until_s, until_s < math.inf and draw(st.booleans()))


@given(st.lists(stretches(), max_size=12), st.integers(20, 90).map(float), MOMENTS, MOMENTS)
def test_every_point_is_what_counting_by_hand_gives(
    found: list[Wait], step_s: float, since_s: float, length_s: float
) -> None:
    until_s = since_s + length_s
    made = queue_points(found, "ab", since_s, until_s, step_s)
    for one in made:
        end_s = min(one.at_s + step_s, until_s)
        mine = [wait for wait in found if wait.tenant == one.tenant]
        now = [wait for wait in mine if wait.since_s <= end_s < wait.until_s]
        assert one.waiting == len(now)
        assert one.oldest_s == max((end_s - wait.since_s for wait in now), default=0.0)
        got = [
            wait.until_s - wait.since_s
            for wait in mine
            if wait.admitted and one.at_s <= wait.until_s < one.at_s + step_s and wait.until_s <= until_s
        ]
        assert one.admitted == len(got)
        assert one.waited_s == (statistics.median(got) if got else None)
    assert queue_points(list(reversed(found)), "ba", since_s, until_s, step_s) == made


def test_the_index_answers_homes_between_two_moments_only() -> None:
    known = Journey()
    entries = [(10.0, True), (20.0, False), (30.0, True)]
    known.take(
        JournalEntry(number, at_s, "", Place("a", home("a", "h100")) if housed else Hold("a", NO_ROOM), "vision")
        for number, (at_s, housed) in enumerate(entries, start=1)
    )
    assert list(known.homes("a", 15.0, 30.0)) == [(20.0, False), (30.0, True)]
    assert list(known.homes("nobody", 0.0, 99.0)) == []
