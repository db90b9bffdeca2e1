"""Who stands aside: one in the way of somebody in a hurry, who can be in time all the same, and nobody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.cluster import VNodePool
from dure.model.decision import Hold, Move
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant, TenantUsage
from dure.model.units import HOUR_S
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord
from dure.place.asked import asked_of, comes_first, interruption, latest_start, may_be_asked, stopped
from dure.place.instance import broken
from dure.place.option import options, world_of
from dure.place.rearrange import LEAVING_S, SEATING_S, _Plan, rearrangement, way_for
from dure.place.settings import PlaceSettings, StandAside, settings_of
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

BIG = (AcceptedClass("big"),)
RULE = PlaceSettings()


def running(name: str = "long", *, devices: int = 4, ago_h: float = 2.0, **changes: Any) -> WorkloadRecord:
    """On `a` for two hours, with ten more to go and forty until its deadline."""
    job = training(name, classes=BIG, devices=devices, gang=1, duration_s=12 * HOUR_S)
    job = replace(job, deadline_s=42 * HOUR_S, checkpoint_s=1200.0, interruptible=True, deferrable=True)
    status = {key: changes.pop(key) for key in list(changes) if key in record(job).status.__struct_fields__}
    home = Placement(name, 1, "a", "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, NOW_S - ago_h * HOUR_S)
    made = record(replace(job, **changes), submitted_s=NOW_S - ago_h * HOUR_S)
    began = {"phase": Phase.RUNNING, "placement": home, "started_s": NOW_S - ago_h * HOUR_S, "done_s": ago_h * HOUR_S}
    return replace(made, status=replace(made.status, **{**began, **status}))


def waits(
    name: str = "short", *, devices: int = 4, hours: float = 1.0, due_h: float = 4.0, **spec: Any
) -> WorkloadRecord:
    job = training(name, classes=BIG, devices=devices, gang=1, duration_s=hours * HOUR_S)
    return record(replace(job, **{"deadline_s": due_h * HOUR_S, "deferrable": True, **spec}))


def full(free: int = 0) -> VNodePool:
    return replace(pool("a"), free_whole=(free,), free_milli=free * 1000)


def world(*records: WorkloadRecord, here: VNodePool | None = None, price: int | tuple[int, ...] = 1000) -> Snapshot:
    """One pool of four devices, all taken."""
    held: dict[str, int] = {}
    for one in records:
        if one.status.placement is not None:
            held[one.spec.tenant] = held.get(one.spec.tenant, 0) + one.spec.demand.device_milli
    return snapshot(
        tuple(sorted(records, key=lambda one: one.name)),
        pools=(here or full(),),
        tariffs=(tariff("a", price),),
        grids=(carbon("a", 100.0),),
        tenants=(Tenant("vision"), Tenant("search")),
        usage=tuple(TenantUsage(name, {"big": milli}) for name, milli in sorted(held.items())),
    )


def asides(*records: WorkloadRecord, **more: Any) -> list[str]:
    return [one.workload for one in rearrangement(world(*records, **more), 8)]


def test_one_with_slack_stands_aside_for_one_who_would_be_late_and_says_for_whom_and_what_it_costs() -> None:
    [hold] = rearrangement(world(running(), waits()), 8)
    assert isinstance(hold, Hold)
    [verdict] = hold.verdicts
    assert (hold.workload, verdict.where, verdict.reason) == ("long", "a/big", Reason.STANDS_ASIDE)
    assert verdict.wanted.endswith("UTC on a/big")
    assert verdict.found == "40,000 if it went on here"
    assert verdict.detail == "makes room for short"
    assert hold.until_s == NOW_S + HOUR_S, "prices are new every hour: it is looked at again then"


def test_it_is_not_looked_at_again_before_its_guests_have_sat_down() -> None:
    seen = replace(world(running(), waits()), now_s=NOW_S + 0.9 * HOUR_S)
    seen = replace(seen, clusters=tuple(replace(one, observed_s=seen.now_s) for one in seen.clusters))
    [hold] = rearrangement(seen, 8)
    assert isinstance(hold, Hold)
    assert hold.until_s == NOW_S + 0.9 * HOUR_S + SEATING_S


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="nobody waits"),
        pytest.param([waits(due_h=30.0)], id="the guest can wait until it has ended"),
        pytest.param([waits(hours=0.1, devices=1, due_h=16.0)], id="the guest is hardly late and small"),
        pytest.param([waits(deadline_s=None)], id="the guest has no deadline"),
        pytest.param([waits(hours=9.0)], id="the guest's deadline is lost"),
        pytest.param([waits(devices=8)], id="it would not be enough room"),
        pytest.param([waits(tenant="search")], id="the guest is another tenant's"),
        pytest.param([waits(priority=-1)], id="the guest is less important"),
        pytest.param([waits(classes=(AcceptedClass("small"),))], id="the guest wants another class"),
    ],
)
def test_it_stays_where_nobody_gains_enough_by_it(others: list[WorkloadRecord]) -> None:
    assert asides(running(), *others) == []


def test_a_higher_priority_is_made_room_for_whosever_it_is() -> None:
    guest = waits(tenant="search", priority=5)
    [hold] = rearrangement(world(running(), guest), 8)
    assert isinstance(hold, Hold)
    assert hold.verdicts[0].detail == "makes room for 1 of other tenants"


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_s": 0.0},
        {"interruptible": False},
        {"deferrable": False},
        {"deadline_s": None},
        {"deadline_s": 15 * HOUR_S},
        {"leaving_s": NOW_S},
        {"moving_to": "b/big"},
        {"moved_s": NOW_S - HOUR_S},
        {"phase": Phase.STARTING},
        {"done_s": 11.9 * HOUR_S},
    ],
)
def test_who_could_not_stop_or_would_be_late_by_it_is_not_asked(changes: dict[str, Any]) -> None:
    seen = world(running(**changes), waits())
    assert not may_be_asked(seen.records[0], seen, RULE)
    assert rearrangement(seen, 8) == ()


def test_who_runs_on_spot_or_where_nobody_answers_is_not_asked() -> None:
    one = running()
    home = one.status.placement
    assert home is not None
    spot = replace(one, status=replace(one.status, placement=replace(home, capacity=Capacity.SPOT)))
    wide = replace(one, status=replace(one.status, placement=replace(home, replicas=2)))
    lost = replace(one, status=replace(one.status, placement=replace(home, cluster="gone")))
    seen = world(one)
    away = replace(seen, clusters=tuple(replace(it, reachable=False) for it in seen.clusters))
    assert may_be_asked(one, seen, RULE)
    assert not any(may_be_asked(it, seen, RULE) for it in (spot, wide, lost))
    assert not may_be_asked(one, away, RULE)
    assert not may_be_asked(one, replace(seen, tariffs=()), RULE)


def test_room_that_somebody_is_leaving_already_is_enough() -> None:
    both = (running("long", devices=2), running("other", devices=2, leaving_s=NOW_S - 60.0))
    assert asides(*both, waits(devices=2)) == []
    assert asides(both[0], running("other", devices=2, interruptible=False), waits(devices=2)) == ["long"]


def test_room_that_was_just_given_away_is_not_given_again() -> None:
    """One device is reported free; who was just placed has it."""
    home = running().status.placement
    assert home is not None
    placed = running("new", devices=1, phase=Phase.PLACED, placement=replace(home, workload="new"), started_s=None)
    guest = waits(devices=1, gang=4)
    assert asides(running(devices=3), guest, here=full(1)) == ["long"]
    assert asides(running(devices=3), placed, guest, here=full(1)) == []


def test_an_interruption_is_work_done_again_and_half_of_the_slack_is_kept() -> None:
    one = running()
    seen = world(one)
    again_s = interruption(one, seen)
    assert again_s == 600.0 + seen.catalogue.load_s(one.spec.model)
    assert stopped(one, seen).status.done_s == 2 * HOUR_S - again_s
    slack_s = 40 * HOUR_S - 1.3 * (10 * HOUR_S + again_s)
    assert latest_start(one, seen, RULE) == pytest.approx(NOW_S + slack_s / 2)


def test_a_much_cheaper_hour_where_it_is_is_waited_for_though_nobody_wants_the_room() -> None:
    dear_now = tuple(9000 if hour < 6 else 1000 for hour in range(168))
    [hold] = rearrangement(world(running(), price=dear_now), 8)
    assert isinstance(hold, Hold)
    assert "from 06:00 UTC" in hold.verdicts[0].wanted
    assert hold.verdicts[0].detail == "a later hour is cheaper for it"
    assert asides(running(), price=tuple(1100 if hour < 6 else 1000 for hour in range(168))) == []


def test_where_there_is_plenty_of_room_elsewhere_it_goes_on_there_at_once() -> None:
    seen = snapshot(
        (running(), waits()),
        pools=(full(), pool("b", nodes=3)),
        tariffs=(tariff("a", 1000), tariff("b", 950)),
        grids=(carbon("a", 100.0), carbon("b", 100.0)),
        b=replace(world().clusters[0], name="b", region="elsewhere"),
    )
    bound = replace(seen, records=(seen.records[0], replace(waits(), spec=replace(waits().spec, regions=("a-*",)))))
    [move] = rearrangement(bound, 8)
    assert isinstance(move, Move)
    assert (move.workload, move.placement.cluster) == ("long", "b")


def test_at_most_so_many_are_asked_and_those_with_the_most_left_first() -> None:
    jobs = [running(f"r{number}", devices=1, done_s=number * HOUR_S) for number in range(4)]
    guests = [waits(f"g{number}", devices=1, hours=2.5) for number in range(4)]
    seen = world(*jobs, *guests)
    assert [one.name for one in asked_of(seen, jobs, guests, RULE)] == ["r0", "r1", "r2", "r3"]
    assert {one.workload for one in rearrangement(seen, 2)} == {"r0", "r1"}
    assert {one.workload for one in rearrangement(seen, 8, frozenset({"r0"}))} == {"r1", "r2", "r3"}
    assert {one.workload for one in rearrangement(seen, 8, among=frozenset({"r3"}))} == {"r3"}
    assert rearrangement(seen, 0) == ()


def under(seen: Snapshot, mode: StandAside, **more: float) -> Snapshot:
    return replace(seen, policies=(Policy("ours", Verb.PLACE, settings={"standAside": mode.value, **more}),))


def beside_a_dear_pool(*records: WorkloadRecord, there: VNodePool | None = None) -> Snapshot:
    """As `world`, with four devices more at three times the price."""
    seen = snapshot(
        tuple(sorted(records, key=lambda one: one.name)),
        pools=(full(), there or pool("b", nodes=2)),
        tariffs=(tariff("a", 1000), tariff("b", 3000)),
        grids=(carbon("a", 100.0), carbon("b", 100.0)),
        tenants=(Tenant("vision"), Tenant("search")),
    )
    usage = tuple(one for one in world(*records).usage)
    return replace(seen, usage=usage)


def patient(name: str = "short", **spec: Any) -> WorkloadRecord:
    """Must not start for four hours yet, but ends too soon to wait for the end of the long run."""
    return waits(name, **{"hours": 3.0, "due_h": 8.0, **spec})


def test_always_one_makes_room_for_its_own_tenants_work_that_would_pay_more_though_nobody_is_in_a_hurry() -> None:
    seen = beside_a_dear_pool(running(), patient())
    assert rearrangement(under(seen, StandAside.HURRIED), 8) == ()
    [hold] = rearrangement(under(seen, StandAside.ALWAYS), 8)
    assert isinstance(hold, Hold)
    assert (hold.workload, hold.verdicts[0].detail) == ("long", "makes room for short")


@pytest.mark.parametrize(
    "guest",
    [
        pytest.param(patient(tenant="search"), id="another tenant's"),
        pytest.param(patient(priority=-1), id="less important"),
        pytest.param(patient(hours=0.2, devices=1), id="small"),
        pytest.param(patient(classes=(AcceptedClass("small"),)), id="of another class"),
    ],
)
def test_always_is_not_for_everybody(guest: WorkloadRecord) -> None:
    assert rearrangement(under(beside_a_dear_pool(running(), guest), StandAside.ALWAYS), 8) == ()


def test_always_a_higher_priority_of_another_tenant_is_a_guest_too() -> None:
    guest = patient(tenant="search", priority=5)
    assert len(rearrangement(under(beside_a_dear_pool(running(), guest), StandAside.ALWAYS), 8)) == 1


@pytest.mark.parametrize("changes", [{"deadline_s": 15 * HOUR_S}, {"moved_s": NOW_S - HOUR_S}, {"checkpoint_s": 0.0}])
def test_always_nobody_is_asked_who_would_be_late_or_has_just_moved(changes: dict[str, Any]) -> None:
    seen = under(beside_a_dear_pool(running(**changes), patient()), StandAside.ALWAYS)
    assert rearrangement(seen, 8) == ()


def test_all_of_the_slack_may_be_used_where_another_home_has_plenty_of_room_else_half_of_it() -> None:
    one = running()
    seen = beside_a_dear_pool(one)
    slack_s = 40 * HOUR_S - 1.3 * (10 * HOUR_S + interruption(one, seen))
    rule = PlaceSettings(stand_aside=StandAside.ALWAYS)
    home = options(one.spec, world_of(seen, 36), NOW_S)
    assert latest_start(one, seen, rule) == pytest.approx(NOW_S + slack_s / 2)
    assert latest_start(one, seen, rule, home) == pytest.approx(NOW_S + slack_s)
    assert latest_start(one, seen, RULE, home) == pytest.approx(NOW_S + slack_s / 2)
    assert latest_start(one, seen, replace(rule, aside_slack=0.7), home) == pytest.approx(NOW_S + 0.7 * slack_s)
    assert latest_start(one, seen, replace(RULE, aside_slack=0.2), home) == pytest.approx(NOW_S + 0.2 * slack_s)


def test_always_one_in_a_dear_home_leaves_for_a_later_hour_elsewhere_that_saves_the_threshold() -> None:
    """Its room is free again in two hours, when the one who has it now should be done."""
    ends = running("ends", done_s=10.6 * HOUR_S, interruptible=False)
    long = running()
    home = long.status.placement
    assert home is not None
    dear = replace(long, status=replace(long.status, placement=replace(home, cluster="b")))
    there = replace(pool("b"), free_whole=(0,), free_milli=0)
    seen = beside_a_dear_pool(ends, dear, there=there)
    assert rearrangement(under(seen, StandAside.HURRIED), 8) == ()
    [hold] = rearrangement(under(seen, StandAside.ALWAYS), 8)
    assert isinstance(hold, Hold)
    assert (hold.workload, hold.verdicts[0].where) == ("long", "b/big")
    assert hold.verdicts[0].wanted.endswith("UTC on a/big")
    assert rearrangement(under(seen, StandAside.ALWAYS, moveThreshold=0.9), 8) == ()
    tight = replace(dear, spec=replace(dear.spec, deadline_s=17 * HOUR_S))
    late = beside_a_dear_pool(ends, tight, there=there)
    assert rearrangement(under(late, StandAside.ALWAYS), 8) == (), "two hours are more than half of its slack"


def given_there(guest: WorkloadRecord) -> dict[str, Placement]:
    home = Placement(guest.name, 1, "b", "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, NOW_S)
    return {guest.name: home}


def test_one_who_has_just_come_waits_for_its_host_to_leave_instead_of_paying_more() -> None:
    guest = patient()
    seen = under(beside_a_dear_pool(running(), guest), StandAside.ALWAYS)
    leaving, [hold] = way_for(seen, 8, frozenset(), given_there(guest))
    assert [one.workload for one in leaving] == ["long"]
    assert hold.until_s == NOW_S + 1200.0 + LEAVING_S
    [verdict] = hold.verdicts
    assert (hold.workload, verdict.where, verdict.reason) == ("short", "a/big", Reason.WAITING_FOR_CHEAPER_HOUR)
    assert (verdict.wanted, verdict.found) == ("12,000 on a/big", "36,000 if started now on b/big")
    assert verdict.detail == "long makes room"


@pytest.mark.parametrize(
    ("guest", "there"),
    [
        pytest.param(patient(tenant="search"), None, id="another tenant's"),
        pytest.param(patient(deferrable=False), None, id="it may not wait"),
        pytest.param(patient(due_h=4.1), None, id="it could not be in time after it"),
        pytest.param(patient(), pool("b"), id="the home that it has now might be gone"),
    ],
)
def test_one_who_has_just_come_starts_where_it_can_if_waiting_is_not_safe_or_not_for_it(
    guest: WorkloadRecord, there: VNodePool | None
) -> None:
    seen = under(beside_a_dear_pool(running(), guest, there=there), StandAside.ALWAYS)
    assert way_for(seen, 8, frozenset(), given_there(guest)) == ((), ())


def test_nobody_is_asked_for_one_who_was_given_the_cheaper_home() -> None:
    guest = patient()
    home = replace(given_there(guest)["short"], cluster="a")
    seen = under(beside_a_dear_pool(running(), guest), StandAside.ALWAYS)
    assert way_for(seen, 8, frozenset(), {"short": home}) == ((), ())
    assert way_for(seen, 0, frozenset(), given_there(guest)) == ((), ())
    assert way_for(seen, 8, frozenset({"long"}), given_there(guest)) == ((), ())


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    runners = [
        running(
            f"r{number}",
            devices=draw(st.integers(1, 2)),
            done_s=draw(st.integers(0, 9)) * HOUR_S,
            deadline_s=draw(st.integers(14, 50)) * HOUR_S,
            priority=draw(st.integers(0, 1)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    guests = [
        waits(
            f"g{number}",
            devices=draw(st.integers(1, 4)),
            hours=draw(st.sampled_from([0.5, 1.0, 3.0])),
            due_h=draw(st.integers(2, 20)),
            tenant=draw(st.sampled_from(["vision", "search"])),
            priority=draw(st.integers(0, 1)),
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    free = max(0, 8 - sum(one.spec.demand.devices for one in runners))
    here = replace(pool("a", devices=8), free_whole=(free,), free_milli=free * 1000)
    seen = world(*runners, *guests, here=here)
    if draw(st.booleans()):
        dear = replace(
            seen.pools[0], cluster="b", free_whole=(8,), free_milli=8000, nodes_max=draw(st.integers(1, 2))
        )
        seen = replace(
            seen,
            pools=(*seen.pools, dear),
            tariffs=(*seen.tariffs, tariff("b", draw(st.sampled_from([900, 2000, 4000])))),
            carbon=(*seen.carbon, carbon("b", 100.0)),
            clusters=(*seen.clusters, replace(seen.clusters[0], name="b", region="b-region", grid="b")),
        )
    return under(seen, draw(st.sampled_from([StandAside.HURRIED, StandAside.ALWAYS])))


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Long runs with slack fill the cheap pool; those who wait could pay for a dear one."""
    width = draw(st.sampled_from([2, 4]))
    runners = [
        running(f"r{number}", devices=width, deadline_s=draw(st.integers(20, 60)) * HOUR_S)
        for number in range(4 // width)
    ]
    guests = [
        waits(
            f"g{number}",
            devices=draw(st.integers(1, 4)),
            hours=draw(st.integers(1, 4)),
            due_h=draw(st.integers(3, 12)),
            tenant=draw(st.sampled_from(["vision", "vision", "search"])),
            deferrable=draw(st.sampled_from([True, True, False])),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    seen = beside_a_dear_pool(*runners, *guests, there=pool("b", nodes=draw(st.integers(1, 4))))
    return under(seen, draw(st.sampled_from([StandAside.HURRIED, StandAside.ALWAYS])))


@settings(max_examples=100, deadline=None)
@given(fleets() | crowded(), st.randoms(use_true_random=False))
def test_whoever_stands_aside_can_be_in_time_and_the_order_of_the_snapshot_does_not_matter(
    seen: Snapshot, chance: Any
) -> None:
    found = rearrangement(seen, 8)
    records = {one.name: one for one in seen.records}
    rule = settings_of(seen.policy(Verb.PLACE))
    for one in found:
        job = records[one.workload]
        assert may_be_asked(job, seen, rule)
        if isinstance(one, Hold):
            assert one.until_s is not None
            last_s = latest_start(job, seen, rule, options(job.spec, world_of(seen, 36), seen.now_s))
            assert seen.now_s < one.until_s <= max(last_s, seen.now_s + SEATING_S)
            due_s = job.status.submitted_s + (job.spec.deadline_s or 0.0)
            left_s = 12 * HOUR_S - job.status.done_s + interruption(job, seen)
            assert last_s + rule.duration_high * left_s <= due_s + 1e-3, "a slow run from then on is in time"
    shuffled = list(seen.records)
    chance.shuffle(shuffled)
    assert rearrangement(replace(seen, records=tuple(shuffled)), 8) == found


@settings(max_examples=60, deadline=None)
@given(fleets() | crowded())
def test_whom_the_first_look_leaves_out_would_not_have_left(seen: Snapshot) -> None:
    seen = under(seen, StandAside.ALWAYS)
    everybody = frozenset(one.name for one in seen.records if one.status.placement is not None)
    assert {one.workload for one in rearrangement(seen, 8)} == {
        one.workload for one in rearrangement(seen, 8, among=everybody)
    }


@settings(max_examples=60, deadline=None)
@given(fleets() | crowded())
def test_whoever_waits_for_a_host_can_be_in_time_in_the_home_it_was_given(seen: Snapshot) -> None:
    seen = under(seen, StandAside.ALWAYS)
    new = [one for one in seen.records if one.status.phase.waits] if len(seen.pools) > 1 else []
    leaving, guests = way_for(
        seen, 8, frozenset(), {name: home for one in new for name, home in given_there(one).items()}
    )
    hosts = {one.workload: one for one in leaving}
    assert bool(hosts) == bool(guests)
    for hold in guests:
        spec = next(one.spec for one in new if one.name == hold.workload)
        assert hold.until_s is not None
        assert hold.until_s + RULE.duration_high * spec.duration_s <= NOW_S + (spec.deadline_s or 0.0)
        assert any(comes_first(record(spec), one) for one in seen.records if one.name in hosts)


@settings(max_examples=40, deadline=None)
@given(fleets() | crowded())
def test_no_room_is_given_twice_and_nobody_who_runs_is_left_out(seen: Snapshot) -> None:
    able = [one for one in seen.records if may_be_asked(one, seen, RULE)]
    if not able:
        return
    plan = _Plan(seen, able, [one for one in seen.records if one.status.phase.waits])
    found = plan._asked(plan.instance, RULE.move_threshold)
    assert broken(plan.instance, found) == ""
    assert (found[plan.stay >= 0] >= 0).all()
    assert np.array_equal(plan.stay >= 0, [one.uid in plan.runs for one in plan.batch.records])
