"""What a cycle knows of one home: what it takes there, what comes back when, and what is gone once it is given."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.decision import Place
from dure.model.demand import Demand
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason, Verdict
from dure.model.tariff import Capacity
from dure.model.tenant import Budget, Tenant
from dure.model.workload import AcceptedClass, Phase, Placement, SpeedUp, WorkloadRecord, WorkloadType
from dure.place import place
from dure.place.candidate import Candidate, Cycle, _longest_h, device_need, resources
from dure.place.settings import PlaceSettings
from dure.place.spans import expected_end, past_help
from tests.fixtures.small_world import GIB, fraction, training
from tests.unit.place.worlds import NOW_S, pool, record, snapshot, tariff

HOUR_S = 3600.0
SMALL = (AcceptedClass("big"), AcceptedClass("small", 0.5))


def running(
    name: str, hours: float, *, began_h: float | None = 0.0, replicas: int = 2, **spec: object
) -> WorkloadRecord:
    """Members on `a` that should have started an hour ago."""
    made = record(replace(training(name, duration_s=hours * HOUR_S, gang=replicas), **spec))
    home = Placement(name, 1, "a", "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, replicas, NOW_S, NOW_S - HOUR_S)
    started_s = None if began_h is None else NOW_S + began_h * HOUR_S
    return replace(made, status=replace(made.status, phase=Phase.RUNNING, placement=home, started_s=started_s))


def home_of(job: WorkloadRecord, where: str = "a/big") -> tuple[Cycle, Candidate]:
    cycle = Cycle(snapshot((job,)), (job,))
    return cycle, next(one for one in cycle.candidates(job) if one.where == where)


def test_all_replicas_count_in_what_a_workload_takes() -> None:
    assert resources(Demand(devices=2, cpu_milli=500, host_memory_mib=7), 3) == (6000, 1500, 21)
    assert resources(Demand(compute_milli=250), 2) == (500, 0, 0)


@pytest.mark.parametrize(
    ("compute", "memory_gib", "milli"), [(100, 20, 500), (700, 20, 700), (100, 1, 100), (0, 40, 1000)]
)
def test_of_a_share_memory_counts_where_it_is_the_larger_part(compute: int, memory_gib: int, milli: int) -> None:
    job = record(fraction(compute_milli=compute, memory_mib=memory_gib * GIB))
    _, found = home_of(job)
    assert device_need(found.option, found.demand) == milli


def test_a_run_ends_when_a_slow_one_would_from_its_start() -> None:
    assert expected_end(running("w", 2.0), 1.5, NOW_S) == NOW_S + 3 * HOUR_S
    assert expected_end(running("w", 2.0, began_h=-1.0), 1.0, NOW_S) == NOW_S + HOUR_S
    decided = running("w", 2.0, began_h=None)
    assert expected_end(decided, 1.0, NOW_S) == NOW_S + HOUR_S, "from the start that was decided"
    slow = running("w", 2.0)
    home = slow.status.placement
    assert home is not None
    slow = replace(slow, status=replace(slow.status, placement=replace(home, class_name="small")))
    assert expected_end(slow, 1.0, NOW_S) == NOW_S + 4 * HOUR_S
    assert expected_end(running("w", 2.0, type=WorkloadType.SERVING), 1.0, NOW_S) is None
    assert expected_end(record(training("waits")), 1.0, NOW_S) is None


def test_what_is_left_after_a_checkpoint_is_counted_from_there_and_not_from_the_start() -> None:
    """Eight of ten hours done since eight hours ago: it goes on for two, and was not over six hours ago."""
    long = running("w", 10.0, began_h=-8.0, checkpoint_s=600.0)
    long = replace(long, status=replace(long.status, done_s=8 * HOUR_S))
    assert expected_end(long, 1.0, NOW_S) == NOW_S - 600.0 + 2 * HOUR_S
    young = replace(long, status=replace(long.status, started_s=NOW_S - 60.0))
    assert expected_end(young, 1.0, NOW_S) == NOW_S - 60.0 + 2 * HOUR_S, "it goes on here since a minute"


def test_what_runs_is_given_back_from_the_hour_after_its_slow_end() -> None:
    long, short = running("long", 10.0), running("short", 1.0, replicas=1)
    ended = running("over", 1.0, began_h=-9.0, replicas=1)
    cycle = Cycle(snapshot((long, short, ended)), ())
    back = cycle.given_back()[cycle.rows["a", "big"]]
    slow = cycle.settings.duration_high
    devices = [
        1000 * (hour >= 1) + 1000 * (hour >= 1 * slow) + 2000 * (hour >= 10 * slow)
        for hour in range(cycle.settings.horizon_h)
    ]
    assert back[:, 0].tolist() == devices
    assert back[-1].tolist() == [4000, 4 * 1000, 4 * GIB]
    assert not cycle.given_back()[cycle.rows["b", "big"]].any()


def test_what_was_given_away_is_taken_from_room_quota_and_budget() -> None:
    job = record(training("job", devices=2, gang=1))
    cycle, found = home_of(job)
    cycle.take(job, found, Bill(direct=10, energy=5, sla=99, carbon_g=7.0))
    cycle.take(job, found, Bill(direct=1, carbon_g=1.0))
    usage = cycle.usage_of("vision")
    assert (usage.device_milli, usage.spent_micros, usage.carbon_g) == ({"big": 4000}, 16, 8.0)
    room = cycle.rooms["a", "big"]
    assert (room.free_milli, room.host(0), room.host(1)) == (0, 64_000 - 2 * 1000, 512 * GIB - 2 * GIB)
    assert cycle.now_clash(job, found) is not None
    assert cycle.now_clash(job, home_of(job, "b/big")[1]) is None


@pytest.mark.parametrize(
    ("hours", "speeds", "reach"),
    [
        ((), (), 26),
        ((3.0,), (1.0,), 26),
        ((30.0, 2.0), (0.5, 1.0), 62),
        ((30.5,), (1.0,), 33),
        ((30.0,), (0.0,), 32),
        ((9000.0,), (1.0,), 24 * 31),
    ],
)
def test_series_reach_to_the_end_of_the_longest_run_within_a_month(
    hours: tuple[float, ...], speeds: tuple[float, ...], reach: int
) -> None:
    classes = tuple(AcceptedClass(f"c{at}", speed) for at, speed in enumerate(speeds))
    jobs = tuple(
        record(training(f"w{at}", duration_s=long * HOUR_S, classes=classes)) for at, long in enumerate(hours)
    )
    assert _longest_h(jobs) == reach


def test_what_a_home_steers_by_is_worked_out_once() -> None:
    cycle, found = home_of(record(training("job")))
    assert cycle.steer(found) is cycle.steer(found)
    twin = replace(found)
    assert cycle.steer(twin) is not cycle.steer(found)
    assert cycle.steer(twin).tolist() == cycle.steer(found).tolist()
    assert (found.where, found.crowd) == ("a/big", "a/big")
    assert replace(found, quote=None).bill(0) == Bill()


def test_a_full_pool_is_not_priced_unless_all_bills_are_wanted_or_it_may_wait() -> None:
    full = replace(pool("a"), free_whole=(0,), free_milli=0)
    job, waits = record(training("job")), record(training("waits"), deadline_s=99 * HOUR_S)
    for one, all_bills, priced in ((job, False, False), (job, True, True), (waits, False, True)):
        [found] = Cycle(snapshot((one,), pools=(full,)), (one,), all_bills=all_bills).candidates(one)
        assert (found.quote is not None) is priced
        clash = found.now_clash if priced else found.clash
        assert clash is not None
        assert clash.reason is Reason.NO_CAPACITY
    serving = replace(waits, spec=replace(waits.spec, type=WorkloadType.SERVING))
    [found] = Cycle(snapshot((serving,), pools=(full,)), (serving,)).candidates(serving)
    assert found.quote is None, "who serves does not wait for an hour"


def test_a_node_that_has_to_boot_puts_off_the_first_start() -> None:
    grows = replace(pool("a"), free_whole=(0,), free_milli=0, nodes_max=2, boot_s=5400.0)
    job = record(training("job", duration_s=HOUR_S), deadline_s=1.3 * HOUR_S + 3 * HOUR_S)
    [found] = Cycle(snapshot((job,), pools=(grows,)), (job,)).candidates(job)
    assert found.quote is not None
    assert ((found.quote.starts - NOW_S) / HOUR_S).tolist() == [1.5, 2.0, 3.0]
    assert found.option.start_s == NOW_S + 5400.0
    assert found.now_clash is None


def test_work_that_is_done_is_not_priced_again() -> None:
    job = record(training("job", duration_s=4 * HOUR_S))
    half = replace(job, status=replace(job.status, done_s=3 * HOUR_S))
    whole, rest = home_of(job)[1].bill(0), home_of(half)[1].bill(0)
    assert rest.direct == pytest.approx(whole.direct / 4)


def test_spot_is_ruled_out_by_the_policy_and_dearer_where_the_tenant_has_all_of_its_own() -> None:
    spot = replace(pool("a"), capacity=Capacity.SPOT)
    price = replace(tariff("a", 1000), spot=tariff("a", 1000).owned, reclaim_per_hour=0.1)
    job, there = record(training("job", duration_s=10 * HOUR_S)), running("old", 99.0)
    home = there.status.placement
    assert home is not None
    there = replace(there, status=replace(there.status, placement=replace(home, capacity=Capacity.SPOT)))

    def found(*records: WorkloadRecord, **settings: bool) -> Candidate:
        world = snapshot((job, *records), pools=(spot,), tariffs=(price,))
        world = replace(world, policies=(Policy("p", Verb.PLACE, settings=dict(settings)),))
        return Cycle(world, (job,)).candidates(job)[0]

    assert found(there).bill(0).rework == pytest.approx(2 * found().bill(0).rework)
    refused = found(spot=False)
    assert refused.clash is not None
    assert (refused.clash.reason, refused.clash.found) == (Reason.POLICY_FORBIDS, "a/big is spot")


def test_quota_is_told_before_room_and_room_before_budget() -> None:
    job = record(training("job", devices=2))
    strict = Tenant("vision", quota={"big": 1}, borrow=False, budget=Budget(money_micros=0))
    full = replace(pool("a"), free_whole=(0,), free_milli=0)
    for tenant, home, reason in (
        (strict, full, Reason.QUOTA_EXCEEDED),
        (replace(strict, quota={}), full, Reason.NO_CAPACITY),
        (replace(strict, quota={}), pool("a"), Reason.BUDGET_EXCEEDED),
        (Tenant("vision"), pool("a"), None),
    ):
        cycle = Cycle(snapshot((job,), pools=(home,), tenants=(tenant,)), (job,), all_bills=True)
        [found] = cycle.candidates(job)
        assert (found.now_clash and found.now_clash.reason) is reason
    barred = replace(found, barred=Verdict("a/big", Reason.POLICY_FORBIDS))
    assert cycle.now_clash(job, barred) is barred.barred


def test_what_ends_beyond_the_horizon_or_runs_elsewhere_gives_nothing_back() -> None:
    slow = PlaceSettings().duration_high
    for hours, back in ((34.0 / slow, 2000), (35.0 / slow + 0.01, 0)):
        cycle = Cycle(snapshot((running("old", hours),)), ())
        assert cycle.given_back()[0, -1, 0] == back
    gone = running("old", 1.0)
    home = gone.status.placement
    assert home is not None
    gone = replace(gone, status=replace(gone.status, placement=replace(home, pool="gone")))
    assert not Cycle(snapshot((gone, record(training("waits")))), ()).given_back().any()
    cycle = Cycle(snapshot((record(training("waits")), gone, running("old", 1.0))), ())
    assert cycle.given_back()[0, -1, 0] == 2000, "who has nothing to give back does not hide the next one"
    assert cycle.given_back() is cycle.given_back()


def test_a_deadline_is_lost_when_even_the_fastest_way_to_run_now_ends_after_it() -> None:
    job = record(training("w", duration_s=4 * HOUR_S), deadline_s=4 * HOUR_S)
    assert not past_help(job, NOW_S)
    assert past_help(job, NOW_S + 1)
    quick = record(job.spec, classes=(AcceptedClass("big"), AcceptedClass("huge", 2.0)))
    assert not past_help(quick, NOW_S + 2 * HOUR_S)
    assert past_help(quick, NOW_S + 2 * HOUR_S + 1)
    elastic = record(job.spec, speedups=(SpeedUp(1, 1.0), SpeedUp(4, 4.0)))
    assert not past_help(elastic, NOW_S + 3 * HOUR_S)
    halfway = replace(job, status=replace(job.status, done_s=2 * HOUR_S))
    assert not past_help(halfway, NOW_S + 2 * HOUR_S)


def test_who_has_no_deadline_or_serves_has_none_to_lose() -> None:
    assert not past_help(record(training("w", duration_s=HOUR_S)), NOW_S + 99 * HOUR_S)
    serving = record(training("w", duration_s=HOUR_S), deadline_s=1.0, type=WorkloadType.SERVING)
    assert not past_help(serving, NOW_S + 99 * HOUR_S)


def test_the_last_room_goes_to_the_one_who_can_still_be_in_time() -> None:
    """Both of one tenant, the older one late by now; before its deadline was lost it would have come first."""
    old = record(training("old", duration_s=HOUR_S), submitted_s=NOW_S - HOUR_S, deferrable=False)
    young = record(training("young", duration_s=HOUR_S), deadline_s=2 * HOUR_S, deferrable=False)
    pools = (replace(pool("a"), free_whole=(1,), free_milli=1000),)
    for deadline_h, first in ((1.5, "young"), (3.0, "old")):
        late = replace(old, spec=replace(old.spec, deadline_s=deadline_h * HOUR_S))
        decisions = place(snapshot((late, young), pools=pools))
        assert [one.workload for one in decisions if isinstance(one, Place)] == [first]
