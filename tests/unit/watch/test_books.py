"""The double-entry ledger: both sides agree to the last millionth, whatever is held and however it is cut."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.cluster import VNodePool
from dure.model.demand import Demand
from dure.model.money import Rates
from dure.model.posting import Account, Posting
from dure.model.report import Observed, Report
from dure.model.tariff import Capacity, CarbonSeries, Tariff, Weekly
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    Replicas,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.watch.books import PoolMeter, apportion, imbalances, merged, post, readings_of, sums
from dure.watch.ledger import Meter

START_S = 1_767_571_200.0
POOL = VNodePool("seoul", "h100", "h100", Capacity.OWNED, devices=8, free_milli=3000)


def meter(price: int = 2_100_000_000, electricity: int | None = 140_000_000, pue: float = 1.35) -> PoolMeter:
    tariff = Tariff(
        "seoul", "h100", "h100", owned=Weekly((price,)), electricity=Weekly((electricity,)) if electricity else None
    )
    carbon = CarbonSeries("KR", START_S, tuple(380.0 + hour for hour in range(200)))
    return PoolMeter(Meter(tariff, 700.0, pue, carbon, Rates()), 70.0)


def record(name: str, devices: int = 1, *, tenant: str = "vision", leaving: bool = False) -> WorkloadRecord:
    spec = Workload(
        name, tenant, WorkloadType.SERVING, (AcceptedClass("h100"),), Demand(devices=devices), model="chat",
        replicas=Replicas(1, 9),
    )  # fmt: skip
    home = Placement(name, 1, "seoul", "h100", "h100", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, START_S)
    status = WorkloadStatus(phase=Phase.RUNNING, placement=home, generation=1, leaving_s=START_S if leaving else None)
    return WorkloadRecord(f"uid-{name}", spec, status)


def report(*seen: Observed, pool: VNodePool = POOL) -> Report:
    return Report("seoul", START_S, "1", (pool,), seen)


def observed(name: str, *, bound: int, ready: int, generation: int = 1) -> Observed:
    return Observed(f"uid-{name}", name, generation, pods=bound, bound=bound, ready=ready)


def test_ready_replicas_use_unready_ones_start_and_free_devices_are_idle() -> None:
    (reading,) = readings_of([report(observed("a", bound=3, ready=2))], [record("a")])
    assert {line.account: line.milli for line in reading.lines} == {
        Account.USED: 2000, Account.STARTING: 1000, Account.IDLE: 3000, Account.STRANDED: 2000,
    }  # fmt: skip


def test_what_was_taken_back_leaves_and_is_no_use() -> None:
    (reading,) = readings_of([report(observed("a", bound=2, ready=2))], [record("a", leaving=True)])
    assert Account.USED not in {line.account for line in reading.lines}
    assert sum(line.milli for line in reading.lines if line.account is Account.LEAVING) == 2000


def test_claims_beyond_the_pool_shrink_to_what_is_there() -> None:
    (reading,) = readings_of([report(observed("a", bound=12, ready=12))], [record("a")])
    assert [line.milli for line in reading.lines] == [8000]


def test_a_pool_without_a_tariff_costs_nothing_on_both_sides() -> None:
    (reading,) = readings_of([report()], [])
    posted = post(reading, None, START_S, START_S + 3600)
    assert sum(one.micros for one in posted) == 0
    assert imbalances(posted) == {}


def test_an_unknown_grid_is_said_and_not_taken_as_clean() -> None:
    dark = msgspec.structs.replace(meter(), meter=msgspec.structs.replace(meter().meter, carbon=None))
    (reading,) = readings_of([report()], [])
    paid = next(one for one in post(reading, dark, START_S, START_S + 3600) if one.account is Account.PAID)
    assert (paid.carbon_mg, paid.unknown_mwh) == (0, paid.energy_mwh)
    assert paid.energy_mwh > 0


def test_the_building_is_charged_as_overhead() -> None:
    (reading,) = readings_of([report()], [])
    posted = merged(post(reading, meter(price=0), START_S, START_S + 3600))
    (groups,) = sums(posted, ["cluster"]).values()
    building = sum(one.micros for one in posted if one.account is Account.BUILDING)
    assert abs(building - 0.35 / 1.35 * groups["paid"]) <= 1


def test_imbalances_name_the_hour_and_pool_that_do_not_agree() -> None:
    (reading,) = readings_of([report(observed("a", bound=1, ready=1))], [record("a")])
    posted = list(post(reading, meter(), START_S, START_S + 60))
    posted[1] = msgspec.structs.replace(posted[1], micros=posted[1].micros + 1)
    assert imbalances(posted) == {(int(START_S // 3600), "seoul", "h100"): (-1, 0)}


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_parts_sum_up_to_the_whole_and_are_less_than_one_off(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == (total if sum(weights) else 0)
    for part, weight in zip(parts, weights, strict=True):
        exact = Fraction(total * weight, max(1, sum(weights)))
        assert abs(Fraction(part) - exact) < 1


workloads = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=0, max_size=8
)


@given(
    workloads, st.integers(0, 40), st.integers(0, 45_000), st.integers(0, 10**11),
    st.one_of(st.none(), st.integers(0, 10**10)), st.floats(1.0, 2.5), st.floats(1.0, 3 * 86_400.0),
    st.floats(0.0, 86_400.0),
)  # fmt: skip
def test_what_was_paid_is_what_was_used_plus_idle_plus_overhead(
    held: list[tuple[int, int, int, bool]], devices: int, free: int, price: int, electricity: int | None,
    pue: float, length_s: float, after_s: float,
) -> None:  # fmt: skip
    """Money and carbon, hour by hour, to the last millionth; and what was paid is the price of all that was there."""
    pool = msgspec.structs.replace(POOL, devices=devices, free_milli=free)
    records = [record(f"w{i}", size, leaving=leaving) for i, (size, _, _, leaving) in enumerate(held)]
    seen = [observed(f"w{i}", bound=bound, ready=ready) for i, (_, bound, ready, _) in enumerate(held)]
    (reading,) = readings_of([report(*seen, pool=pool)], records)
    assert sum(line.milli for line in reading.lines) == devices * 1000
    since_s = START_S + after_s
    posted = post(reading, meter(price, electricity, pue), since_s, since_s + length_s)
    assert imbalances(posted) == {}
    if electricity is None:
        paid = sum(one.micros for one in posted if one.account is Account.PAID)
        hours = length_s / 3600 + 2
        assert abs(paid - price * devices * length_s / 3600) <= hours * (1 + price * devices / 3_600_000)


@given(st.lists(st.floats(0.001, 5000.0), min_size=1, max_size=12))
def test_reading_the_meter_more_often_costs_the_same(lengths: list[float]) -> None:
    (reading,) = readings_of([report(observed("a", bound=3, ready=2))], [record("a")])
    at_s, posted = START_S, list[Posting]()
    for length_s in lengths:
        posted += post(reading, meter(), at_s, at_s + length_s)
        at_s += length_s
    whole = post(reading, meter(), START_S, at_s)
    paid = [sum(one.micros for one in side if one.account is Account.PAID) for side in (posted, whole)]
    per_ms = 8 * 2_100_000_000 / 3_600_000 * 1.2
    assert abs(paid[0] - paid[1]) <= (len(lengths) + 8) * (per_ms + 2)
    assert imbalances(merged(posted)) == {}
