"""Each term of a bill by itself, against figures that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.cluster import ClusterInfo
from dure.model.money import Rates
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, Weekly
from dure.model.units import MICROS
from dure.model.weights import Weights
from dure.model.workload import AcceptedClass, Placement, Replicas, Slo, Workload, WorkloadRecord, WorkloadType
from dure.place.bill import (
    Quote,
    charged,
    data_value,
    deadline_risk,
    device_count,
    drain_of,
    latency_misses,
    lateness,
    move_price,
    overload_misses,
    quote,
    reclaim_chance,
    reclaim_loss,
    rework,
    run_time,
    traffic_price,
    warm_value,
)
from dure.place.candidate import Cycle
from dure.place.option import Option, options, world_of
from dure.place.settings import PlaceSettings
from dure.place.spread import held_on_spot, share_of, spread
from tests.fixtures.small_world import CATALOGUE, GIB, service, training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
RULE = PlaceSettings()
JOB = replace(training("job"), duration_s=2 * HOUR_S, gang=2)
STARTS = np.array([NOW_S, NOW_S + HOUR_S])
WORLD = snapshot(
    (),
    pools=(pool("a"),),
    tariffs=(tariff("a", (10, 20, 30, *(40,) * 165), electricity=100),),
    grids=(carbon("a", (100.0, 300.0, 500.0, *(500.0,) * 93)),),
    carbon_per_kg=7,
    a=ClusterInfo("a", "here", grid="a", pue=1.5, observed_s=NOW_S),
)


def option(job: Workload = JOB) -> Option:
    [found] = options(job, world_of(WORLD, 48), NOW_S)
    return found


def priced(job: Workload = JOB, home: Option | None = None, rule: PlaceSettings = RULE) -> Quote:
    return quote(job, home or option(job), WORLD, rule, NOW_S, STARTS)


def spot(per_hour: float) -> Option:
    home = option()
    return replace(
        home,
        pool=replace(home.pool, capacity=Capacity.SPOT, boot_s=60.0),
        tariff=replace(home.tariff, spot=home.tariff.owned, reclaim_per_hour=per_hour),
    )


def test_the_rest_of_a_booted_node_counts_in_the_choice_for_its_hours_and_never_in_the_bill() -> None:
    alone, opened = priced(), quote(JOB, option(), WORLD, RULE, NOW_S, STARTS, spare=3.0)
    # Two hours at 10 and 20, or 20 and 30: an hour's worth of three devices beside it is half of three rents.
    assert np.asarray(opened.opening).tolist() == pytest.approx([3 * 15 * MICROS, 3 * 25 * MICROS])
    assert opened.total.tolist() == alone.total.tolist()
    assert opened.bill(0) == alone.bill(0)
    steered = [each.steer(Weights(), 1.0, RULE, NOW_S) for each in (opened, alone)]
    assert (steered[0] - steered[1]).tolist() == pytest.approx([3 * 15 * MICROS, 3 * 25 * MICROS])
    short = replace(JOB, duration_s=HOUR_S / 2)
    whole_run = quote(short, option(short), WORLD, RULE, NOW_S, STARTS, spare=3.0)
    assert np.asarray(whole_run.opening)[0] == pytest.approx(3 * 5 * MICROS)
    longer = quote(JOB, option(), WORLD, replace(RULE, opening_h=1.5), NOW_S, STARTS, spare=3.0)
    assert np.asarray(longer.opening)[0] == pytest.approx(3 * 22.5 * MICROS)


def test_rent_power_and_carbon_are_those_of_the_hours_it_runs() -> None:
    found = priced()
    devices = JOB.demand.devices * 2
    kwh = CATALOGUE.classes["big"].peak_w * devices * 2 / 1000 * 1.5
    assert found.direct.tolist() == pytest.approx([devices * 30 * MICROS, devices * 50 * MICROS])
    assert found.energy.tolist() == pytest.approx([kwh * 100 * MICROS] * 2)
    assert found.grams.tolist() == pytest.approx([kwh * 200, kwh * 400])
    assert found.carbon.tolist() == pytest.approx([kwh * 200 / 1000 * 7 * MICROS, kwh * 400 / 1000 * 7 * MICROS])
    assert found.watt_hours == pytest.approx(kwh * 1000)


def test_a_slower_class_runs_longer_and_what_is_done_is_not_paid_again() -> None:
    assert run_time(JOB, 0.5) == 4 * HOUR_S
    assert run_time(JOB, 1.0, done_s=HOUR_S) == HOUR_S
    assert run_time(JOB, 1.0, done_s=9 * HOUR_S) == 1.0
    assert run_time(replace(JOB, type=WorkloadType.SERVING), 0.5) == 24 * HOUR_S


def test_lateness_is_weighed_over_short_usual_and_long_runs() -> None:
    def late(deadline_s: float | None) -> list[float]:
        job = replace(JOB, deadline_s=deadline_s)
        return list(lateness(job, RULE, NOW_S, STARTS, 1000.0, np.full(2, 2000.0 / RULE.late_hour_factor)))

    assert late(None) == [0.0, 0.0]
    assert late(HOUR_S + 1300.0) == [0.0, 0.0]
    assert late(HOUR_S + 1000.0) == pytest.approx([0.0, 0.3 * 300 * 2])
    assert late(HOUR_S) == pytest.approx([0.0, (0.3 * 800 + 0.4 * 1000 + 0.3 * 1300) * 2])


def test_a_reclaim_is_likelier_in_a_longer_run_and_only_on_spot() -> None:
    assert reclaim_chance(spot(0.5), 2 * HOUR_S) == pytest.approx(0.75)
    assert reclaim_chance(spot(0.5), HOUR_S) == pytest.approx(0.5)
    assert reclaim_chance(option(), 2 * HOUR_S) == 0.0
    assert reclaim_chance(spot(5.0), HOUR_S) == pytest.approx(0.99)


def test_what_a_reclaim_destroys_is_half_an_interval_and_takes_a_whole_one_and_a_start() -> None:
    price, run_s = np.array([100.0]), 4 * HOUR_S
    kept = replace(JOB, checkpoint_s=HOUR_S)
    assert rework(kept, 0.5, Capacity.SPOT, price, run_s).tolist() == pytest.approx([100 * 2 * 0.5 / 4])
    assert rework(JOB, 0.5, Capacity.SPOT, price, run_s).tolist() == pytest.approx([100 * 2 * 2 / 4])
    assert rework(kept, 0.5, Capacity.OWNED, price, run_s).tolist() == [0.0]
    assert reclaim_loss(kept, spot(0.5), run_s, 30.0) == HOUR_S + 30 + 60
    assert reclaim_loss(JOB, spot(0.5), run_s, 30.0) == run_s + 30 + 60
    assert reclaim_loss(kept, spot(0.5), 100.0, 30.0) == 100 + 30 + 60


def test_the_guard_asks_its_price_where_a_reclaim_would_leave_no_time() -> None:
    run_s, loss_s = 1000.0, 500.0
    enough = HOUR_S + RULE.careful * run_s + 2 * loss_s
    assert deadline_risk(JOB, RULE, NOW_S, STARTS, run_s, loss_s).tolist() == [0.0, 0.0]
    just, short = (replace(JOB, deadline_s=deadline_s) for deadline_s in (enough, enough - 1))
    assert deadline_risk(just, RULE, NOW_S, STARTS, run_s, loss_s).tolist() == [0.0, 0.0]
    assert deadline_risk(short, RULE, NOW_S, STARTS, run_s, loss_s).tolist() == [0.0, RULE.spot_late_factor]


def test_a_network_that_takes_all_of_the_target_misses_always() -> None:
    serves = replace(JOB, slo=Slo(latency_p95_ms=100.0))
    assert latency_misses(serves, 0.0) == 0.0
    assert latency_misses(JOB, 50.0) == 0.0
    assert latency_misses(serves, 50.0) == pytest.approx(0.05**0.5 - 0.05)
    assert latency_misses(serves, 100.0) == latency_misses(serves, 500.0) == pytest.approx(0.95)


def test_replicas_that_cannot_carry_the_mean_rate_miss_what_is_beyond_them() -> None:
    serves = replace(service(replicas=2), classes=(AcceptedClass("small"), AcceptedClass("big", 0.5)))
    home = option(serves)
    assert (home.speed, home.replicas) == (0.5, 4)
    assert overload_misses(serves, home) == 0.0
    assert overload_misses(serves, replace(home, replicas=2)) == pytest.approx(1 - 1.6 / 2)
    assert overload_misses(replace(serves, rate_per_s=0.0), replace(home, replicas=1)) == 0.0
    assert overload_misses(JOB, option()) == 0.0
    carried, short = priced(serves, home), priced(replace(serves, replicas=Replicas(2, 2)), replace(home, replicas=2))
    assert carried.sla.tolist() == [0.0, 0.0]
    assert short.sla.tolist() == pytest.approx((0.2 * RULE.latency_miss_factor * short.direct).tolist())


def test_data_that_is_there_saves_egress_and_data_that_is_not_is_pulled_or_moved() -> None:
    job = replace(JOB, dataset="images", dataset_mib=2 * GIB, model="m", checkpoint_s=HOUR_S)
    far = option(job)
    metered = replace(far.cluster, metered_micros_per_gib=10)
    far = replace(far, cluster=metered, tariff=replace(far.tariff, egress_micros_per_gib=3, owned=Weekly((40,))))
    near = replace(far, cluster=replace(metered, datasets=("images",)))
    assert (data_value(job, far, Rates()), data_value(job, near, Rates())) == (0, 6)
    assert (traffic_price(job, far, GIB), traffic_price(job, near, GIB)) == (30, 10)
    warm = replace(near, pool=replace(near.pool, warm={"m": 1}))
    assert traffic_price(job, warm, GIB) == 0
    devices = job.demand.devices * 2
    half_an_hour = round(devices * 40 / 2)
    assert move_price(job, near, 0.0, Rates()) == half_an_hour
    assert move_price(job, far, HOUR_S, Rates()) == half_an_hour * 3 + 6


def test_what_is_chosen_by_is_the_bill_under_the_weights() -> None:
    found = replace(priced(), sla=np.array([5.0, 5.0]), warm_saved=np.array([3.0, 3.0]), data_saved=4)
    plain = replace(RULE, wait_charge_per_day=0.0, forecast_margin_per_day=0.0)
    base = found.steer(Weights(), 1.0, plain, NOW_S)
    assert base.tolist() == pytest.approx((found.total + 1e-3 * found.grams).tolist())
    assert (found.steer(Weights(slo=3.0), 1.0, plain, NOW_S) - base).tolist() == pytest.approx([10.0, 10.0])
    assert (found.steer(Weights(locality=2.0), 1.0, plain, NOW_S) - base).tolist() == pytest.approx([-7.0, -7.0])
    crowded = found.steer(Weights(), 1.5, plain, NOW_S) - base
    assert crowded.tolist() == pytest.approx((0.5 * found.direct).tolist())
    doubt = replace(plain, wait_charge_per_day=0.24)
    waiting = found.steer(Weights(), 1.0, doubt, NOW_S) - base
    assert waiting.tolist() == pytest.approx([0.0, 0.01 * float(found.direct[1] + found.energy[1])])


@pytest.mark.parametrize(
    ("wish", "adds"),
    [
        ({"money_weight": 3.0}, 2 * (10 + 20 + 7)),
        ({"carbon_weight": 0.5}, -0.5 * 30),
        ({"sla_weight": 2.0}, 40),
        ({"rework_weight": 4.0}, 3 * 50),
        ({"reuse_weight": 2.0}, -(3 + 4)),
    ],
)
def test_a_weight_of_the_owner_makes_its_term_as_many_times_as_heavy(wish: dict[str, float], adds: float) -> None:
    terms = {"direct": 10.0, "energy": 20.0, "carbon": 30.0, "sla": 40.0, "rework": 50.0, "warm_saved": 3.0}
    known = replace(priced(), traffic=7, data_saved=4, **{name: np.full(2, each) for name, each in terms.items()})
    plain = replace(RULE, wait_charge_per_day=0.0, forecast_margin_per_day=0.0)
    base = known.steer(Weights(), 1.0, plain, NOW_S)
    assert base.tolist() == pytest.approx((150 + 7 - 3 - 4 + 1e-3 * known.grams).tolist())
    wished = known.steer(Weights(), 1.0, replace(plain, **wish), NOW_S)
    assert (wished - base).tolist() == pytest.approx([adds, adds])
    assert known.total.tolist() == [150.0, 150.0], "the bill stays what it is"


def test_a_bill_has_every_term_of_its_start_in_whole_millionths() -> None:
    terms = ("direct", "energy", "carbon", "sla", "rework", "warm_saved")
    known = {name: np.array([0.4, 10.0 * number + 0.6]) for number, name in enumerate(terms)}
    made = replace(priced(), traffic=7, data_saved=4, known=np.array([1.0, 0.5]), **known).bill(1)
    assert [getattr(made, name) for name in terms] == [1, 11, 21, 31, 41, 51]
    assert (made.traffic, made.data_saved, made.carbon_unknown) == (7, 4, True)
    assert made.total == 1 + 11 + 21 + 31 + 41 + 7 - 51 - 4


def test_a_warm_pool_saves_the_hours_of_loading_and_a_far_one_misses_its_latency() -> None:
    home = option()
    job = replace(JOB, model="m", slo=Slo(latency_p95_ms=100.0))
    near = priced(job, home)
    far = priced(job, replace(home, cluster=replace(home.cluster, latency_ms=50.0)))
    misses = latency_misses(job, 50.0)
    assert (far.sla - near.sla).tolist() == pytest.approx((RULE.latency_miss_factor * misses * near.direct).tolist())
    chat = replace(JOB, model="chat")
    warm = priced(chat, replace(home, pool=replace(home.pool, warm={"chat": 1})))
    devices, load_h = JOB.demand.devices * 2, 100.0 / HOUR_S
    assert warm.warm_saved.tolist() == pytest.approx([devices * load_h * price * MICROS for price in (10, 20)])
    assert priced(chat, home).warm_saved.tolist() == [0.0, 0.0]
    second = warm_value(home.series.price, 1.0, STARTS, 1.0)
    assert second.tolist() == pytest.approx([10 * MICROS / HOUR_S, 20 * MICROS / HOUR_S])


def test_budgets_are_charged_for_rent_power_and_traffic_alone() -> None:
    assert charged(Bill(direct=10, energy=5, sla=99, traffic=2)) == 17
    found = priced()
    money, grams = drain_of(replace(found, traffic=2))[0]
    assert money == round(float(found.direct[0])) + round(float(found.energy[0])) + 2
    assert grams == found.grams[0]
    made = found.bill(1)
    assert (made.direct, made.carbon_g, made.carbon_unknown) == (round(float(found.direct[1])), found.grams[1], False)


def test_a_tenant_that_has_all_its_spot_devices_in_one_place_fears_twice_as_much_there() -> None:
    held = {"t": {("a", "p"): 3000, ("b", "p"): 1000}}
    assert [share_of(held, "t", (name, "p")) for name in "abc"] == [0.75, 0.25, 0.0]
    assert share_of(held, "other", ("a", "p")) == 0.0
    found = replace(priced(), rework=np.array([10.0, 20.0]))
    assert spread(found, 0.75).rework.tolist() == [17.5, 35.0]
    assert spread(found, 0.0) is found


def test_spot_that_leaves_no_time_to_begin_again_costs_its_risk() -> None:
    home = spot(0.5)
    tight = replace(JOB, deadline_s=RULE.duration_high * 2 * HOUR_S + HOUR_S)
    found = priced(tight, home)
    assert reclaim_chance(home, 2 * HOUR_S) == pytest.approx(0.75)
    assert found.sla.tolist() == pytest.approx((0.75 * found.direct * RULE.spot_late_factor).tolist())
    assert priced(tight).sla.tolist() == [0.0, 0.0]


def test_the_price_of_a_long_slow_run_is_that_of_all_its_hours() -> None:
    """Thirty hours at half speed run for sixty; after two days the price is ten times as high."""
    job = record(
        replace(training("long"), duration_s=30 * HOUR_S, classes=(AcceptedClass("big"), AcceptedClass("small", 0.5)))
    )
    prices = (1,) * 48 + (10,) * 120
    world = snapshot(
        (job,), pools=(pool("a", class_name="small"),), tariffs=(tariff("a", prices, class_name="small"),), grids=()
    )
    [found] = Cycle(world, (job,)).candidates(job)
    assert found.quote is not None
    assert float(found.quote.direct[0]) == pytest.approx((48 * 1 + 12 * 10) * MICROS)


def test_a_bill_in_another_currency_is_that_in_the_own_one_times_the_rate_but_for_carbon_and_traffic() -> None:
    """Late, on spot, warm, with its data there: no term is nothing."""
    job = replace(
        JOB, model="chat", deadline_s=HOUR_S, dataset="images", dataset_mib=2 * GIB, slo=Slo(latency_p95_ms=100.0)
    )
    home = spot(0.5)
    home = replace(
        home,
        cluster=replace(home.cluster, metered_micros_per_gib=1000, datasets=("images",), latency_ms=20.0),
        pool=replace(home.pool, warm={"chat": 1}),
        tariff=replace(home.tariff, egress_micros_per_gib=1000),
    )
    dollars = replace(WORLD, rates=Rates(per_unit={"USD": 4.0}))
    foreign = replace(home, tariff=replace(home.tariff, currency="USD"))
    own = quote(job, home, WORLD, RULE, NOW_S, STARTS)
    paid = quote(job, foreign, dollars, RULE, NOW_S, STARTS)
    for term in ("direct", "energy", "sla", "rework", "warm_saved"):
        assert getattr(own, term).min() > 0
        assert getattr(paid, term).tolist() == pytest.approx((4 * getattr(own, term)).tolist())
    assert (own.data_saved, paid.data_saved) == (2000, 8000)
    assert paid.traffic == own.traffic == 0, "weights and data are there"
    assert paid.carbon.tolist() == own.carbon.tolist()
    assert move_price(job, replace(foreign, cluster=option().cluster), HOUR_S, dollars.rates) == 4 * move_price(
        job, replace(home, cluster=option().cluster), HOUR_S, Rates()
    )


def test_a_second_late_costs_its_part_of_the_price_times_the_factor() -> None:
    """Two hours that end an hour late in the middle case, and their quantiles around it."""
    late = priced(replace(JOB, deadline_s=HOUR_S))
    per_s = RULE.late_hour_factor * late.direct / (2 * HOUR_S)
    expected = [0.3 * 0.6 + 0.4 * 1.0 + 0.3 * 1.6, 0.3 * 1.6 + 0.4 * 2.0 + 0.3 * 2.6]
    assert late.sla.tolist() == pytest.approx((per_s * HOUR_S * np.array(expected)).tolist())


def test_a_run_of_no_time_at_all_is_priced_as_one_second() -> None:
    nothing = priced(replace(JOB, duration_s=0.0))
    assert nothing.run_s == 1.0
    assert nothing.direct.tolist() == pytest.approx([2 * 10 * MICROS / HOUR_S, 2 * 20 * MICROS / HOUR_S])


def test_later_starts_are_charged_for_the_wait_and_the_doubt_in_the_forecast() -> None:
    found, weights = priced(), Weights()
    plain = replace(RULE, wait_charge_per_day=0.0, forecast_margin_per_day=0.0)
    waits = found.steer(weights, 1.0, RULE, NOW_S) - found.steer(weights, 1.0, plain, NOW_S)
    per_day = RULE.wait_charge_per_day + RULE.forecast_margin_per_day
    assert waits.tolist() == pytest.approx([0.0, per_day / 24 * float(found.direct[1] + found.energy[1])])
    past = found.steer(weights, 1.0, RULE, NOW_S + 9 * HOUR_S) - found.steer(weights, 1.0, plain, NOW_S + 9 * HOUR_S)
    assert past.tolist() == [0.0, 0.0]


def test_weights_and_congestion_turn_the_choice_by_their_distance_from_one() -> None:
    found = replace(priced(), sla=np.array([5.0, 6.0]), warm_saved=np.array([3.0, 4.0]), data_saved=2)
    plain = found.steer(Weights(), 1.0, RULE, NOW_S)
    assert (found.steer(Weights(slo=3.0), 1.0, RULE, NOW_S) - plain).tolist() == pytest.approx([10.0, 12.0], abs=1e-6)
    near = found.steer(Weights(locality=2.0), 1.0, RULE, NOW_S) - plain
    assert near.tolist() == pytest.approx([-5.0, -6.0], abs=1e-6)
    dear = found.steer(Weights(), np.array([1.5, 0.9]), RULE, NOW_S) - plain
    assert dear.tolist() == pytest.approx([0.5 * found.direct[0], -0.1 * found.direct[1]])


def test_a_home_without_a_price_costs_nothing_but_its_carbon() -> None:
    home = option()
    free = replace(home, series=replace(home.series, price=None, electricity=None))
    found = priced(replace(JOB, model="chat"), replace(free, pool=replace(home.pool, warm={"chat": 1})))
    assert [found.direct.tolist(), found.energy.tolist(), found.warm_saved.tolist()] == [[0.0, 0.0]] * 3
    assert found.carbon.min() > 0
    unpriced = replace(free, tariff=replace(free.tariff, owned=None))
    assert move_price(JOB, unpriced, HOUR_S, Rates()) == 0


def test_devices_are_counted_in_shares_and_all_replicas() -> None:
    assert device_count(replace(JOB, demand=replace(JOB.demand, devices=0, compute_milli=250)), 3) == 0.75
    assert device_count(JOB, 2) == 2.0
    assert traffic_price(replace(JOB, model="m"), option(), GIB) == 0, "a line that is not metered"


def test_a_refund_is_no_budget() -> None:
    assert charged(Bill(direct=-5, energy=2)) == 0
    found = replace(priced(), direct=np.array([-5.0, 7.4]), energy=np.array([2.0, 0.6]))
    assert drain_of(found)[:, 0].tolist() == [0.0, 8.0]


def test_spot_devices_are_counted_by_tenant_and_pool() -> None:
    def placed(name: str, tenant: str, cluster: str, capacity: Capacity, replicas: int = 1) -> WorkloadRecord:
        made = record(replace(training(name, devices=2), tenant=tenant))
        home = Placement(name, 1, cluster, "p", "big", ShareMode.EXCLUSIVE, capacity, replicas, NOW_S)
        return replace(made, status=replace(made.status, placement=home))

    held = held_on_spot(
        [
            placed("one", "t", "a", Capacity.SPOT),
            placed("two", "t", "a", Capacity.SPOT, replicas=2),
            placed("three", "t", "b", Capacity.SPOT),
            placed("four", "t", "a", Capacity.OWNED),
            placed("five", "u", "a", Capacity.SPOT),
            record(training("waits")),
        ]
    )
    assert held == {"t": {("a", "p"): 6000, ("b", "p"): 2000}, "u": {("a", "p"): 2000}}


def test_every_pool_with_a_cluster_and_a_tariff_is_a_home_in_the_order_of_its_name() -> None:
    pools = (pool("b"), pool("a", name="z"), pool("a"), pool("c"), pool("d"))
    world = snapshot((), pools=pools, tariffs=tuple(tariff(name, 1) for name in "abc"))
    world = replace(world, clusters=tuple(one for one in world.clusters if one.name != "c"))
    assert [(one.pool.cluster, one.pool.name) for one in world_of(world, 4).homes] == [("a", "big"), ("b", "big")]
    grids = (carbon("a", (100.0, None, 300.0)), carbon("b", None), carbon("c", 150.0))
    assert {one.unknown_g_per_kwh for one in world_of(replace(world, carbon=grids), 4).homes} == {200.0}
    assert {one.unknown_g_per_kwh for one in world_of(replace(world, carbon=()), 4).homes} == {820.0}


def test_prices_and_grids_that_change_are_seen_at_once_also_within_an_hour() -> None:
    def sums(world: Snapshot) -> tuple[float, float]:
        [home] = world_of(world, 4).homes
        assert home.series.price is not None
        return float(home.series.price.sums[-1]), float(home.series.carbon.known.sums[-1])

    price, carbon = sums(WORLD)
    assert sums(WORLD) == (price, carbon)
    dearer = tuple(replace(one, owned=Weekly((123_000_000,))) for one in WORLD.tariffs)
    assert sums(replace(WORLD, tariffs=dearer)) == (4 * 123_000_000, carbon)
    greener = tuple(replace(one, g_per_kwh=(1.0,) * len(one.g_per_kwh)) for one in WORLD.carbon)
    assert sums(replace(WORLD, carbon=greener)) == (price, 4.0)
    later = replace(WORLD, now_s=WORLD.now_s + 3600)
    assert world_of(later, 4).homes[0].series.carbon.known.knots[0] > WORLD.now_s
