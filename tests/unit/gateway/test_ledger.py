"""Open Workloads in their places, however many there are."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kueue.objects import ClusterQueue, Workload
from dure.gateway.ledger import Ledger
from dure.gateway.view import LISTED, View
from dure.route.durations import Durations
from dure.route.situation import Waiting
from tests.unit.gateway.boards import FixedBoard, cluster_queue


def workload(
    number: int, *, queue: str = "user-gpu", conditions: tuple[str, ...] = (), priority: int = 0, **spec: Any
) -> Workload:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": 1}}}
    at = f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
    raw = {
        "metadata": {
            "name": f"w-{number}",
            "namespace": "default",
            "resourceVersion": "1",
            "creationTimestamp": at,
            "ownerReferences": [{"kind": "Job", "name": f"job-{number}", "uid": f"uid-{number}"}],
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"count": 1, "template": {"spec": {"containers": [container]}}}],
            **spec,
        },
        "status": {
            "conditions": [{"type": one, "status": "True", "lastTransitionTime": at} for one in conditions],
            **({"admission": {"clusterQueue": "gpu"}} if "QuotaReserved" in conditions else {}),
        },
    }
    return msgspec.convert(raw, Workload)


def view(ledger: Ledger, queue: ClusterQueue | None = None) -> View:
    found = queue or cluster_queue("gpu", {"nvidia.com/gpu": 4})
    return View(FixedBoard({"gpu": found}, {"default/user-gpu": "gpu"}), ledger)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["wait", "run", "end", "drop"])), max_size=60))
def test_only_the_last_state_of_each_workload_counts(changes: list[tuple[int, str]]) -> None:
    ledger, last = Ledger(), {}
    states = {"wait": (), "run": ("QuotaReserved",), "end": ("QuotaReserved", "Finished")}
    for number, what in changes:
        last[number] = what
        if what == "drop":
            ledger.drop(f"default/w-{number}")
        else:
            ledger.put(workload(number, conditions=states[what]))
    waiting, ahead, _ = ledger.waiting(["default/user-gpu"], 1000)
    expected = sorted(number for number, what in last.items() if what == "wait")
    assert ([one.job for one in waiting], ahead) == ([f"default/job-{number}" for number in expected], 0)
    assert len(ledger.running("gpu")) == sum(what == "run" for what in last.values())


def test_what_is_ahead_of_a_long_row_becomes_time() -> None:
    ledger, numbers = Ledger(), list(range(LISTED + 400))
    random.Random(1).shuffle(numbers)
    ledger.reset(workload(number) for number in numbers)
    lane = view(ledger).situation(0.0, Durations(), ["gpu"]).lanes["gpu"]
    assert len(lane.waiting) == LISTED
    assert lane.hidden_s == 400 * 60.0 / 4
    assert not lane.orderable


def test_a_deleted_job_waits_for_nothing_even_if_its_workload_comes_later() -> None:
    ledger = Ledger()
    ledger.leave("default/job-1", "uid-1")
    ledger.put(workload(1))
    assert ledger.waiting(["default/user-gpu"], 10)[0] == []


def test_a_claim_ends_when_the_workload_shows_up() -> None:
    ledger = Ledger()
    seen = view(ledger)
    seen.claim("default/job-1", "gpu", Waiting("default/job-1", {"nvidia.com/gpu": 1000}, 5.0, 1.0), 1.0)
    assert len(seen.situation(2.0, Durations(), ["gpu"]).lanes["gpu"].waiting) == 1
    ledger.put(workload(1))
    assert [one.name for one in seen.situation(2.0, Durations(), ["gpu"]).lanes["gpu"].waiting] == ["default/job-1"]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["wait", "run", "claim", "kind", "forget", "drop", "learn"])),
        max_size=30,
    )
)
def test_a_view_that_is_asked_all_the_time_sees_what_a_fresh_one_sees(changes: list[tuple[int, str]]) -> None:
    ledgers = Ledger(), Ledger()
    asked, fresh = view(ledgers[0]), view(ledgers[1])
    durations = Durations()
    for number, what in changes:
        name = f"default/job-{number}"
        for ledger, one in zip(ledgers, (asked, fresh), strict=True):
            if what == "claim":
                one.claim(name, "gpu", Waiting(name, {"nvidia.com/gpu": 1000}, 5.0, 1.0 * number), 1.0)
            elif what == "kind":
                one.know(name, ("k", "t4", 5.0 + number))
            elif what == "forget":
                one.forget(name)
            elif what == "drop":
                ledger.drop(f"default/w-{number}")
            elif what != "learn":
                ledger.put(workload(number, conditions=("QuotaReserved",) if what == "run" else ()))
        durations = durations.learnt("k", "t4", 1.0 + number) if what == "learn" else durations
        asked.situation(2.0, durations)
    assert asked.situation(2.0, durations) == fresh.situation(2.0, durations)


def _know(view: View) -> None:
    for number in (1, 2):
        view.know(f"default/job-{number}", ("k", "t4", 5.0))


def test_a_queue_is_sorted_only_where_all_is_ours_and_nobody_is_preempted() -> None:
    ledger = Ledger()
    ledger.reset([workload(1), workload(2)])
    own = view(ledger)
    assert not own.situation(0.0, Durations()).lanes["gpu"].orderable
    _know(own)
    assert own.situation(0.0, Durations()).lanes["gpu"].orderable
    for spec in ({"preemption": {"withinClusterQueue": "LowerPriority"}}, {"cohortName": "c"}, {"cohort": "c"}):
        other = view(ledger, cluster_queue("gpu", {"nvidia.com/gpu": 4}, **spec))
        _know(other)
        assert not other.situation(0.0, Durations()).lanes["gpu"].orderable


def test_priority_classes_of_ours_tell_the_order_in_both_versions() -> None:
    for spec in ({"priorityClassRef": {"name": "dure-rank-030"}}, {"priorityClassName": "dure-rank-030"}):
        ledger = Ledger()
        ledger.reset([workload(1), workload(2, priority=30, **spec)])
        lane = view(ledger).situation(0.0, Durations()).lanes["gpu"]
        assert [(one.priority, one.rank) for one in lane.waiting] == [(0, 30), (0, 0)]
