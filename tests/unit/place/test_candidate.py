"""What a cycle knows of one home: what it takes there, what comes back when, and what is gone once it is given."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.demand import Demand
from dure.model.tariff import Capacity
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord, WorkloadType
from dure.place.candidate import Candidate, Cycle, device_need, expected_end, resources
from tests.fixtures.small_world import GIB, fraction, training
from tests.unit.place.worlds import NOW_S, record, snapshot

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
    assert device_need(home_of(job)[1]) == milli


def test_a_run_ends_when_a_slow_one_would_from_its_start() -> None:
    assert expected_end(running("w", 2.0), 1.5) == NOW_S + 3 * HOUR_S
    assert expected_end(running("w", 2.0, began_h=-1.0), 1.0) == NOW_S + HOUR_S
    assert expected_end(running("w", 2.0, began_h=None), 1.0) == NOW_S + HOUR_S, "from the start that was decided"
    halfway = running("w", 2.0)
    halfway = replace(halfway, status=replace(halfway.status, done_s=HOUR_S))
    assert expected_end(halfway, 1.0) == NOW_S + HOUR_S
    slow = running("w", 2.0)
    home = slow.status.placement
    assert home is not None
    slow = replace(slow, status=replace(slow.status, placement=replace(home, class_name="small")))
    assert expected_end(slow, 1.0) == NOW_S + 4 * HOUR_S
    assert expected_end(running("w", 2.0, type=WorkloadType.SERVING), 1.0) is None
    assert expected_end(record(training("waits")), 1.0) is None


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
