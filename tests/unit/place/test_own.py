"""A policy of the fleet's owner picks among what is possible; what it may not do, it cannot."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dure.model.decision import Hold, Place
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.workload import Phase, WorkloadRecord
from dure.place.candidate import Candidate, Cycle
from dure.place.own import place_by
from tests.fixtures.small_world import training
from tests.unit.place.worlds import pool, record, snapshot


def dearest(snapshot: Snapshot, record: WorkloadRecord, homes: Sequence[Candidate]) -> Candidate | None:
    return max(homes, key=lambda home: home.bill(0).total)


def none(snapshot: Snapshot, record: WorkloadRecord, homes: Sequence[Candidate]) -> Candidate | None:
    return None


def homes(world: Snapshot) -> dict[str, str]:
    return {one.workload: one.placement.cluster for one in place_by(dearest, world) if isinstance(one, Place)}


def test_where_nobody_waits_nobody_is_asked() -> None:
    assert place_by(dearest, snapshot(())) == ()
    runs = record(training("runs"))
    runs = replace(runs, status=replace(runs.status, phase=Phase.RUNNING))
    assert place_by(none, snapshot((runs,))) == ()


def test_its_choice_is_taken_and_sees_what_the_ones_before_have_left() -> None:
    first, second = record(training("one", devices=4)), record(training("two", devices=4))
    assert homes(snapshot((first,))) == {"one": "b"}
    assert homes(snapshot((first, second))) == {"one": "b", "two": "a"}
    third = record(training("three", devices=4))
    held = [one for one in place_by(dearest, snapshot((first, second, third))) if isinstance(one, Hold)]
    assert [one.workload for one in held] == ["two"], "names decide between equals: one and three come first"
    assert {one.reason for one in held[0].verdicts} == {Reason.NO_CAPACITY}


def test_one_that_takes_none_holds_and_says_how_many_there_were() -> None:
    [held] = place_by(none, snapshot((record(training("one")),)))
    assert isinstance(held, Hold)
    assert [(one.where, one.reason) for one in held.verdicts] == [("2 possible homes", Reason.POLICY_WAITS)]


def test_an_answer_that_was_not_offered_is_refused() -> None:
    waits = record(training("one"))
    other = snapshot((waits,), pools=(pool("a"),))
    [foreign] = Cycle(other, (waits,)).candidates(waits)
    with pytest.raises(ValueError, match="none of the possible homes"):
        place_by(lambda _snapshot, _record, _homes: foreign, snapshot((waits,)))
