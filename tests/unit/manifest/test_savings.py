"""Savings come from the record alone; without a record there is no figure."""

from __future__ import annotations

from dure.manifest.savings import HOURS_PER_MONTH, Saving, savings
from dure.model.accelerator import ShareMode
from dure.model.answer import PoolStatus
from dure.model.demand import Demand
from dure.model.tariff import Capacity
from dure.model.workload import (
    AcceptedClass,
    Placement,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)

HOUR = 3600.0
# Monday 00:00 UTC.
MONDAY = 1_789_948_800.0 - 1_789_948_800.0 % 86_400
POOLS = (
    PoolStatus("a10g", "a10g", Capacity.ON_DEMAND, "kr", nodes=4, devices=16, price_micros=1_000),
    PoolStatus("l4", "l4", Capacity.ON_DEMAND, "kr", nodes=1, devices=4, price_micros=400),
    PoolStatus("a10g-spot", "a10g", Capacity.SPOT, "kr", nodes=1, devices=4, price_micros=300),
)


def record(name: str, start_h: float, end_h: float, devices: int = 4, interruptible: bool = False) -> WorkloadRecord:
    spec = Workload(
        name,
        "team",
        WorkloadType.TRAINING,
        (AcceptedClass("a10g", 1.0), AcceptedClass("l4", 0.8)),
        Demand(devices=devices),
        interruptible=interruptible,
    )
    home = Placement(name, 1, "kr", "a10g", "a10g", ShareMode.EXCLUSIVE, Capacity.ON_DEMAND, 1, MONDAY)
    status = WorkloadStatus(placement=home, started_s=MONDAY + start_h * HOUR, finished_s=MONDAY + end_h * HOUR)
    return WorkloadRecord(name, spec, status)


def found(*records: WorkloadRecord, until_h: float = 48) -> dict[str, Saving]:
    return {each.name: each for each in savings(POOLS, records, MONDAY + until_h * HOUR)}


def test_without_a_record_nothing_is_promised() -> None:
    assert {each.micros_per_month for each in found().values()} == {None}


def test_interruptible_work_on_demand_is_priced_at_this_fleets_spot_price() -> None:
    saving = found(record("train", 0, 24, interruptible=True))["spot"]
    # 4 devices for 24 of 48 hours at 1000 - 300.
    assert saving.micros_per_month == 4 * 700 * HOURS_PER_MONTH // 2
    assert found(record("train", 0, 24))["spot"].micros_per_month == 0


def test_nodes_that_were_never_needed_are_counted_and_named() -> None:
    saving = found(record("one", 0, 20), record("two", 10, 30))["consolidation"]
    # Two nodes of a10g were in use at once; l4 and spot stood idle.
    assert saving.micros_per_month == (2 * 4 * 1_000 + 4 * 400 + 4 * 300) * HOURS_PER_MONTH
    assert "4 nodes, at most 2 were needed" in saving.plan[0]


def test_the_cheaper_class_for_the_same_work_is_found() -> None:
    saving = found(record("train", 0, 48))["right-sizing"]
    # 1000 against 400 / 0.8 = 500 for the same work.
    assert saving.micros_per_month == 4 * 500 * HOURS_PER_MONTH
    assert "kr/l4" in saving.plan[0]


def test_what_only_the_day_needs_is_off_at_night() -> None:
    busy_day = [record("base", 0, 48), *(record(f"day-{day}", day * 24 + 9, day * 24 + 17) for day in (0, 1))]
    saving = found(*busy_day)["off-hours"]
    assert saving.micros_per_month == round(4 * 1_000 * (1 - 60 / 168) * HOURS_PER_MONTH)
    assert found(*busy_day, until_h=20)["off-hours"].micros_per_month is None
