"""Borrowed quota that an owner needs is taken back while it is in use."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.decision import Decision, Hold, Reclaim
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant, TenantUsage
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord, WorkloadType
from dure.place import place
from dure.place.reclaim import GRACE_S, reclaims
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


def told(*verdicts: Verdict, world: Snapshot, name: str = "mine") -> list[tuple[str, str]]:
    """Who has to leave for whom when the claimant is held for these reasons."""
    return [(one.workload, one.claimant) for one in reclaims(world, (Hold(name, verdicts),))]


NO_ROOM = Verdict("a/big", Reason.NO_CAPACITY)


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        (Reason.NO_CAPACITY, True),
        (Reason.FRAGMENTED, True),
        (Reason.FAIR_SHARE, True),
        (Reason.GANG_INCOMPLETE, True),
        (Reason.BUDGET_EXCEEDED, False),
        (Reason.WAITING_FOR_CHEAPER_HOUR, False),
    ],
)
def test_only_want_of_room_takes_anything_back(reason: Reason, counts: bool) -> None:
    world = full(running("v0"), running("v1"), claim(devices=1), borrowed=2)
    assert bool(told(Verdict("a/big", reason), world=world)) is counts
    assert told(Verdict("gone/big", reason), world=world) == []
    assert told(Verdict("a/big", reason), world=world, name="unknown") == []
    assert reclaims(world, ()) == ()


def test_an_owner_has_waited_long_enough_from_the_second_on() -> None:
    borrowers = [running("v0"), running("v1")]
    assert told(NO_ROOM, world=full(*borrowers, claim(devices=1, waited_s=GRACE_S), borrowed=2)) == [("v0", "mine")]
    assert told(NO_ROOM, world=full(*borrowers, claim(devices=1, waited_s=GRACE_S - 1), borrowed=2)) == []


def test_of_two_pools_the_one_where_fewer_leave_is_taken_and_then_the_first_by_name() -> None:
    def there(name: str, cluster: str, devices: int = 1) -> WorkloadRecord:
        made = running(name)
        home = made.status.placement
        assert home is not None
        spec = msgspec.structs.replace(made.spec, demand=training(devices=devices).demand)
        moved = msgspec.structs.replace(home, cluster=cluster)
        return msgspec.structs.replace(made, spec=spec, status=msgspec.structs.replace(made.status, placement=moved))

    both = (Verdict("b/big", Reason.NO_CAPACITY), NO_ROOM)
    world = full(there("v0", "a"), there("v1", "a"), there("w0", "b", 2), claim(devices=2), borrowed=9)
    world = msgspec.structs.replace(world, pools=(*world.pools, msgspec.structs.replace(world.pools[0], cluster="b")))
    assert told(*both, world=world) == [("w0", "mine")]
    even = msgspec.structs.replace(world, records=(there("v0", "a", 2), *world.records[2:]))
    assert told(*both, world=even) == [("v0", "mine")]


@pytest.mark.parametrize(
    ("phase", "leaves"),
    [
        (Phase.PLACED, True),
        (Phase.STARTING, True),
        (Phase.RUNNING, True),
        (Phase.DONE, False),
        (Phase.HELD, False),
    ],
)
def test_only_who_holds_devices_has_to_leave(phase: Phase, leaves: bool) -> None:
    made = running("v0")
    made = msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, phase=phase))
    assert bool(told(NO_ROOM, world=full(made, claim(devices=1), borrowed=2))) is leaves


def test_nothing_is_taken_from_the_same_tenant_or_from_one_without_a_quota_to_borrow_beyond() -> None:
    assert told(NO_ROOM, world=full(running("v0", "search"), claim(devices=1), borrowed=2)) == []
    free = full(running("v0"), claim(devices=1), borrowed=2)
    unlimited = msgspec.structs.replace(free, tenants=(LENDER, Tenant("vision")))
    assert told(NO_ROOM, world=unlimited) == []
    nobody = msgspec.structs.replace(free, tenants=(BORROWER,))
    assert told(NO_ROOM, world=nobody) == [], "a claimant without a quota owns nothing"


def test_a_claimant_takes_back_no_more_than_what_its_quota_leaves_it() -> None:
    def holding(held: int) -> Snapshot:
        world = full(*(running(f"v{n}") for n in range(4)), claim(devices=2))
        usage = (TenantUsage("search", {"big": held}), TenantUsage("vision", {"big": 4000}))
        return msgspec.structs.replace(world, usage=usage)

    assert len(told(NO_ROOM, world=holding(1000))) == 2
    assert told(NO_ROOM, world=holding(1001)) == []
    other_class = claim(devices=2)
    other_class = msgspec.structs.replace(
        other_class, spec=msgspec.structs.replace(other_class.spec, classes=(AcceptedClass("small"),))
    )
    world = full(*(running(f"v{n}") for n in range(4)), other_class)
    assert told(NO_ROOM, world=world) == [], "it could not run there"


def test_nothing_is_borrowed_where_nothing_is_known_to_be_held() -> None:
    unseen = msgspec.structs.replace(full(running("v0"), claim(devices=1)), usage=())
    none_own = msgspec.structs.replace(unseen, tenants=(LENDER, Tenant("vision", quota={"big": 0})))
    assert told(NO_ROOM, world=none_own) == []
    with_shares = running("v0", demand=Demand(compute_milli=1))
    assert told(NO_ROOM, world=msgspec.structs.replace(none_own, records=(with_shares, none_own.records[1]))) == []


def test_a_gang_leaves_whole_and_only_if_all_of_it_was_borrowed() -> None:
    def gang(members: int) -> WorkloadRecord:
        made = running("v0", gang=members)
        home = made.status.placement
        assert home is not None
        placed = msgspec.structs.replace(home, replicas=members)
        return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, placement=placed))

    assert told(NO_ROOM, world=full(gang(3), claim(devices=1), borrowed=4)) == [("v0", "mine")]
    assert told(NO_ROOM, world=full(gang(4), claim(devices=1), borrowed=4)) == []
    two = full(gang(2), claim("one", 1), claim("two", 1), borrowed=4)
    decided = reclaims(two, (Hold("one", (NO_ROOM,)), Hold("two", (NO_ROOM,))))
    assert [(one.workload, one.claimant) for one in decided] == [("v0", "one")], "what one frees the other finds free"
    assert decided[0].reason.where == "a/big"
