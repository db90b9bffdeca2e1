"""The fleet as it was: homes and waiting at any moment, and who held a device when."""

from __future__ import annotations

import pytest

from dure.model.accelerator import ShareMode
from dure.model.cluster import Slice
from dure.model.decision import Bind, Decision, Evict, Hold, JournalEntry, Place, ScaleNodes
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
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
from dure.watch.past import Journey


def home(name: str, pool: str, replicas: int = 1) -> Placement:
    return Placement(name, 1, "seoul", pool, "h100", ShareMode.EXCLUSIVE, Capacity.OWNED, replicas, 0.0)


def record(name: str, submitted_s: float, finished_s: float | None = None) -> WorkloadRecord:
    spec = Workload(name, "vision", WorkloadType.BATCH, (AcceptedClass("h100"),), Demand(devices=2))
    phase = Phase.DONE if finished_s is not None else Phase.RUNNING
    return WorkloadRecord(f"uid-{name}", spec, WorkloadStatus(phase, submitted_s, finished_s=finished_s))


def journey(*decisions: tuple[float, Decision]) -> Journey:
    made = Journey()
    made.take(
        JournalEntry(number, at_s, "", decision, "vision", "seoul")
        for number, (at_s, decision) in enumerate(decisions, start=1)
    )
    return made


def test_what_waited_ran_and_was_done_each_at_its_time() -> None:
    known = journey(
        (10.0, Hold("a", (Verdict("seoul/h100", Reason.NO_CAPACITY),))), (20.0, Place("a", home("a", "h100", 3)))
    )
    records = [record("a", 5.0, 50.0)]
    assert known.fleet_at(records, 4.0).waiting == ()
    (waited,) = known.fleet_at(records, 12.0).waiting
    assert waited.reason == "NoCapacity"
    then = known.fleet_at(records, 30.0)
    assert [(pool.pool, pool.used_milli, pool.workloads) for pool in then.pools] == [("h100", 6000, 1)]
    assert known.fleet_at(records, 51.0).running == ()


def test_a_workload_that_was_moved_is_where_it_was_then() -> None:
    known = journey((10.0, Place("a", home("a", "h100"))), (40.0, Place("a", home("a", "a100"))))
    records = [record("a", 5.0)]
    assert known.fleet_at(records, 39.0).running[0].where == "seoul/h100"
    assert known.fleet_at(records, 41.0).running[0].where == "seoul/a100"


def bind(pod: str, workload: str, device: str) -> Bind:
    return Bind(pod, "u", "node", (Slice(device, ShareMode.MIG, "3g", compute_milli=428),), workload)


@pytest.mark.parametrize(
    ("then", "until_s"),
    [
        (None, None),
        ((30.0, Evict("p", "u", "a", Verdict("seoul/h100", Reason.PREEMPTED))), 30.0),
        ((25.0, Hold("a", (Verdict("seoul/h100", Reason.NO_CAPACITY),))), 25.0),
        ((35.0, bind("p", "a", "gpu-0")), 35.0),
    ],
    ids=["still", "evicted", "taken back", "bound anew"],
)
def test_a_device_is_held_until_something_ends_it(then: tuple[float, Decision] | None, until_s: float | None) -> None:
    known = journey((10.0, bind("p", "a", "gpu-0")), *([then] if then else []))
    first = known.held_by("seoul", "gpu-0", {"a": record("a", 5.0)})[0]
    assert (first.workload, first.tenant, first.since_s, first.until_s, first.milli) == (
        "a",
        "vision",
        10.0,
        until_s,
        428,
    )
    assert known.held_by("seoul", "gpu-1", {}) == ()


def test_changes_of_size_are_kept_with_their_reasons() -> None:
    known = journey((10.0, ScaleNodes("seoul", "h100", 2, 3, Capacity.SPOT, "pending demand")))
    assert [(one.kind, one.before, one.after, one.reason) for one in known.changes] == [
        ("nodes", 2, 3, "pending demand")
    ]
