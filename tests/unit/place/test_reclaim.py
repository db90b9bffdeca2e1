"""Borrowed quota that an owner needs is taken back while it is in use."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.decision import Decision, Reclaim
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant, TenantUsage
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord, WorkloadType
from dure.place import place
from dure.place.reclaim import GRACE_S
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, pool, record, snapshot

BIG = (AcceptedClass("big"),)
LENDER, BORROWER = Tenant("search", quota={"big": 3}), Tenant("vision", quota={"big": 1})


def running(name: str, tenant: str = "vision", **changes: object) -> WorkloadRecord:
    made = record(training(name, classes=BIG), tenant=tenant, submitted_s=NOW_S - 5000, **changes)
    home = Placement(name, 1, "a", "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, NOW_S - 4000)
    status = msgspec.structs.replace(made.status, phase=Phase.RUNNING, placement=home, started_s=NOW_S - 4000)
    return msgspec.structs.replace(made, status=status)


def claim(name: str = "mine", devices: int = 2, waited_s: float = GRACE_S) -> WorkloadRecord:
    return record(training(name, devices=devices, classes=BIG), tenant="search", submitted_s=NOW_S - waited_s)


def full(*records: WorkloadRecord, borrowed: int = 4) -> Snapshot:
    taken = msgspec.structs.replace(pool("a"), free_whole=(0,), free_milli=0)
    usage = (TenantUsage("search"), TenantUsage("vision", device_milli={"big": borrowed * 1000}))
    return snapshot(records, pools=(taken,), tenants=(LENDER, BORROWER), usage=usage)


def leaving(decisions: tuple[Decision, ...]) -> list[str]:
    return sorted(one.workload for one in decisions if isinstance(one, Reclaim))


def test_an_owner_gets_back_just_what_it_needs_and_the_least_important_leave() -> None:
    world = full(running("v0", priority=5), running("v1"), running("v2"), running("v3", priority=5), claim())
    decisions = place(world)
    assert leaving(decisions) == ["v1", "v2"]
    told = next(one for one in decisions if isinstance(one, Reclaim))
    assert (told.lender, told.claimant, told.reason.reason) == ("search", "mine", Reason.QUOTA_RECLAIMED)


def test_nobody_is_pushed_under_its_own_quota() -> None:
    assert len(leaving(place(full(*(running(f"v{n}") for n in range(4)), claim(devices=3))))) == 3
    assert leaving(place(full(running("v0"), claim(devices=1), borrowed=1))) == []


def test_a_claim_beyond_the_own_quota_takes_nothing_back() -> None:
    assert leaving(place(full(*(running(f"v{n}") for n in range(4)), claim(devices=4)))) == []


def test_nobody_leaves_when_that_would_not_make_the_room() -> None:
    assert leaving(place(full(running("v0"), running("v1"), claim(devices=3), borrowed=3))) == []


def test_an_owner_waits_a_while_before_others_have_to_go() -> None:
    assert leaving(place(full(*(running(f"v{n}") for n in range(4)), claim(waited_s=10.0)))) == []


def test_two_claims_take_back_different_devices_and_no_more_than_was_lent() -> None:
    borrowers = [running(f"v{n}") for n in range(4)]
    assert leaving(place(full(*borrowers, claim("one", 1), claim("two", 1)))) == ["v0", "v1"]
    assert len(leaving(place(full(*borrowers, claim("one", 2), claim("two", 2))))) == 2, "three are the owner's quota"


def test_who_can_be_interrupted_and_has_done_least_goes_first_and_who_serves_never() -> None:
    def begun(name: str, done_s: float, **spec: object) -> WorkloadRecord:
        made = running(name, "vision", **spec)
        return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, done_s=done_s))

    serving = begun("s", 0.0, type=WorkloadType.SERVING)
    firm = begun("firm", 0.0, interruptible=False)
    old, new = begun("old", 900.0, interruptible=True), begun("new", 100.0, interruptible=True)
    world = full(serving, firm, old, new, claim(devices=1))
    assert leaving(place(world)) == ["new"]
    assert leaving(place(full(serving, firm, old, new, claim(devices=2)))) == ["new", "old"]
    assert leaving(place(full(serving, firm, old, new, claim(devices=3)))) == ["firm", "new", "old"]


def test_what_is_free_already_need_not_be_taken_back() -> None:
    world = full(*(running(f"v{n}") for n in range(3)), claim(devices=2), borrowed=3)
    (home,) = world.pools
    one_free = msgspec.structs.replace(home, free_whole=(1,), free_milli=1000)
    assert leaving(place(msgspec.structs.replace(world, pools=(one_free,)))) == ["v0"]


def test_who_is_on_the_way_out_is_not_asked_again() -> None:
    going = running("v0")
    going = msgspec.structs.replace(going, status=msgspec.structs.replace(going.status, leaving_s=NOW_S))
    assert leaving(place(full(going, running("v1"), running("v2"), claim(devices=1), borrowed=3))) == ["v1"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(1, 4))
def test_what_leaves_was_borrowed_and_what_is_claimed_is_owned(claims: list[int], borrowed: int) -> None:
    waiting = [claim(f"s{n}", devices=size) for n, size in enumerate(claims)]
    gone = leaving(place(full(*(running(f"v{n}") for n in range(borrowed)), *waiting, borrowed=borrowed)))
    assert len(gone) == len(set(gone)) <= max(0, borrowed - BORROWER.quota["big"])
