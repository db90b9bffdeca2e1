"""The parts of a decision: what is told of homes not taken, why one waits and until when, who arrives, who sleeps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.decision import Decision, Hold, Place
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import MICROS
from dure.model.workload import AcceptedClass, Phase, WorkloadRecord
from dure.place import options_for, place, plan
from dure.place.batch import Choice, batch_of
from dure.place.candidate import Cycle
from dure.place.plan import _by_cost, _next_best, _not_taken, _sleeps, _waits, held, mode_of, placement_of
from tests.fixtures.small_world import GIB, fraction, training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
BIG = (AcceptedClass("big"),)
JOB = training(classes=BIG, duration_s=HOUR_S)
FULL = replace(pool("a"), free_whole=(0,), free_milli=0)


def with_status(made: WorkloadRecord, **status: object) -> WorkloadRecord:
    return replace(made, status=replace(made.status, **status))


def only(decisions: tuple[Decision, ...]) -> Decision:
    [decision] = decisions
    return decision


def told(decisions: tuple[Decision, ...]) -> list[tuple[str, type]]:
    return [(one.workload, type(one)) for one in decisions if isinstance(one, Place | Hold)]


def held_by(decision: Decision) -> Hold:
    assert isinstance(decision, Hold)
    return decision


def test_a_placement_says_where_how_and_since_when() -> None:
    waits = with_status(record(replace(JOB, gang=2)), generation=6)
    decision = only(place(snapshot((waits,))))
    assert isinstance(decision, Place)
    home = decision.placement
    assert (home.workload, home.generation, home.cluster, home.pool, home.class_name) == (
        "train",
        7,
        "a",
        "big",
        "big",
    )
    assert (home.mode, home.capacity, home.replicas) == (ShareMode.EXCLUSIVE, Capacity.OWNED, 2)
    assert (home.decided_s, home.start_s, home.bill.direct) == (NOW_S, NOW_S, 2 * 1000 * MICROS)


@pytest.mark.parametrize(
    ("share", "offered", "mode"),
    [
        ((), (ShareMode.EXCLUSIVE, ShareMode.MIG), ShareMode.MIG),
        ((), (ShareMode.MPS, ShareMode.MIG), ShareMode.MPS),
        ((ShareMode.MIG,), (ShareMode.MPS, ShareMode.MIG), ShareMode.MIG),
        ((ShareMode.EXCLUSIVE,), (ShareMode.EXCLUSIVE, ShareMode.MIG), ShareMode.EXCLUSIVE),
        ((), (ShareMode.EXCLUSIVE,), ShareMode.EXCLUSIVE),
    ],
)
def test_a_share_is_expected_in_the_first_mode_that_both_offer(
    share: tuple[ShareMode, ...], offered: tuple[ShareMode, ...], mode: ShareMode
) -> None:
    part = record(replace(fraction(), share=share))
    world = snapshot((part,), pools=(replace(pool("a"), share=offered),))
    [candidate] = Cycle(world, (part,)).candidates(part)
    assert mode_of(part.spec, candidate) is mode
    whole = record(JOB)
    [home] = Cycle(snapshot((whole,), pools=(pool("a"),)), (whole,)).candidates(whole)
    assert placement_of(whole, home, Bill(), world).mode is ShareMode.EXCLUSIVE


def test_homes_not_taken_are_told_from_the_cheapest_with_the_difference_and_the_ruled_out_last() -> None:
    world = snapshot(
        (record(JOB),),
        pools=(pool("a"), pool("b"), pool("c"), replace(FULL, cluster="d"), pool("e", class_name="small")),
        tariffs=(
            *(tariff(name, price) for name, price in (("a", 1000), ("b", 3000), ("c", 1200), ("d", 1500))),
            tariff("e", 1, class_name="small"),
        ),
    )
    decision = only(place(world))
    assert isinstance(decision, Place)
    assert [(one.where, one.reason, one.detail) for one in decision.others] == [
        ("c/big", None, "200 more"),
        ("b/big", None, "2,000 more"),
        ("d/big", Reason.NO_CAPACITY, ""),
        ("e/small", Reason.CLASS_NOT_ACCEPTED, ""),
    ]


def test_a_home_that_others_need_more_is_told_by_what_it_would_have_saved() -> None:
    cycle = Cycle(snapshot((record(JOB),)), (record(JOB),))
    [cheap, dear] = cycle.candidates(record(JOB))
    assert _not_taken(cheap, Bill(direct=3 * MICROS), Bill(direct=5 * MICROS)).detail.startswith("2 less, but")
    assert _not_taken(dear, Bill(direct=5 * MICROS), Bill(direct=5 * MICROS)).detail == "0 more"
    ruled_out = replace(cheap, now_clash=Verdict("a/big", Reason.NO_CAPACITY))
    assert _not_taken(ruled_out, Bill(), Bill()) is ruled_out.now_clash


def test_equal_bills_are_listed_by_carbon_and_then_by_name() -> None:
    world = snapshot(
        (record(JOB),),
        pools=tuple(pool(name) for name in "abc"),
        tariffs=tuple(tariff(name, 1000) for name in "abc"),
        grids=(carbon("a", 400.0), carbon("b", 100.0), carbon("c", 100.0)),
    )
    candidates = tuple(Cycle(world, world.records).candidates(world.records[0]))
    assert [one.where for one, _ in _by_cost(candidates)] == ["b/big", "c/big", "a/big"]
    assert [bill.direct for _, bill in _by_cost(candidates)] == [1000 * MICROS] * 3


def waiting(
    prices: tuple[int, ...], grams: tuple[float, ...] = (0.0,), now_s: float = NOW_S, per_kg: int = 0
) -> Hold:
    """Of an hour's run that may wait for half a day on one pool with such prices and grids by the hour."""
    made = record(JOB, deadline_s=12 * HOUR_S, submitted_s=now_s)
    world = snapshot(
        (made,),
        pools=(pool("a"),),
        tariffs=(tariff("a", (*prices, *prices[-1:] * (168 - len(prices)))),),
        grids=(carbon("a", (*grams, *grams[-1:] * (96 - len(grams)))),),
        carbon_per_kg=per_kg,
    )
    clusters = tuple(replace(one, observed_s=now_s) for one in world.clusters)
    return held_by(only(place(replace(world, now_s=now_s, clusters=clusters))))


def test_who_waits_is_told_the_hour_both_prices_and_when_it_is_looked_at_again() -> None:
    found = waiting((5000, 5000, 500))
    [verdict] = found.verdicts
    assert (verdict.where, verdict.reason) == ("a/big", Reason.WAITING_FOR_CHEAPER_HOUR)
    assert (verdict.wanted, verdict.found) == ("500 from 02:00 UTC", "5,000 if started now")
    assert found.until_s == NOW_S + HOUR_S
    assert waiting((5000, 500), now_s=NOW_S + 900).until_s == NOW_S + HOUR_S, "at the full hour"


def test_an_hour_is_called_greener_where_carbon_saves_more_than_money() -> None:
    """0.4 kWh: 800 g less at 1,000 a kilogram are 320."""
    dirty = (900.0, 100.0)
    assert waiting((1000, 700), dirty, per_kg=1000).verdicts[0].reason is Reason.WAITING_FOR_GREENER_HOUR
    assert waiting((1000, 680), dirty, per_kg=1000).verdicts[0].reason is Reason.WAITING_FOR_CHEAPER_HOUR
    assert waiting((1000, 600), dirty, per_kg=1000).verdicts[0].reason is Reason.WAITING_FOR_CHEAPER_HOUR
    assert waiting((1000, 1100), dirty, per_kg=1000).verdicts[0].reason is Reason.WAITING_FOR_GREENER_HOUR


def test_power_counts_as_money_in_what_an_hour_saves() -> None:
    made = record(JOB, deadline_s=12 * HOUR_S)
    world = snapshot(
        (made,), pools=(pool("a"),), grids=(carbon("a", (900.0, *(100.0,) * 95)),), carbon_per_kg=1000,
        tariffs=(replace(tariff("a", 1000), electricity=tariff("a", (1000, *(0,) * 167)).owned),),
    )  # fmt: skip
    assert held_by(only(place(world))).verdicts[0].reason is Reason.WAITING_FOR_CHEAPER_HOUR


def test_an_hour_that_comes_before_the_next_full_one_is_when_it_is_looked_at() -> None:
    made = record(JOB, deadline_s=12 * HOUR_S)
    cycle = Cycle(snapshot((made,), pools=(pool("a"),)), (made,))
    [candidate] = cycle.candidates(made)
    assert candidate.quote is not None
    soon = replace(candidate, quote=replace(candidate.quote, starts=candidate.quote.starts * 0 + NOW_S + 60))
    assert _waits(cycle, made, (soon,), soon, 1).until_s == NOW_S + 60


def test_who_waits_for_room_is_not_sent_to_sleep() -> None:
    made = record(JOB, deadline_s=12 * HOUR_S)
    full = snapshot((made,), pools=(FULL,))
    cycle = Cycle(full, (made,))
    candidates = tuple(cycle.candidates(made))
    found = _waits(cycle, made, candidates, candidates[0], 2)
    assert (found.until_s, [one.reason for one in found.verdicts]) == (None, [Reason.NO_CAPACITY])


@pytest.mark.parametrize(
    ("reason", "again_s", "sleeps"),
    [
        (Reason.WAITING_FOR_CHEAPER_HOUR, NOW_S + 1, True),
        (Reason.WAITING_FOR_GREENER_HOUR, NOW_S + 1, True),
        (Reason.WAITING_FOR_CHEAPER_HOUR, NOW_S, False),
        (Reason.WAITING_FOR_CHEAPER_HOUR, None, False),
        (Reason.NO_CAPACITY, NOW_S + 1, False),
    ],
)
def test_only_who_waits_on_purpose_sleeps_and_only_until_then(
    reason: Reason, again_s: float | None, sleeps: bool
) -> None:
    verdicts = (Verdict("b", Reason.NO_CAPACITY), Verdict("a", reason))
    made = with_status(record(JOB), phase=Phase.HELD, held=verdicts, look_again_s=again_s)
    assert _sleeps(made, NOW_S) is sleeps
    decision = only(place(snapshot((made,))))
    assert (decision == Hold("train", verdicts, until_s=again_s)) is sleeps
    assert isinstance(decision, Place) is not sleeps


def arriving(where: str, *, b: object = None, **spec: object) -> tuple[WorkloadRecord, Snapshot]:
    moved = with_status(record(replace(JOB, **spec)), moving_to=where)
    return moved, snapshot((moved,), pools=(pool("a"), b or pool("b")))  # type: ignore[arg-type]


def test_one_in_the_middle_of_a_move_gets_the_home_it_left_for_while_that_has_room() -> None:
    def home(where: str, **more: object) -> str:
        decision = only(place(arriving(where, **more)[1]))
        return decision.placement.cluster if isinstance(decision, Place) else ""

    assert home("b/big") == "b"
    assert home("b/big", b=replace(pool("b"), free_whole=(0,), free_milli=0)) == "a"
    assert home("gone/big") == "a"
    assert home("b/big", regions=("a-*",)) == "a"
    newcomer = record(replace(JOB, name="new", demand=replace(JOB.demand, devices=4)))
    moved, world = arriving("b/big")
    both = place(replace(world, records=(newcomer, moved), pools=(FULL, pool("b"))))
    assert told(both) == [("train", Place), ("new", Hold)], "it has room first"


def test_those_who_are_paused_are_told_by_whom_in_the_order_of_their_names() -> None:
    both = tuple(record(replace(JOB, name=name)) for name in ("z", "b"))
    world = replace(snapshot(both), policies=(Policy("careful", Verb.PLACE, paused=True),))
    assert told(place(world)) == [("b", Hold), ("z", Hold)]
    assert held_by(place(world)[0]).verdicts[0].found == "careful is paused"
    assert place(snapshot(())) == ()


def test_the_homes_of_one_workload_are_listed_possible_ones_first_and_by_what_they_cost() -> None:
    made = record(JOB, deadline_s=12 * HOUR_S)
    world = snapshot(
        (made,),
        pools=(FULL, pool("b"), pool("c"), pool("d", class_name="small")),
        tariffs=(
            tariff("a", 1),
            tariff("b", 2000),
            tariff("c", (900, 900, 800, *(900,) * 165)),
            tariff("d", 1, class_name="small"),
        ),
    )
    found = options_for(world, made)
    listed = [
        (one.option.where, (one.option.start_s - NOW_S) / HOUR_S, one.clash and one.clash.reason) for one in found
    ]
    assert listed == [
        ("c/big", 2.0, None),
        ("c/big", 0.0, None),
        ("b/big", 0.0, None),
        ("d/small", 0.0, Reason.CLASS_NOT_ACCEPTED),
        ("a/big", 0.0, Reason.NO_CAPACITY),
    ]
    assert [one.bill.direct // MICROS for one in found] == [800, 900, 2000, 0, 1]
    assert found[0].demand == made.spec.demand


def test_the_cheapest_home_that_still_has_room_is_the_next_best() -> None:
    made = record(JOB)
    world = snapshot(
        (made,),
        pools=(FULL, pool("b"), pool("c")),
        tariffs=(tariff("a", 1), tariff("b", 9), tariff("c", 9)),
        grids=(carbon("b", 9.0), carbon("c", 9.0)),
    )
    cycle = Cycle(world, (made,))
    candidates = tuple(cycle.candidates(made))
    found = _next_best(cycle, made, candidates)
    assert found is not None
    assert found.where == "b/big"
    assert _next_best(cycle, made, candidates[:1]) is None
    assert [one.reason for one in held(cycle, made, candidates)] == [
        Reason.NO_CAPACITY, Reason.FAIR_SHARE, Reason.FAIR_SHARE,
    ]  # fmt: skip


def test_what_starts_now_must_fit_onto_whole_nodes_or_goes_to_the_next_best_or_waits() -> None:
    """The solver counts devices: two nodes with one free device each have no room for two on one node."""
    made = record(replace(JOB, demand=replace(JOB.demand, devices=2)))
    broken_up = replace(pool("a", nodes=2), free_whole=(1, 1), free_milli=2000)
    for pools, home in (((broken_up, pool("b")), "b"), ((broken_up,), "")):
        cycle = Cycle(snapshot((made,), pools=pools), (made,), all_bills=True)
        batch = batch_of(cycle, (made,))
        decision = plan._decision(cycle, batch, 0, Choice(0, 0))
        assert (decision.placement.cluster if isinstance(decision, Place) else "") == home
    assert held_by(decision).verdicts[0].reason is Reason.FRAGMENTED
    assert held_by(plan._decision(cycle, batch, 0, None)).verdicts == held_by(decision).verdicts


def test_shares_of_one_device_are_told_with_what_is_left() -> None:
    part = record(replace(fraction(memory_mib=4 * GIB), tenant="t"))
    used_up = replace(
        pool("a"), free_whole=(0,), free_milli=50, largest_memory_mib=40 * GIB, largest_compute_milli=50
    )
    decision = held_by(only(place(snapshot((part,), pools=(used_up,)))))
    assert decision.verdicts[0].found == "largest free share in a/big is 5 %"
