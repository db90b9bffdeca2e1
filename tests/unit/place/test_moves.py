"""Who changes its home: for a saving that pays the move and leaves room, or because spot has become too risky."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.cluster import VNodePool
from dure.model.decision import Hold, Move
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, Weekly
from dure.model.workload import AcceptedClass, Phase, Placement, WorkloadRecord, WorkloadType
from dure.place.moves import changes, cools, movable
from dure.place.settings import PlaceSettings
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
BIG = (AcceptedClass("big"),)


def moves(seen: Snapshot, most: int, besides: frozenset[str] = frozenset(), *, rule_only: bool = False) -> list[Move]:
    """Those who should go elsewhere; nobody here should stop and wait."""
    found = changes(seen, most, besides, rule_only=rule_only)
    assert not any(isinstance(one, Hold) for one in found)
    return [one for one in found if isinstance(one, Move)]


def running(
    name: str = "fit", *, where: str = "b", capacity: Capacity = Capacity.OWNED, **spec: object
) -> WorkloadRecord:
    job = training(name, classes=BIG, duration_s=40 * HOUR_S, checkpoint_s=600.0)
    made = record(replace(job, **spec), submitted_s=NOW_S - HOUR_S)
    home = Placement(name, 1, where, "big", "big", ShareMode.EXCLUSIVE, capacity, 1, NOW_S - HOUR_S)
    return replace(made, status=replace(made.status, phase=Phase.RUNNING, placement=home))


def world(*records: WorkloadRecord, here: int = 2000, there: int = 1000, free: VNodePool | None = None) -> Snapshot:
    """It runs at `b`; `a` has four free devices."""
    taken = replace(pool("b"), free_whole=(0,), free_milli=0)
    return snapshot(
        records,
        pools=(free or pool("a"), taken),
        tariffs=(tariff("a", there), tariff("b", here)),
        grids=(carbon("a", 100.0), carbon("b", 100.0)),
    )


def found(*records: WorkloadRecord, here: int = 2000, there: int = 1000, free: VNodePool | None = None) -> list[Move]:
    return list(moves(world(*records, here=here, there=there, free=free), 5))


def test_half_the_price_elsewhere_is_worth_a_move_and_the_saving_is_told() -> None:
    [move] = found(running())
    assert (move.workload, move.placement.cluster, move.reason.reason) == ("fit", "a", Reason.MOVED)
    assert 0 < move.saving < 40 * 1000 * 1_000_000, "the move itself is counted"


def test_a_saving_below_the_threshold_is_left_alone() -> None:
    assert found(running(), here=1100) == []
    assert len(found(running(), here=1300)) == 1
    assert found(running(), here=500) == []


def test_what_is_nearly_done_or_cannot_go_on_elsewhere_stays() -> None:
    assert found(running(duration_s=1000.0)) == []
    assert found(running(checkpoint_s=0.0)) == []
    assert movable(replace(running(), status=replace(running().status, phase=Phase.STARTING))) is False
    assert movable(replace(running(), status=replace(running().status, moving_to="a"))) is False
    assert movable(replace(running(), status=replace(running().status, leaving_s=NOW_S))) is False
    assert movable(running(type=WorkloadType.SERVING, checkpoint_s=0.0))


def test_nobody_moves_again_before_it_has_cooled_down() -> None:
    rule = PlaceSettings()
    again = running()
    lately = replace(again, status=replace(again.status, moved_s=NOW_S - rule.move_cooldown_h * HOUR_S + 1))
    long_ago = replace(again, status=replace(again.status, moved_s=NOW_S - rule.move_cooldown_h * HOUR_S))
    assert (cools(again, NOW_S, rule), cools(lately, NOW_S, rule), cools(long_ago, NOW_S, rule)) == (
        False,
        True,
        False,
    )
    assert found(lately) == []
    assert len(found(long_ago)) == 1


def test_a_quarter_of_a_pool_stays_free_for_newcomers_unless_it_can_grow() -> None:
    def free(devices: int, **more: int) -> VNodePool:
        return replace(pool("a"), free_whole=(devices,), free_milli=devices * 1000, **more)

    assert found(running(), free=free(1)) == []
    assert len(found(running(), free=free(2))) == 1
    assert len(found(running(), free=free(1, nodes_max=2))) == 1


def test_who_runs_does_not_take_the_class_that_somebody_waits_for() -> None:
    waits = record(training("new", classes=BIG))
    assert found(running(), waits) == []


def test_as_many_move_as_may_and_the_largest_saving_goes_first() -> None:
    short, long = running("short", duration_s=10 * HOUR_S), running("long")
    seen = world(short, long)
    assert [one.workload for one in moves(seen, 5)] == ["long", "short"]
    assert [one.workload for one in moves(seen, 1)] == ["long"]
    assert [one.workload for one in moves(seen, 5, frozenset({"long"}))] == ["short"]
    assert moves(seen, 0) == []


def test_no_more_move_than_there_is_room_for() -> None:
    crowd = [running(f"fit{n}") for n in range(3)]
    two_left = replace(pool("a"), free_whole=(2,), free_milli=2000)
    assert [one.workload for one in moves(world(*crowd, free=two_left), 5)] == ["fit0", "fit1"]
    assert len(moves(world(*crowd), 5)) == 3


def test_serving_moves_to_another_cluster_only() -> None:
    beside = replace(pool("b", name="next"), free_milli=4000)
    serving = running(type=WorkloadType.SERVING, checkpoint_s=0.0, duration_s=0.0)
    for record_, homes in ((running(), ["next"]), (serving, [])):
        seen = world(record_, there=9000)
        cheap = replace(seen.tariffs[1], pool="next", owned=Weekly((100_000_000,)))
        seen = replace(seen, pools=(*seen.pools, beside), tariffs=(*seen.tariffs, cheap))
        assert [one.placement.pool for one in moves(seen, 5)] == homes
    assert [one.placement.cluster for one in moves(world(serving), 5)] == ["a"]


def test_power_and_carbon_count_in_what_a_home_costs() -> None:
    seen = world(running(), here=1000, there=1000)
    assert moves(seen, 5) == []
    dirty = replace(seen, carbon_micros_per_kg=10_000_000_000, carbon=(carbon("a", 10.0), carbon("b", 900.0)))
    assert [one.placement.cluster for one in moves(dirty, 5)] == ["a"]
    powered = replace(seen.tariffs[1], electricity=Weekly((2_000_000_000,)))
    assert [one.placement.cluster for one in moves(replace(seen, tariffs=(seen.tariffs[0], powered)), 5)] == ["a"]


def test_a_faster_class_may_cost_more_an_hour_and_less_for_the_work() -> None:
    both = (AcceptedClass("big"), AcceptedClass("small", 0.5))
    for price, homes in ((300, ["small"]), (1200, [])):
        seen = world(running(classes=both), there=9000)
        seen = replace(
            seen,
            pools=(*seen.pools, pool("c", class_name="small")),
            tariffs=(*seen.tariffs, tariff("c", price, class_name="small")),
            clusters=(*seen.clusters, replace(seen.clusters[0], name="c", grid="a")),
        )
        assert [one.placement.pool for one in moves(seen, 5)] == homes


def test_the_saving_is_the_bill_of_staying_less_that_of_going() -> None:
    [move] = found(running())
    hours, half_a_checkpoint_h = 40, 300.0 / 3600
    load_h = world(running()).catalogue.load_s("") / 3600
    expected = hours * 2000 - hours * 1000 - (half_a_checkpoint_h + load_h) * 1000
    assert move.saving == pytest.approx(expected * 1_000_000, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(100, 5000), st.integers(100, 5000), st.integers(1, 100))
def test_no_move_costs_more_than_it_saves_by_its_own_forecast(here: int, there: int, hours: int) -> None:
    job = running(duration_s=hours * HOUR_S)
    moved_h = 300.0 / 3600 + world(job).catalogue.load_s("") / 3600
    staying, going = hours * here, (hours + moved_h) * there
    for move in found(job, here=here, there=there):
        assert move.saving == pytest.approx((staying - going) * 1_000_000, rel=1e-6)
        assert move.saving >= PlaceSettings().move_threshold * staying * 1_000_000 * (1 - 1e-6)
    if going < 0.5 * staying:
        assert found(job, here=here, there=there), "half the bill is worth a move"


def risky(deadline_h: float, reclaim: float = 0.5) -> Snapshot:
    """Ten hours of work on cheap spot at `b`, against a deadline of so many hours from now."""
    job = running(capacity=Capacity.SPOT, duration_s=10 * HOUR_S, deadline_s=(deadline_h + 1) * HOUR_S)
    seen = world(job, here=100, there=1000)
    away, spot = seen.pools
    cheap = replace(seen.tariffs[1], spot=seen.tariffs[1].owned, owned=None, reclaim_per_hour=reclaim)
    return replace(seen, pools=(away, replace(spot, capacity=Capacity.SPOT)), tariffs=(seen.tariffs[0], cheap))


def test_spot_is_left_while_there_is_still_time_whatever_that_costs() -> None:
    careful_h = PlaceSettings().careful * 10
    [move] = moves(risky(careful_h + 0.1), 5, rule_only=True)
    assert (move.placement.cluster, move.reason.reason) == ("a", Reason.DEADLINE_AT_RISK)
    assert move.saving < 0
    assert moves(risky(careful_h + 40), 5, rule_only=True) == []
    assert moves(risky(careful_h - 1), 5, rule_only=True) == [], "too late by any home"
    assert moves(risky(careful_h + 0.1, reclaim=0.001), 5, rule_only=True) == [], "nobody takes it back"
    assert moves(world(running()), 5, rule_only=True) == [], "savings are not asked for"
