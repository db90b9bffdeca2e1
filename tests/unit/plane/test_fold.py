"""What reports mean for records: progress, ends, losses, and the two steps in which a placement is taken back."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.report import Observed, Report
from dure.model.tariff import Capacity
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.plane import fold as module
from dure.plane.apply import Draft, Folding
from dure.plane.fold import MAX_RESTARTS, PATIENCE_S, leave

HOME = Placement("w", 2, "seoul", "t4", "t4", ShareMode.EXCLUSIVE, Capacity.OWNED, replicas=2, decided_s=10.0)
SPEC = Workload("w", "vision", WorkloadType.TRAINING, (AcceptedClass("t4"),), Demand(devices=1), gang=2)


def record(phase: Phase = Phase.PLACED, **status: object) -> WorkloadRecord:
    fields = {"placement": HOME, "generation": 2, **status}
    return WorkloadRecord("u", SPEC, WorkloadStatus(phase=phase, **fields))  # type: ignore[arg-type]


def report(at_s: float = 20.0, **seen: object) -> Report:
    observed = (Observed("u", "w", **{"generation": 2, **seen}),) if seen else ()  # type: ignore[arg-type]
    return Report("seoul", at_s, "v", (), observed)


def fold(before: WorkloadRecord, told: Report | None, now_s: float) -> WorkloadStatus:
    seen = next((one for one in told.observed if one.uid == before.uid), None) if told else None
    return module.fold(before, told, seen, now_s)


def test_no_report_changes_nothing() -> None:
    before = record()
    assert fold(before, None, 99.0) is before.status


def test_bound_pods_are_starting_and_ready_ones_run() -> None:
    starting = fold(record(), report(pods=2, bound=2), 20.0)
    assert starting.phase is Phase.STARTING
    running = fold(record(), report(pods=2, bound=2, ready=2, started_s=15.0), 20.0)
    assert (running.phase, running.started_s, running.ready) == (Phase.RUNNING, 15.0, 2)


def test_a_checkpoint_that_the_pods_tell_is_kept_even_if_no_more_work_is_safe_by_it() -> None:
    seen = {"pods": 2, "bound": 2, "ready": 2, "started_s": 15.0}
    running = fold(record(), report(**seen), 20.0)
    assert running.saved_s is None
    told = fold(record(**_fields(running)), report(**seen, saved_s=0.0), 21.0)
    assert told.saved_s == 0.0
    later = fold(record(**_fields(told)), report(**seen, saved_s=40.0, done_s=25.0), 45.0)
    assert (later.saved_s, later.done_s) == (40.0, 25.0)


def _fields(status: WorkloadStatus) -> dict[str, Any]:
    return msgspec.structs.asdict(status)


def test_it_is_done_only_when_every_member_has_succeeded() -> None:
    assert fold(record(Phase.RUNNING), report(succeeded=1, ready=1), 20.0).phase is Phase.RUNNING
    done = fold(record(Phase.RUNNING), report(succeeded=2, finished_s=19.0), 20.0)
    assert (done.phase, done.finished_s) == (Phase.DONE, 19.0)


def test_a_report_on_another_generation_is_not_about_this_placement() -> None:
    before = record()
    assert fold(before, report(generation=1, succeeded=2), 20.0) == before.status


def test_a_lost_gang_leaves_first_and_waits_again_only_when_nothing_is_left_of_it() -> None:
    leaving = fold(record(Phase.RUNNING), report(lost="SpotReclaimed: node n-1", done_s=7.0), 20.0)
    assert leaving.leaving_s == 20.0
    assert leaving.restarts == 1
    assert leaving.done_s == 7.0
    assert leaving.held[0].reason is Reason.SPOT_RECLAIMED
    still = WorkloadRecord("u", SPEC, leaving)
    assert fold(still, report(at_s=25.0, pods=0, lost="SpotReclaimed"), 25.0) == leaving
    assert fold(still, report(at_s=19.0), 25.0) == leaving, "a report from before tells nothing"
    waiting = fold(still, report(at_s=30.0), 30.0)
    assert (waiting.phase, waiting.placement, waiting.leaving_s) == (Phase.PENDING, None, None)
    assert waiting.generation == 2, "the next placement must be newer than the one that was taken back"


def test_a_pod_that_fails_again_and_again_fails_the_workload() -> None:
    assert fold(record(Phase.RUNNING), report(failed=1), 20.0).leaving_s == 20.0
    worn = record(Phase.RUNNING, restarts=MAX_RESTARTS)
    assert fold(worn, report(failed=1, finished_s=18.0), 20.0).phase is Phase.FAILED


def test_a_placement_that_finds_no_room_is_taken_back_after_a_while() -> None:
    patient = fold(record(), report(pods=2), 10.0 + PATIENCE_S)
    assert patient.leaving_s is None
    given_up = fold(record(), report(pods=2, message="needs 8 devices"), 11.0 + PATIENCE_S)
    assert given_up.leaving_s is not None
    assert given_up.held[0].reason is Reason.NO_CAPACITY
    assert "needs 8 devices" in given_up.held[0].sentence


def test_an_ended_workload_never_changes() -> None:
    before = record(Phase.DONE)
    assert fold(before, report(failed=2), 99.0) is before.status


def test_requests_of_earlier_homes_are_added() -> None:
    moved = record(Phase.RUNNING, requests_before=100, requests_good_before=90, requests=100, requests_good=90)
    after = fold(moved, report(ready=1, requests=10, requests_good=9), 20.0)
    assert (after.requests, after.requests_good) == (110, 99)


def test_leaving_keeps_the_generation() -> None:
    assert leave(record().status, 1.0, "why", None).generation == 2


def test_turn_after_turn_each_draft_takes_in_what_a_single_look_would_say() -> None:
    """Also where the record, what is observed of it, or only the time is another than in the turn before."""
    quiet = report(pods=2, bound=2, ready=2, started_s=15.0)
    runs = record(Phase.RUNNING, ready=2, started_s=15.0)
    further = report(at_s=30.0, pods=2, bound=2, ready=2, started_s=15.0, done_s=9.0)
    waits, unbound = record(), report(pods=2)
    turns = [
        (runs, quiet, 20.0),
        (runs, quiet, 25.0),
        (runs, further, 30.0),
        (runs, quiet, 31.0),
        (record(Phase.RUNNING, ready=1, started_s=15.0), quiet, 32.0),
        (runs, report(at_s=40.0), 40.0),
        (record(Phase.RUNNING, leaving_s=35.0), report(at_s=40.0), 40.0),
        (waits, unbound, 50.0),
        (waits, unbound, 11.0 + PATIENCE_S),
    ]
    folding = Folding()
    for before, told, now_s in turns:
        draft = Draft(before)
        folding.fold([draft], [told], now_s)
        assert draft.status == fold(before, told, now_s)


def test_a_queue_is_what_the_last_report_says_and_gone_with_the_placement() -> None:
    running = record(Phase.RUNNING, ready=2, started_s=15.0, requests=7, waiting=3)
    longer = fold(running, report(ready=2, requests=7, waiting=9), 20.0)
    assert longer.waiting == 9
    same = report(ready=2, requests=7, waiting=3)
    assert fold(running, same, 20.0) is running.status
    assert fold(running, report(ready=2, requests=7), 20.0).waiting is None, "nobody can count it any more"
    assert leave(running.status, 21.0, "moved", None).waiting is None


def aside(phase: Phase, **status: object) -> WorkloadRecord:
    """On its way out for others, to be looked at again at 900."""
    why = (Verdict("seoul/t4", Reason.STANDS_ASIDE),)
    return record(phase, leaving_s=15.0, held=why, look_again_s=900.0, **status)


def sleeper(name: str, reason: Reason, class_name: str = "t4") -> WorkloadRecord:
    spec = msgspec.structs.replace(SPEC, name=name, classes=(AcceptedClass(class_name),))
    held = (Verdict("seoul/t4", reason),)
    return WorkloadRecord(name, spec, WorkloadStatus(phase=Phase.HELD, held=held, look_again_s=900.0))


def test_who_has_stood_aside_is_held_until_the_hour_it_has_planned() -> None:
    left = fold(aside(Phase.RUNNING, done_s=600.0), report(20.0), 20.0)
    assert (left.phase, left.placement, left.look_again_s, left.done_s) == (Phase.HELD, None, 900.0, 600.0)


def test_room_that_was_left_to_those_who_wait_wakes_who_sleeps_and_could_use_it() -> None:
    sleeping = [
        sleeper("cheaper", Reason.WAITING_FOR_CHEAPER_HOUR),
        sleeper("elsewhere", Reason.WAITING_FOR_CHEAPER_HOUR, "a100"),
        sleeper("polite", Reason.STANDS_ASIDE),
    ]

    def woken(first: WorkloadRecord, told: Report) -> list[str]:
        drafts = [Draft(first), *map(Draft, sleeping)]
        Folding().fold(drafts, [told], 20.0)
        return [draft.before.name for draft in drafts[1:] if draft.status.look_again_s is None]

    assert woken(aside(Phase.RUNNING), report(20.0)) == ["cheaper"]
    assert woken(aside(Phase.RUNNING), report(20.0, pods=2, bound=2)) == [], "it is not gone yet"
    assert woken(record(Phase.RUNNING, leaving_s=15.0), report(20.0)) == [], "nobody left it to them"
