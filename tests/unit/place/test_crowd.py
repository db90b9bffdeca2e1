"""A long queue gets the answers that it would get if everybody in it were looked at, for the price of its heads."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.decision import Decision, Hold, Place, Reclaim
from dure.model.demand import Demand
from dure.model.snapshot import Snapshot
from dure.model.tenant import Tenant, TenantUsage
from dure.model.workload import AcceptedClass, WorkloadRecord
from dure.place import crowd, place
from dure.place.candidate import Cycle
from dure.place.crowd import CROWD, LEAST, queue_of
from tests.fixtures.small_world import training
from tests.unit.place.test_batch import running
from tests.unit.place.worlds import NOW_S, pool, record, snapshot

BIG = (AcceptedClass("big"),)
HOUR_S = 3600.0


def job(number: int, **changes: object) -> WorkloadRecord:
    spec = training(f"job-{number:04}", classes=BIG, duration_s=HOUR_S, devices=1)
    return record(replace(spec, **{"gang": 1, **changes}), submitted_s=NOW_S - 5000.0 + number)


def placed(decisions: tuple[Decision, ...]) -> list[str]:
    return sorted(one.workload for one in decisions if isinstance(one, Place))


def codes(decisions: tuple[Decision, ...]) -> dict[str, set[tuple[str, object]]]:
    holds = [one for one in decisions if isinstance(one, Hold)]
    return {one.workload: {(verdict.where, verdict.reason) for verdict in one.verdicts} for one in holds}


def with_everybody_looked_at(world: Snapshot, monkeypatch: pytest.MonkeyPatch) -> tuple[Decision, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(crowd, "CROWD", 10**9)
        return place(world)


def test_a_queue_that_is_no_crowd_is_looked_at_as_it_is() -> None:
    waiting = tuple(job(number) for number in range(CROWD))
    found = queue_of(Cycle(snapshot(waiting), waiting), waiting)
    assert found.looked == waiting
    assert not found.tails


def test_of_a_crowd_as_many_of_each_kind_are_looked_at_as_there_is_room_for() -> None:
    pools = (pool("a", nodes=20), pool("b", nodes=10))
    waiting = (
        *(job(number) for number in range(CROWD)),
        *(job(number, gang=4) for number in range(CROWD, CROWD + 90)),
    )
    found = queue_of(Cycle(snapshot(waiting, pools=pools), waiting), waiting)
    free = sum(sum(one.free_whole) for one in pools)
    assert sorted(one.name for one in found.looked) == [
        *(f"job-{number:04}" for number in range(free)),
        *(f"job-{number:04}" for number in range(CROWD, CROWD + free // 4)),
    ]
    assert [len(tail) for tail in found.tails] == [CROWD - free, 90 - free // 4]


def test_in_a_crowd_too_those_who_can_be_in_time_come_before_those_who_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = [job(number, deadline_s=HOUR_S, deferrable=False) for number in range(CROWD)]
    able = [job(number, deadline_s=9 * HOUR_S, deferrable=False) for number in range(CROWD, 2 * CROWD)]
    world = snapshot((*lost, *able), pools=(pool("a", nodes=3), pool("b", nodes=2)))
    decisions = place(world)
    assert placed(decisions) == [one.name for one in able[:20]]
    whole = with_everybody_looked_at(world, monkeypatch)
    assert placed(decisions) == placed(whole)
    assert codes(decisions) == codes(whole)


def test_the_first_of_a_crowd_get_the_room_and_all_others_hear_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [job(number) for number in range(CROWD + 100)]
    random.Random(3).shuffle(waiting)
    world = snapshot(tuple(waiting), pools=(pool("a", nodes=3), pool("b", nodes=2)))
    decisions = place(world)
    assert placed(decisions) == [f"job-{number:04}" for number in range(20)]
    assert sorted([*placed(decisions), *codes(decisions)]) == sorted(one.name for one in waiting)
    whole = with_everybody_looked_at(world, monkeypatch)
    assert placed(decisions) == placed(whole)
    assert codes(decisions) == codes(whole)


def test_a_tail_gets_its_turn_when_room_comes() -> None:
    waiting = tuple(job(number) for number in range(CROWD + 100))
    full = replace(pool("a"), free_whole=(0,), free_milli=0)
    assert placed(place(snapshot(waiting, pools=(full,)))) == []
    roomy = pool("a", nodes=100)
    assert len(placed(place(snapshot(waiting, pools=(roomy,))))) == CROWD + 100


def test_one_of_another_kind_behind_a_crowd_that_has_no_room_is_placed() -> None:
    crowded = tuple(job(number, gang=4) for number in range(CROWD + 100))
    small = job(9000)
    world = snapshot((*crowded, small), pools=(replace(pool("a"), free_whole=(1,), free_milli=1000),))
    assert placed(place(world)) == ["job-9000"]


def test_workloads_that_differ_only_in_how_long_they_take_are_kin_unless_they_may_wait_for_another_hour() -> None:
    now = tuple(job(number, duration_s=HOUR_S + number) for number in range(CROWD + 1))
    later = tuple(job(number, duration_s=HOUR_S + number, deadline_s=9e5) for number in range(CROWD + 1))
    full = (replace(pool("a"), free_whole=(0,), free_milli=0),)
    assert len(queue_of(Cycle(snapshot(now, pools=full), now), now).looked) == LEAST
    assert len(queue_of(Cycle(snapshot(later, pools=full), later), later).looked) == CROWD + 1


def test_shares_that_take_whatever_is_left_are_all_looked_at() -> None:
    waiting = tuple(job(number, demand=Demand(memory_mib=1024)) for number in range(CROWD + 1))
    assert len(queue_of(Cycle(snapshot(waiting), waiting), waiting).looked) == CROWD + 1


@pytest.mark.parametrize("borrowers", [1, CROWD + 50])
def test_what_a_tail_waits_for_is_not_lent_to_others(borrowers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's queue wants all of its quota; only so much of it is looked at as is free now."""
    owners = tuple(job(number, tenant="vision") for number in range(CROWD + 100))
    others = tuple(job(5000 + number, tenant="speech", priority=9) for number in range(borrowers))
    tenants = (Tenant("vision", quota={"big": 36}), Tenant("speech", quota={"big": 0}))
    pools = (replace(pool("a", nodes=10), free_whole=(4, 4) + (0,) * 8, free_milli=8000),)
    used = (TenantUsage("vision", device_milli={"big": 4000}), TenantUsage("speech", device_milli={"big": 4000}))
    world = snapshot((*owners, *others), pools=pools, tenants=tenants, usage=used)
    decisions = place(world)
    assert [name for name in placed(decisions) if name >= "job-5000"] == []
    assert placed(decisions) == placed(with_everybody_looked_at(world, monkeypatch))


def test_an_owner_behind_whom_a_crowd_waits_takes_back_what_was_lent() -> None:
    owners = tuple(job(number, tenant="vision") for number in range(CROWD + 100))
    guest = running("guest", 5.0)
    guest = replace(guest, spec=replace(guest.spec, tenant="speech", gang=1))
    tenants = (Tenant("speech", quota={"big": 0}), Tenant("vision", quota={"big": 4}))
    used = (TenantUsage("speech", device_milli={"big": 4000}), TenantUsage("vision"))
    full = replace(pool("a"), free_whole=(0,), free_milli=0)
    decisions = place(snapshot((guest, *owners), pools=(full,), tenants=tenants, usage=used))
    assert [one.workload for one in decisions if isinstance(one, Reclaim)] == ["guest"]


@settings(max_examples=25, deadline=None)
@given(
    kinds=st.lists(
        st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 2), st.sampled_from(["vision", "speech"])),
        min_size=1,
        max_size=5,
    ),
    nodes=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    seed=st.integers(0, 2**16),
)
def test_no_crowd_overcommits_forgets_anybody_or_overtakes_its_kin(
    kinds: list[tuple[int, int, str]], nodes: tuple[int, int], seed: int
) -> None:
    draw = random.Random(seed)
    drawn = [draw.choice(kinds) for _ in range(CROWD + 60)]
    waiting = tuple(
        job(number, demand=Demand(devices=devices), priority=priority, tenant=tenant)
        for number, (devices, priority, tenant) in enumerate(drawn)
    )
    pools = tuple(pool(name, nodes=count) for name, count in zip("ab", nodes, strict=True) if count)
    decisions = place(snapshot(waiting, pools=pools, tenants=(Tenant("speech"), Tenant("vision"))))
    assert sorted(one.workload for one in decisions if isinstance(one, (Place, Hold))) == [
        one.name for one in waiting
    ]
    size = {one.name: one.spec.demand.devices for one in waiting}
    inside = placed(decisions)
    assert sum(size[name] for name in inside) <= sum(sum(one.free_whole) for one in pools)
    for kind in set(drawn):
        alike = [one.name for one, its in zip(waiting, drawn, strict=True) if its == kind]
        assert [name for name in alike if name in inside] == alike[: sum(name in inside for name in alike)]
