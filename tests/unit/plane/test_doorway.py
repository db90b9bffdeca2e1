"""A queue that is full takes nobody in, of one tenant and not of the others, and takes in again when it is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.world import EmbeddedWorld
from dure.model.errors import Conflict, Crowded, DureError, NotFound
from dure.model.fleet import Fleet
from dure.model.tenant import Tenant
from dure.model.who import PLANE
from dure.model.workload import WorkloadRecord
from dure.plane.desk import Desk
from dure.plane.doorway import FULL_S, Doorway
from dure.ports import Wish
from tests.fixtures.small_world import CATALOGUE, training


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.counts = 0

    def count_waiting(self, tenant: str) -> int:
        self.counts += 1
        return super().count_waiting(tenant)


class Bench:
    """A desk without clusters, so that everything waits, and a timer that stands still until told."""

    def __init__(self, most: int) -> None:
        self.store, self.now = Counting(), 0.0
        fleet = Fleet(name="small", clusters=(), tenants=(Tenant("vision"), Tenant("speech")))
        self.desk: Desk = EmbeddedWorld(fleet, CATALOGUE, self.store, VirtualClock(100.0), seed=1).desk
        self.desk.doorway = Doorway(self.store, most, lambda: self.now)

    def submit(self, *names: str, tenant: str = "vision", key: str = "") -> list[str]:
        wishes = [Wish(replace(training(name), tenant=tenant), key, PLANE, "POST") for name in names]
        return [_told(answer) for answer in self.desk.submit_all(wishes)]


def _told(answer: WorkloadRecord | DureError) -> str:
    return type(answer).__name__ if isinstance(answer, DureError) else answer.name


def test_of_a_group_as_many_are_let_in_as_there_is_room_for_in_the_queue() -> None:
    bench = Bench(3)
    assert bench.submit("a", "b", "c", "d") == ["a", "b", "c", "Crowded"]
    assert bench.submit("e") == ["Crowded"]
    assert [one.name for one in bench.store.list_workloads()] == ["a", "b", "c"]


def test_the_queue_of_one_tenant_is_nothing_to_another() -> None:
    bench = Bench(2)
    assert bench.submit("a", "b", "c") == ["a", "b", "Crowded"]
    assert bench.submit("x", "y", "z", tenant="speech") == ["x", "y", "Crowded"]


def test_who_was_let_in_gets_the_same_answer_again_however_full_the_queue_is() -> None:
    bench = Bench(1)
    assert bench.submit("a", key="k") == ["a"]
    assert bench.submit("a", key="k") == ["a"]
    assert bench.submit("a") == ["Crowded"]
    assert bench.submit("b", key="other") == ["Crowded"]


def test_what_is_wrong_with_a_submission_is_told_before_that_there_is_no_room() -> None:
    bench = Bench(1)
    bench.submit("a")
    assert bench.submit("b", tenant="nobody") == [NotFound.__name__]


def test_a_full_queue_is_looked_at_again_after_a_moment_and_not_for_everybody_who_knocks() -> None:
    bench = Bench(100)
    bench.submit(*(f"job-{number}" for number in range(100)))
    bench.submit("first")
    counted = bench.store.counts
    assert [bench.submit(f"late-{number}") for number in range(9)] == [["Crowded"]] * 9
    assert bench.store.counts == counted
    bench.desk.cancel("job-7")
    assert bench.submit("again") == ["Crowded"]
    bench.now += FULL_S
    assert bench.submit("now", "two") == ["now", "Crowded"]


def test_others_who_fill_the_queue_are_noticed_before_it_is_twice_as_long() -> None:
    """Another replica writes to the same store and this one does not hear of it."""
    bench, other = Bench(100), Bench(100)
    other.desk = EmbeddedWorld(bench.desk.fleet(), CATALOGUE, bench.store, VirtualClock(100.0), seed=1).desk
    bench.submit("mine")
    other.submit(*(f"theirs-{number}" for number in range(95)))
    told = [bench.submit(f"job-{number}")[0] for number in range(40)]
    assert told.count("Crowded") >= 40 - 100 // 10 - 1


def test_a_name_that_is_taken_is_a_conflict_and_counts_only_until_the_next_look() -> None:
    bench = Bench(2)
    bench.submit("a")
    assert bench.submit("a") == [Conflict.__name__]
    bench.now += FULL_S
    assert bench.submit("b") == ["b"]


def test_without_a_bound_nobody_counts() -> None:
    store = Counting()
    assert Doorway(store, None).refusals(["vision"] * 1000) == [None] * 1000
    assert store.counts == 0


def test_it_is_told_as_something_that_may_work_later() -> None:
    (refusal,) = Doorway(MemoryStore(), 0).refusals(["vision"])
    assert isinstance(refusal, Crowded)
    assert (refusal.status, refusal.exit_code) == (429, 6)
    with pytest.raises(Crowded, match="0 workloads of tenant 'vision' wait already"):
        raise refusal
