"""A higher priority takes the place of lower ones, as few and as cheap as make the room."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.decision import Decision, Hold, Place, Reclaim
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Budget, Isolation, Tenant, TenantUsage
from dure.model.units import MICROS
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord
from dure.place import place
from tests.fixtures.small_world import service, training
from tests.unit.place.worlds import NOW_S, pool, record, snapshot

BIG = (AcceptedClass("big"),)


def running(
    name: str, devices: int = 1, *, ran_s: float = 4000.0, serves: bool = False, leaving: bool = False,
    tenant: str = "vision", priority: int = 0, checkpoint_s: float = 0.0,
) -> WorkloadRecord:  # fmt: skip
    spec = service(name, replicas=1) if serves else training(name, devices=devices, classes=BIG)
    made = record(spec, tenant=tenant, priority=priority, checkpoint_s=checkpoint_s, submitted_s=NOW_S - 9000)
    home = Placement(name, 1, "a", "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, NOW_S - ran_s)
    status = msgspec.structs.replace(
        made.status,
        phase=Phase.RUNNING,
        placement=home,
        started_s=NOW_S - ran_s,
        leaving_s=NOW_S - 1 if leaving else None,
    )
    return msgspec.structs.replace(made, status=status)


def urgent(devices: int = 2, priority: int = 50, name: str = "urgent") -> WorkloadRecord:
    return record(training(name, devices=devices, classes=BIG), tenant="search", priority=priority)


def full(*records: WorkloadRecord, free: int = 0, tenants: tuple[Tenant, ...] = ()) -> Snapshot:
    taken = msgspec.structs.replace(pool("a"), free_whole=(free,), free_milli=free * 1000)
    usage = (TenantUsage("search"), TenantUsage("vision", device_milli={"big": 4000}))
    return snapshot(records, pools=(taken,), tenants=tenants, usage=usage)


def leaving(decisions: tuple[Decision, ...]) -> list[str]:
    return sorted(one.workload for one in decisions if isinstance(one, Reclaim))


def test_the_lowest_go_first_then_those_who_lose_least_and_each_is_told_why() -> None:
    world = full(
        running("dear", 2), running("kept", 2, checkpoint_s=60.0), running("other", 2, priority=20), urgent()
    )
    decisions = place(world)
    [told] = [one for one in decisions if isinstance(one, Reclaim)]
    assert (told.workload, told.claimant, told.lender) == ("kept", "urgent", "search")
    assert told.reason.reason is Reason.PREEMPTED
    assert told.reason.detail == "a workload of priority 50 takes the place, it has 0"
    assert any(isinstance(one, Hold) and one.workload == "urgent" for one in decisions), (
        "it starts when they are gone"
    )


def test_as_few_leave_as_make_the_room_and_a_large_one_spares_the_small() -> None:
    small = [running(f"s{n}", 1, ran_s=10.0) for n in range(2)]
    assert leaving(place(full(*small, running("large", 4, ran_s=20.0), urgent(4)))) == ["large"]
    assert leaving(place(full(*small, urgent(1)))) == ["s0"]
    assert leaving(place(full(*small, urgent(1), free=1))) == [], "there is room"


@pytest.mark.parametrize("priority", [0, -1])
def test_nobody_leaves_for_the_same_or_a_lower_priority(priority: int) -> None:
    assert leaving(place(full(running("v", 4), urgent(4, priority)))) == []


def test_nobody_leaves_when_that_would_not_make_the_room() -> None:
    assert leaving(place(full(running("a", 1), running("b", 1), urgent(2)))) == [], "they may be on two nodes"
    assert leaving(place(full(running("a", 2), urgent(4)))) == []


def test_serving_gives_way_to_serving_only() -> None:
    serving = running("web", serves=True)
    assert leaving(place(full(serving, urgent(1)))) == []
    claimant = record(service("chat", replicas=1), tenant="search", priority=9, classes=BIG)
    assert leaving(place(full(serving, claimant))) == ["web"]


def test_never_across_isolation() -> None:
    own = Tenant("vision", isolation=Isolation.OWN_DEVICE)
    assert leaving(place(full(running("v", 4), urgent(4), tenants=(own,)))) == []
    assert leaving(place(full(running("v", 4, tenant="search"), urgent(4), tenants=(own,)))) == ["v"]


def test_room_that_somebody_leaves_already_is_waited_for_and_kept() -> None:
    going, low = running("going", 4, leaving=True), record(training("low", classes=BIG), priority=1)
    decisions = place(full(going, running("v", 4), urgent(4), low, free=1))
    assert leaving(decisions) == []
    [kept] = [one for one in decisions if isinstance(one, Hold) and one.workload == "low"]
    assert [verdict.reason for verdict in kept.verdicts] == [Reason.PREEMPTED]


def test_nobody_leaves_for_one_whose_budget_would_not_pay_for_the_place() -> None:
    """Found by deciding on a copy: room comes before money in what a hold tells."""
    poor = Tenant("search", budget=Budget(money_micros=MICROS))
    assert leaving(place(full(running("v", 4), urgent(4), tenants=(poor,)))) == []


def test_a_policy_may_forbid_it() -> None:
    world = full(running("v", 4), urgent(4))
    ruled = msgspec.structs.replace(world, policies=(Policy("calm", Verb.PLACE, settings={"preempt": False}),))
    assert leaving(place(world)) == ["v"]
    assert leaving(place(ruled)) == []


def test_two_who_claim_one_pool_take_it_one_after_the_other() -> None:
    world = full(running("v0", 2), running("v1", 2), urgent(2, 60, "first"), urgent(2, 50, "second"))
    told = [one for one in place(world) if isinstance(one, Reclaim)]
    assert [one.claimant for one in told] == ["first"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4]), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 4), st.sampled_from([1, 2, 4]), st.randoms(use_true_random=False),
)  # fmt: skip
@settings(max_examples=60)
def test_who_leaves_is_lower_enough_and_the_same_in_any_order(
    there: list[tuple[int, int, bool]], priority: int, devices: int, chance: object
) -> None:
    records = [
        running(f"v{n}", size, priority=own, checkpoint_s=60.0 if kept else 0.0)
        for n, (own, size, kept) in enumerate(there)
    ]
    found = place(full(*records, urgent(devices, priority)))
    gone = leaving(found)
    by_name = {one.name: one for one in records}
    assert all(by_name[name].spec.priority < priority for name in gone)
    freed = sum(by_name[name].spec.demand.devices // devices for name in gone)
    assert freed >= 1 or not gone
    assert len(gone) <= 1, "one pod is wanted, and whoever frees a seat for it frees a whole one"
    shuffled = list(records)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert leaving(place(full(*shuffled, urgent(devices, priority)))) == gone
    assert not any(isinstance(one, Place) for one in found)
