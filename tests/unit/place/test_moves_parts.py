"""What a move is weighed by: rates of the hours ahead, the bill of staying, the guard of a deadline to the second."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from dure.model.cluster import ClusterInfo
from dure.model.decision import Move
from dure.model.money import Rates
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import MICROS
from dure.model.workload import AcceptedClass, WorkloadRecord, WorkloadType
from dure.place.bill import Quote
from dure.place.candidate import Candidate, Cycle
from dure.place.moves import _promising, _Rate, _rates, best_move, movable, stand_of
from dure.place.settings import PlaceSettings
from dure.place.spot_rule import home_of, staying
from tests.fixtures.small_world import training
from tests.unit.place.test_moves import moves, running, world
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
RULE = PlaceSettings()


def with_status(made: WorkloadRecord, **status: object) -> WorkloadRecord:
    return replace(made, status=replace(made.status, **status))


def moved(cycle: Cycle, job: WorkloadRecord, part: float = 1.0) -> tuple[Move, Candidate] | None:
    return best_move(cycle, job, part, stand=stand_of(cycle, job))


def test_a_rate_is_rent_power_and_carbon_of_the_next_six_hours() -> None:
    """0.6 kWh at the wall: 60 for power, 0.6 x 200 g at 1,000 a kilogram are 120; rent is 1,000 and then 2,500."""
    info = ClusterInfo("a", "here", grid="a", pue=1.5, observed_s=NOW_S)
    seen = snapshot(
        (), pools=(pool("a"), pool("b")), a=info, carbon_per_kg=1000, grids=(carbon("a", 200.0),),
        tariffs=(tariff("a", (*(1000,) * 4, *(2500,) * 164), electricity=100), tariff("b", 10)),
    )  # fmt: skip
    here, there = _rates(Cycle(seen, ()))
    assert here[:3] == ("a", "big", "big")
    assert here.micros == pytest.approx((1500 + 60 + 120) * MICROS)
    assert there.micros == pytest.approx((10 + 0.4 * 200) * MICROS), "an unknown grid is as dirty as the worst known"
    away = replace(seen, clusters=(seen.clusters[0], replace(seen.clusters[1], reachable=False)))
    assert [one.cluster for one in _rates(Cycle(away, ()))] == ["a"]
    dollars = tuple(replace(one, currency="USD") for one in seen.tariffs)
    paid = _rates(Cycle(replace(seen, tariffs=dollars, rates=Rates(per_unit={"USD": 2.0})), ()))
    assert paid[0].micros == pytest.approx((2 * 1560 + 120) * MICROS)
    given = replace(seen, tariffs=(replace(seen.tariffs[0], owned=None, electricity=None), seen.tariffs[1]))
    assert _rates(Cycle(given, ()))[0].micros == pytest.approx(120 * MICROS, rel=1e-12)


@pytest.mark.parametrize(
    ("own", "other", "class_name", "worth"),
    [
        (1000.0, 850.0, "big", False),
        (1000.0, 849.0, "big", True),
        (1000.0, 425.0, "small", False),
        (1000.0, 424.0, "small", True),
        (1000.0, 1.0, "other", False),
        (1000.0, 1.0, "useless", False),
    ],
)
def test_a_first_look_asks_whether_the_same_work_is_cheaper_by_the_threshold(
    own: float, other: float, class_name: str, worth: bool
) -> None:
    classes = (AcceptedClass("big"), AcceptedClass("small", 0.5), AcceptedClass("useless", 0.0))
    rates = [_Rate("a", "x", class_name, other), _Rate("b", "other", "big", 1000.0), _Rate("b", "big", "big", own)]
    assert _promising(running(classes=classes), rates, RULE) is worth
    assert _promising(running(classes=classes), rates[:2], RULE) is False, (
        "what is not known of its home is no reason"
    )
    assert _promising(record(training("waits")), rates, RULE) is False


def test_a_home_on_a_slower_class_pays_longer_for_the_same_work() -> None:
    classes = (AcceptedClass("small"), AcceptedClass("big", 0.5))
    rates = [_Rate("a", "small", "small", 1699.0), _Rate("b", "big", "big", 1000.0)]
    assert _promising(running(classes=classes), rates, RULE)
    assert _promising(running(classes=classes), [rates[0]._replace(micros=1700.0), rates[1]], RULE) is False
    unnamed = running(classes=(AcceptedClass("small"),))
    assert _promising(unnamed, [rates[0]._replace(micros=849.0), rates[1]], RULE)
    assert _promising(unnamed, [rates[0]._replace(micros=850.0), rates[1]], RULE) is False


def billed(seen: Snapshot, job: WorkloadRecord) -> Quote | None:
    cycle = Cycle(seen, ())
    home = home_of(cycle, job)
    return None if home is None else staying(cycle, job, home)


def test_staying_is_billed_from_now_for_the_work_that_is_left() -> None:
    seen = world(running())
    half = with_status(running(), done_s=30 * HOUR_S)
    found = billed(seen, half)
    assert found is not None
    assert (found.starts.tolist(), found.run_s, found.direct.tolist()) == (
        [NOW_S],
        10 * HOUR_S,
        [pytest.approx(10 * 2000 * MICROS)],
    )
    unnamed = billed(seen, running(classes=(AcceptedClass("small"),)))
    assert unnamed is not None
    assert unnamed.run_s == 40 * HOUR_S, "a class that it does not name runs at the speed of the estimate"
    assert billed(seen, record(training("waits"))) is None
    assert billed(seen, running(where="gone")) is None
    away = replace(seen, clusters=(seen.clusters[0], replace(seen.clusters[1], reachable=False)))
    assert billed(away, running()) is None


@pytest.mark.parametrize(("left_s", "stays"), [(1799.0, True), (1800.0, False)])
def test_what_is_done_within_half_an_hour_is_left_alone(left_s: float, stays: bool) -> None:
    cycle = Cycle(world(running()), (), all_bills=True)
    nearly = with_status(running(), done_s=40 * HOUR_S - left_s)
    assert (moved(cycle, nearly) is None) is stays
    serves = replace(nearly, spec=replace(nearly.spec, type=WorkloadType.SERVING))
    assert moved(cycle, serves) is not None


def test_the_saving_must_pass_the_threshold_or_a_part_of_it() -> None:
    """About 10 % cheaper elsewhere: below the threshold of 15 %, above its half."""
    seen = world(running(), here=1115)
    cycle = Cycle(seen, (), all_bills=True)
    assert moved(cycle, seen.records[0]) is None
    found = moved(cycle, seen.records[0], part=0.5)
    assert found is not None
    assert (found[0].placement.cluster, found[1].where) == ("a", "a/big")
    cooling = with_status(seen.records[0], moved_s=NOW_S)
    assert moved(cycle, cooling, part=0.5) is None
    dearer = world(running(), here=900)
    assert moved(Cycle(dearer, (), all_bills=True), dearer.records[0], part=-1.0) is None, "never at a loss"
    assert moved(cycle, record(training("waits"))) is None


def test_a_node_that_has_to_be_booted_is_paid_while_it_boots() -> None:
    grows = replace(pool("a"), free_whole=(0,), free_milli=0, nodes_max=2, boot_s=1800.0)
    [booted], [there] = moves(world(running(), free=grows), 5), moves(world(running()), 5)
    assert there.saving - booted.saving == pytest.approx(0.5 * 1000 * MICROS, rel=1e-6)
    assert booted.placement.bill.migration - there.placement.bill.migration == pytest.approx(0.5 * 1000 * MICROS)
    assert booted.reason.reason is Reason.MOVED


def test_equal_savings_go_by_name_and_equal_homes_by_carbon_and_name() -> None:
    seen = world(running("y"), running("x"))
    assert [one.workload for one in moves(seen, 1)] == ["x"]
    three = replace(
        seen,
        pools=(*seen.pools, pool("c")),
        tariffs=(*seen.tariffs, tariff("c", 1000)),
        clusters=(*seen.clusters, ClusterInfo("c", "c", grid="c", observed_s=NOW_S)),
        carbon=(carbon("a", 300.0), carbon("b", 300.0), carbon("c", 200.0)),
    )
    assert [one.placement.cluster for one in moves(three, 1)] == ["c"]
    even = replace(three, carbon=(carbon("a", 300.0), carbon("b", 300.0), carbon("c", 300.0)))
    assert [one.placement.cluster for one in moves(even, 1)] == ["a"]


def test_one_who_is_on_its_way_already_neither_moves_nor_keeps_others_from_it() -> None:
    made = running()
    assert movable(made)
    assert movable(with_status(made, incoming=made.status.placement)) is False
    arriving = with_status(record(training("new", classes=(AcceptedClass("big"),))), moving_to="b/big")
    assert [one.workload for one in moves(world(made, arriving), 5)] == ["fit"]


CAREFUL_S = RULE.careful * 10 * HOUR_S


def on_spot(
    slack_s: float, *, reclaim: float = 0.5, model: str = "chat", **spec: object
) -> tuple[WorkloadRecord, Snapshot]:
    """Ten hours of work on spot at `b`, with so much time to the deadline beyond a careful run."""
    deadline_s = HOUR_S + CAREFUL_S + slack_s
    job = running(capacity=Capacity.SPOT, duration_s=10 * HOUR_S, deadline_s=deadline_s, model=model)
    job = replace(job, spec=replace(job.spec, **spec))
    seen = world(job, here=100)
    cheap = replace(seen.tariffs[1], spot=seen.tariffs[1].owned, owned=None, reclaim_per_hour=reclaim)
    spot = replace(seen.pools[1], capacity=Capacity.SPOT, boot_s=9999.0)
    return job, replace(seen, pools=(replace(seen.pools[0], boot_s=90.0), spot), tariffs=(seen.tariffs[0], cheap))


def leaves(slack_s: float, *, reclaim: float = 0.5, model: str = "chat", **spec: object) -> bool:
    job, seen = on_spot(slack_s, reclaim=reclaim, model=model, **spec)
    return at_risk(job, seen)


def at_risk(job: WorkloadRecord, seen: Snapshot) -> bool:
    found = moves(replace(seen, records=(job,)), 5, rule_only=True)
    assert all(one.reason.reason is Reason.DEADLINE_AT_RISK for one in found)
    return bool(found)


def test_the_guard_asks_for_a_load_a_boot_there_and_one_more_look() -> None:
    needed_s = 100.0 + 90.0 + 600.0
    assert leaves(needed_s - 1)
    assert leaves(needed_s + 1) is False
    assert leaves(needed_s - 90.0, model="unknown") is False, "an unknown model loads at once"
    assert leaves(0.5)
    assert leaves(-1.0) is False, "too late by any home"


def test_the_guard_is_for_deadlines_on_spot_that_may_be_taken_back() -> None:
    assert leaves(60.0, reclaim=0.1 / (CAREFUL_S / HOUR_S) * 1.01)
    assert leaves(60.0, reclaim=0.1 / (CAREFUL_S / HOUR_S) * 0.99) is False
    assert leaves(60.0, type=WorkloadType.SERVING) is False
    job, seen = on_spot(60.0)
    home = job.status.placement
    assert home is not None
    assert at_risk(replace(job, spec=replace(job.spec, deadline_s=None)), seen) is False
    assert at_risk(with_status(job, placement=None), seen) is False
    assert at_risk(with_status(job, placement=replace(home, pool="gone")), seen) is False
    assert at_risk(with_status(job, done_s=HOUR_S), seen) is False, "what is done is time won"
    fast = replace(job, spec=replace(job.spec, classes=(AcceptedClass("big", 2.0),)))
    assert at_risk(fast, seen) is False
    assert at_risk(with_status(job, submitted_s=job.status.submitted_s + HOUR_S), seen) is False


def test_a_guarded_one_leaves_for_what_is_not_taken_back_even_if_others_wait_or_it_has_moved_lately() -> None:
    job, seen = on_spot(60.0)
    lately = with_status(job, moved_s=NOW_S - 1)
    waits = record(training("new", classes=(AcceptedClass("big"),)))
    other = replace(pool("c"), capacity=Capacity.SPOT)
    crowded = replace(
        seen,
        records=(lately, waits),
        pools=(replace(seen.pools[0], free_whole=(1,), free_milli=1000), seen.pools[1], other),
        tariffs=(*seen.tariffs, replace(tariff("c", 1), spot=tariff("c", 1).owned)),
        clusters=(*seen.clusters, ClusterInfo("c", "c", grid="a", observed_s=NOW_S)),
    )
    [move] = moves(crowded, 5)
    assert (move.placement.cluster, move.reason.reason) == ("a", Reason.DEADLINE_AT_RISK)
    assert np.isfinite(move.saving)
