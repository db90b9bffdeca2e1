"""The waiting workloads as numbers, and whether what each likes best goes together, to the last unit."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.cluster import VNodePool
from dure.model.policy import Policy, Verb
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Budget, Tenant, TenantUsage
from dure.model.units import MICROS
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord
from dure.place.batch import (
    UNLIMITED,
    Batch,
    Choice,
    _Build,
    batch_of,
    dispute_of,
    wishes,
)
from dure.place.bill import drain_of
from dure.place.candidate import Cycle
from dure.place.fairness import class_totals
from dure.place.settings import PlaceSettings
from tests.fixtures.small_world import GIB, fraction, training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
BIG = (AcceptedClass("big"),)
# A run that is a slow one takes so many times its estimate.
SLOW = PlaceSettings().duration_high


def job(
    name: str, *, devices: int = 1, hours: float = 2.0, deadline_h: float | None = None, **spec: object
) -> WorkloadRecord:
    made = training(name, classes=BIG, duration_s=hours * HOUR_S, devices=devices)
    return record(replace(made, deadline_s=None if deadline_h is None else deadline_h * HOUR_S, **spec))


def running(name: str, hours: float, where: str = "a", devices: int = 4) -> WorkloadRecord:
    made = job(name, devices=devices, hours=hours)
    home = Placement(name, 1, where, "big", "big", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, NOW_S, NOW_S)
    return replace(made, status=replace(made.status, phase=Phase.RUNNING, placement=home, started_s=NOW_S))


def taken(name: str) -> VNodePool:
    return replace(pool(name), free_whole=(0,), free_milli=0)


def build(world: Snapshot, *waiting: WorkloadRecord) -> _Build:
    cycle = Cycle(world, waiting)
    batch = batch_of(cycle, waiting)
    return _Build(cycle, batch)


def wished(world: Snapshot, *waiting: WorkloadRecord) -> list[tuple[str, int] | None] | None:
    """Where and at which of its starts everybody would like to be; None where that does not go together."""
    cycle = Cycle(world, waiting)
    batch = batch_of(cycle, waiting)
    found = wishes(cycle, batch)
    if found is None:
        return None
    homes = zip(batch.candidates, found, strict=True)
    return [(mine[one.candidate].option.cluster.name, one.start) if one else None for mine, one in homes]


def test_an_instance_says_of_every_start_where_when_and_what_it_takes() -> None:
    one = job("one", gang=2, deadline_h=SLOW * 2.0 + 2.0, tenant="vision")
    two = record(fraction("two", memory_mib=8 * GIB), submitted_s=NOW_S + 1)
    tenant = Tenant("vision", quota={"big": 3}, borrow=False, budget=Budget(money_micros=10**12))
    used = TenantUsage("vision", device_milli={"big": 1000}, spent_micros=10**11)
    world = snapshot((one, two), tenants=(tenant,), usage=(used,))
    cycle = Cycle(world, (one, two))
    batch = batch_of(cycle, (two, one))
    assert [each.name for each in batch.records] == ["one", "two"], "by age"
    made = dispute_of(cycle, batch)
    inst = made.instance
    assert inst.first.tolist() == [0, 6, 8]
    assert inst.option.tolist() == [
        [row, 2, start, 2, 0] for row in (0, 1) for start in (0, 1, 2)
    ] + [[0, -1, 0, 1, 1], [1, -1, 0, 1, 1]]  # fmt: skip
    assert inst.need.tolist() == [[2000, 2000, 2 * GIB], [200, 500, GIB]]
    assert made.choices == (*[Choice(at, start) for at in (0, 1) for start in (0, 1, 2)], Choice(0, 0), Choice(1, 0))
    mine = [cycle.steer(each) for candidates in batch.candidates for each in candidates]
    assert inst.cost.tolist() == np.concatenate(mine).tolist()
    assert inst.hold.tolist() == [4 * max(mine[0].max(), mine[1].max()) + 1, 4 * max(mine[2][0], mine[3][0]) + 1]
    assert inst.capacity.shape == (3, 36, 3)
    assert (inst.capacity[:2] == [4000, 64_000, 512 * GIB]).all()
    assert (inst.capacity[2] == [2000, UNLIMITED, UNLIMITED]).all()
    assert inst.ledger.tolist() == [0, -1]
    assert inst.left.tolist() == [[10**12 - 10**11, float(UNLIMITED**2)]]
    quotes = [each.quote for candidates in batch.candidates for each in candidates]
    assert inst.drain.tolist() == np.concatenate([drain_of(each) for each in quotes if each]).tolist()


def test_a_start_without_room_is_left_out_and_so_is_a_home_that_is_ruled_out() -> None:
    one = job("one", deadline_h=SLOW * 2.0 + 2.0, regions=("a-*",))
    made = dispute_of(*cycle_of(snapshot((one,), pools=(taken("a"), pool("b"))), one))
    assert made.choices == (Choice(0, 1), Choice(0, 2))
    assert made.instance.option[:, 2].tolist() == [1, 2]
    assert len(made.instance.drain) == 2


def cycle_of(world: Snapshot, *waiting: WorkloadRecord) -> tuple[Cycle, Batch]:
    cycle = Cycle(world, waiting)
    return cycle, batch_of(cycle, waiting)


def test_who_has_no_home_at_all_has_no_option_and_a_small_price_to_wait() -> None:
    nowhere = job("one", regions=("nowhere",))
    inst = dispute_of(*cycle_of(snapshot((nowhere,)), nowhere)).instance
    assert (inst.first.tolist(), inst.hold.tolist(), inst.need.tolist()) == ([0, 0], [1.0], [[0, 0, 0]])


@pytest.mark.parametrize(
    ("start_h", "run_h", "begin", "hours"),
    [
        (0.5, 1.0, 0, 2),
        (1.0, 1.0, 1, 1),
        (1.0, 1.01, 1, 2),
        (0.5, 0.25, 0, 1),
        (34.0, 9.0, 34, 2),
        (40.0, 1.0, 35, 1),
        (-2.0, 3.0, 0, 1),
    ],
)
def test_a_run_touches_every_hour_it_overlaps_inside_the_horizon(
    start_h: float, run_h: float, begin: int, hours: int
) -> None:
    made = build(replace(snapshot(()), now_s=NOW_S + 1800))
    start, length = made._span(np.array([NOW_S + start_h * HOUR_S]), run_h * HOUR_S)
    assert (start.tolist(), length.tolist()) == ([begin], [hours])


def test_what_running_ones_give_back_is_room_from_then_on() -> None:
    """Four devices for two hours, slow ones: free from the third hour on."""
    world = snapshot((running("old", 2.0),), pools=(taken("a"), pool("b")))
    rooms = build(world)._rooms
    assert rooms[0, :, 0].tolist() == [0] * 3 + [4000] * 33
    assert rooms[0, :, 1].tolist() == [64_000] * 3 + [65_000] * 33
    assert (rooms[1] == [4000, 64_000, 512 * GIB]).all()
    grows = build(snapshot((), pools=(replace(pool("a"), nodes_max=2),)))._rooms
    assert grows[0, 0].tolist() == [8000, UNLIMITED, UNLIMITED]


def test_a_borrower_may_take_what_the_others_neither_hold_nor_wait_for() -> None:
    lender, borrower = Tenant("search", quota={"big": 3}), Tenant("vision", quota={"big": 1})
    usage = (TenantUsage("search", {"big": 500}), TenantUsage("vision", {"big": 700}))
    waiting = [job(f"s{n}", devices=1, tenant="search") for n in range(2)]
    world = snapshot(tuple(waiting), tenants=(lender, borrower), usage=usage)
    made = build(world, *waiting, job("mine", tenant="vision"), record(replace(fraction("x"), tenant="search")))
    assert made._quota_left("vision", "big") == 8000 - (500 + 2 * 1000 + 100) - 700
    assert made._quota_left("search", "big") == 8000 - 1000 - 500, "what others want of their own quota, no more"
    strict = build(replace(world, tenants=(lender, replace(borrower, borrow=False))), *waiting)
    assert strict._quota_left("vision", "big") == 1000 - 700


def test_a_class_has_its_devices_and_those_that_could_be_booted() -> None:
    pools = (
        replace(pool("a", nodes=2), nodes_max=5), pool("b", nodes=3), replace(pool("c"), nodes_max=0),
        pool("d", class_name="small", devices=2),
    )  # fmt: skip
    assert class_totals(pools) == {"big": (8 + 12 + 12 + 4) * 1000, "small": 2000}


def test_everybody_gets_his_cheapest_while_the_pool_lasts_to_the_last_device() -> None:
    two = [job(f"t{n}", devices=2) for n in range(3)]
    assert wished(snapshot(()), *two[:2]) == [("a", 0), ("a", 0)]
    assert wished(snapshot(()), *two) is None
    dear_a = snapshot((), tariffs=(tariff("a", 3000), tariff("b", 2000)))
    assert wished(dear_a, two[0]) == [("b", 0)]
    even = snapshot((), tariffs=(tariff("a", 2000), tariff("b", 2000)), grids=(carbon("a", 9.0), carbon("b", 9.0)))
    assert wished(even, two[0]) == [("a", 0)], "the first of equal ones"
    assert wished(even, job("t", regions=("nowhere",)), two[0]) == [None, ("a", 0)]


@pytest.mark.parametrize(("field", "there"), [("cpu_milli", 64_000), ("host_memory_mib", 512 * GIB)])
def test_hosts_must_do_for_all_unless_more_can_be_booted(field: str, there: int) -> None:
    def two(each: int) -> list[WorkloadRecord]:
        made = [job(f"t{n}") for n in range(2)]
        return [
            replace(one, spec=replace(one.spec, demand=replace(one.spec.demand, **{field: each}))) for one in made
        ]

    only = (pool("a"),)
    assert wished(snapshot((), pools=only), *two(there // 2)) == [("a", 0), ("a", 0)]
    assert wished(snapshot((), pools=only), *two(there // 2 + 1)) is None
    grows = (replace(pool("a"), nodes_max=2),)
    assert wished(snapshot((), pools=grows), *two(there // 2 + 1)) == [("a", 0), ("a", 0)]


def test_a_quota_must_do_for_all() -> None:
    three = [job(f"t{n}") for n in range(3)]
    strict = Tenant("vision", quota={"big": 2}, borrow=False)
    assert wished(snapshot((), tenants=(strict,)), *three[:2]) == [("a", 0)] * 2
    assert wished(snapshot((), tenants=(strict,)), *three) is None
    other = replace(three[2], spec=replace(three[2].spec, tenant="search"))
    assert wished(snapshot((), tenants=(strict,)), *three[:2], other) == [("a", 0)] * 3
    elsewhere = replace(strict, quota={"small": 0})
    assert wished(snapshot((), tenants=(elsewhere,)), *three) == [("a", 0)] * 3


@pytest.mark.parametrize(
    ("budget", "enough"),
    [
        (Budget(money_micros=4000 * MICROS), True),
        (Budget(money_micros=4000 * MICROS - 1), False),
        (Budget(carbon_g=640.0), True),
        (Budget(carbon_g=639.0), False),
    ],
)
def test_a_budget_must_do_for_all(budget: Budget, enough: bool) -> None:
    """Two runs of two hours at 1,000 an hour that emit 320 g each."""
    two = [job(f"t{n}") for n in range(2)]
    world = snapshot((), tenants=(Tenant("vision", budget=budget),))
    assert (wished(world, *two) == [("a", 0)] * 2) is enough
    spent = TenantUsage("vision", spent_micros=1, carbon_g=1.0)
    assert wished(replace(world, usage=(spent,)), *two) is None


def test_one_may_wish_for_an_hour_in_which_room_will_have_come_back() -> None:
    """The pool is full until the third hour; from the second on it would be cheap."""
    waits = job("one", hours=1.0, deadline_h=12.0, devices=2)
    prices = tariff("a", (5000, 5000, *(500,) * 166))
    world = snapshot((running("old", 2.0),), pools=(taken("a"),), tariffs=(prices,))
    assert wished(world, waits) == [("a", 3)]
    assert wished(world, waits, job("two", hours=1.0, deadline_h=12.0, devices=2)) == [("a", 3), ("a", 3)]
    assert wished(world, waits, job("two", hours=1.0, deadline_h=12.0, devices=3)) is None


def test_a_wish_that_stays_full_gives_way_to_the_next_best_that_has_room() -> None:
    waits = job("one", hours=1.0, deadline_h=12.0)
    never = snapshot((), pools=(taken("a"), pool("b")))
    assert wished(never, waits) == [("b", 0)]
    cheaper_b = replace(never, tariffs=(tariff("a", 1000), tariff("b", 1)))
    assert wished(cheaper_b, waits) == [("b", 0)]
    nowhere = snapshot((), pools=(taken("a"), taken("b")))
    assert wished(nowhere, waits) == [None]


def test_the_horizon_of_the_policy_is_how_far_is_looked() -> None:
    short = replace(snapshot(()), policies=(Policy("p", Verb.PLACE, settings={"horizon_h": 5}),))
    assert build(short)._rooms.shape == (2, 5, 3)


def test_a_quota_that_is_used_up_or_overdrawn_leaves_nothing() -> None:
    mine = job("mine", tenant="vision", deadline_h=20.0)
    tenant = Tenant("vision", quota={"big": 1}, borrow=False)
    for held in (1000, 1700):
        world = snapshot((mine,), tenants=(tenant,), usage=(TenantUsage("vision", {"big": held}),))
        inst = dispute_of(*cycle_of(world, mine)).instance
        assert inst.capacity[2, :, 0].tolist() == [0] * 36
