"""The rule of spot put from a snapshot: whom it speaks of, what it compares, and what it never does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.cluster import ClusterInfo
from dure.model.decision import Hold, Move, Place
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot, digest
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.tariff import Capacity, Weekly
from dure.model.units import MICROS
from dure.model.workload import AcceptedClass, Workload, WorkloadRecord, WorkloadType
from dure.place import options_for, place, spot_rule
from dure.place.candidate import Cycle, governed
from dure.place.moves import changes, gives_up, stand_of
from dure.place.settings import PlaceSettings
from dure.place.spot import LOOK_S, Rent, Seen, SpotView, choose
from dure.place.spot_rule import RETRY_S, spot_ruling, waiting_rule
from tests.fixtures.small_world import training
from tests.unit.place.test_moves import running
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

HOUR_S = 3600.0
CAREFUL = PlaceSettings().careful
LOST = (NodeSpell("a", NOW_S - 9 * HOUR_S, NOW_S - HOUR_S, lost=True),)


def job(**spec: object) -> Workload:
    made = training("fit", classes=(AcceptedClass("big"),), duration_s=4 * HOUR_S, checkpoint_s=600.0)
    return replace(made, **{"deadline_s": 12 * HOUR_S, **spec})


def world(
    waiting: WorkloadRecord, *, spot: int = 300, sure: int = 1000, free: int = 4, asks: bool = False,
    spells: tuple[NodeSpell, ...] | None = (NodeSpell("a", NOW_S - 9 * HOUR_S),),
) -> Snapshot:  # fmt: skip
    """Spot at `b`, with so many of its devices free; what is not taken back at `a`."""
    gone = spells is not None and spells[-1].end_s is not None
    free, nodes = (0, 0) if gone else (free, 1)
    here = replace(
        pool("b"), capacity=Capacity.SPOT, nodes=nodes, nodes_ready=nodes, devices=4 * nodes,
        free_whole=(free,) if free else (), free_milli=free * 1000,
    )  # fmt: skip
    cheap = replace(tariff("b", spot), owned=None, spot=Weekly((spot * MICROS,)), reclaim_per_hour=0.05)
    seen = snapshot(
        (waiting,), pools=(pool("a"), here), tariffs=(tariff("a", sure), cheap),
        grids=(carbon("a", 100.0), carbon("b", 100.0)),
    )  # fmt: skip
    told = () if spells is None else (PoolSpells("b", "big", NOW_S - 10 * HOUR_S, spells, asks),)
    return replace(seen, spells=told)


def decided(seen: Snapshot) -> Place | Hold:
    [decision] = place(seen)
    assert isinstance(decision, (Place, Hold))
    return decision


def home(seen: Snapshot) -> str:
    decision = decided(seen)
    return decision.placement.cluster if isinstance(decision, Place) else ""


def reasons(seen: Snapshot) -> set[Reason | None]:
    decision = decided(seen)
    return {one.reason for one in (decision.verdicts if isinstance(decision, Hold) else decision.others)}


def test_it_speaks_of_work_with_a_deadline_and_checkpoints_that_may_move() -> None:
    rule = PlaceSettings()
    assert governed(record(job()), rule)
    for without in (job(deadline_s=None), job(checkpoint_s=0.0), job(type=WorkloadType.SERVING)):
        assert not governed(record(without), rule)
        assert spot_ruling(world(record(without)), record(without)) is None
    assert not governed(record(job()), PlaceSettings(spot=False))
    assert not governed(record(job()), PlaceSettings(moves_at_once=0))


def test_spot_that_is_up_is_taken_and_the_other_home_says_why_not() -> None:
    seen = world(record(job()))
    assert home(seen) == "b"
    assert reasons(seen) == {Reason.SPOT_FIRST}
    ruling = spot_ruling(seen, seen.records[0])
    assert ruling is not None
    assert (ruling.rent, ruling.spot, ruling.safe) == (Rent.SPOT, "b/big", "a/big")
    assert "slack 7.4 h of 12.0 h" in ruling.sentence
    assert "spot at 30 % of a/big, up for 9.0 h" in ruling.sentence


def test_spot_that_was_lost_is_waited_for_with_slack_and_not_without_or_by_who_must_not_wait() -> None:
    seen = world(record(job()), spells=LOST)
    assert reasons(seen) == {Reason.WAITING_FOR_SPOT}
    assert home(world(record(job(deferrable=False)), spells=LOST)) == "a"
    assert home(world(record(job(deadline_s=5.2 * HOUR_S)), spells=LOST)) == "a"
    hasty = Policy("place", Verb.PLACE, settings={"longest_wait_h": 1.0})
    late = record(job(deadline_s=14 * HOUR_S), submitted_s=NOW_S - 2 * HOUR_S)
    assert home(replace(world(late, spells=LOST), policies=(hasty,))) == "a"


def test_nobody_waits_where_the_home_to_fall_back_on_may_fill_up_or_a_slow_run_would_be_late() -> None:
    seen = world(record(job()), spells=LOST)
    nearly_full = replace(seen.pools[0], free_whole=(1,), free_milli=1000)
    assert home(replace(seen, pools=(nearly_full, seen.pools[1]))) == "a"
    slow = Policy("place", Verb.PLACE, settings={"duration_high": 2.97})
    assert home(replace(seen, policies=(slow,))) == "a"


def test_a_pool_that_can_ask_for_nodes_is_asked_again_after_a_while() -> None:
    def lost(ago_s: float) -> tuple[NodeSpell, ...]:
        return (NodeSpell("a", NOW_S - 9 * HOUR_S, NOW_S - ago_s, lost=True),)

    seen = world(record(job()), spells=lost(RETRY_S - 1), asks=True, free=0)
    assert reasons(seen) == {Reason.WAITING_FOR_SPOT}
    assert home(world(record(job()), spells=lost(RETRY_S), asks=True, free=0)) == "b"


def test_where_nothing_is_told_of_a_pool_the_prior_speaks() -> None:
    seen = world(record(job()), spells=None)
    assert home(seen) == "b"
    ruling = spot_ruling(seen, seen.records[0])
    assert ruling is not None
    assert (ruling.seen.losses, ruling.seen.up, ruling.seen.age_h) == (Seen().losses, Seen().up, 0.0)


def test_a_pool_that_is_full_of_others_is_no_reason_to_wait() -> None:
    assert home(world(record(job()), free=0)) == "a"


def test_without_a_home_to_fall_back_on_or_with_hardly_a_saving_the_bill_decides() -> None:
    seen = world(record(job()))
    full = replace(seen.pools[0], free_whole=(), free_milli=0)
    assert spot_ruling(replace(seen, pools=(full, seen.pools[1])), seen.records[0]) is None
    assert spot_ruling(world(record(job()), spot=860), record(job())) is None
    dear = world(record(job(deadline_s=CAREFUL * 4 * HOUR_S + LOOK_S)), spot=900)
    assert home(dear) == "a", "a launch on spot that is lost at once would be late"


def test_spot_that_is_too_slow_for_the_deadline_is_none() -> None:
    slow = job(classes=(AcceptedClass("big"), AcceptedClass("small", 0.3)))
    seen = world(record(slow))
    crawling = replace(seen.pools[1], class_name="small", devices_per_node=4)
    tariffs = (seen.tariffs[0], replace(seen.tariffs[1], class_name="small"))
    seen = replace(seen, pools=(seen.pools[0], crawling), tariffs=tariffs)
    assert home(seen) == "a"
    assert reasons(seen) == {Reason.DEADLINE_AT_RISK}


def test_of_two_pools_the_one_that_is_seldom_lost_is_taken_and_a_much_cheaper_one_before_it() -> None:
    seen = world(record(job()))
    wild = tuple(NodeSpell(f"w{n}", NOW_S - n * HOUR_S, NOW_S - n * HOUR_S + 600, lost=True) for n in range(9, 0, -1))
    other = replace(pool("c"), capacity=Capacity.SPOT)

    def beside(price: int) -> Snapshot:
        cheap = replace(tariff("c", price), owned=None, spot=Weekly((price * MICROS,)), reclaim_per_hour=0.05)
        told = PoolSpells("c", "big", NOW_S - 10 * HOUR_S, (*wild, NodeSpell("now", NOW_S - 60)))
        return replace(
            seen,
            pools=(*seen.pools, other),
            tariffs=(*seen.tariffs, cheap),
            clusters=(*seen.clusters, ClusterInfo("c", "c", grid="a", observed_s=NOW_S)),
            spells=(*seen.spells, told),
        )

    assert home(beside(300)) == "b"
    assert home(beside(100)) == "c"


def test_one_that_pays_in_full_waits_only_where_the_rule_says_so_and_it_may() -> None:
    seen = world(record(job()), spells=LOST)
    paying = running(where="a", duration_s=4 * HOUR_S, deadline_s=100 * HOUR_S)
    found = gives_up(paying, stand_of(Cycle(replace(seen, records=(paying,)), (), all_bills=True), paying))
    assert found is not None
    assert [one.reason for one in found.verdicts] == [Reason.WAITING_FOR_SPOT]
    # Others who wait for the same devices are no reason not to look: they are waited for.
    assert changes(replace(seen, records=(paying, record(job()))), 5, rule_only=True) == (found,)
    must = replace(paying, spec=replace(paying.spec, deferrable=False))
    assert gives_up(must, stand_of(Cycle(replace(seen, records=(must,)), (), all_bills=True), must)) is None


def test_one_that_pays_in_full_goes_to_spot_for_any_saving_and_the_rule_is_asked_only_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[SpotView] = []

    def counted(view: SpotView, seen: Seen) -> Rent:
        asked.append(view)
        return choose(view, seen)

    monkeypatch.setattr(spot_rule, "choose", counted)
    paying = running(where="a", duration_s=4 * HOUR_S, deadline_s=40 * HOUR_S)
    seen = replace(world(record(job())), records=(paying,))
    [move] = changes(seen, 5, rule_only=True)
    assert isinstance(move, Move)
    assert (move.placement.cluster, len(asked)) == ("b", 1)
    # Who waits for the same devices comes first, so there is nowhere to go.
    assert changes(replace(seen, records=(paying, record(job()))), 5, rule_only=True) == ()
    assert len(asked) == 1


def test_what_was_seen_of_spot_is_part_of_the_world_that_was_decided_on() -> None:
    seen = world(record(job()))
    assert digest(seen) != digest(replace(seen, spells=()))
    assert digest(seen) == digest(replace(seen, spells=tuple(seen.spells)))


def test_the_plan_for_one_shows_what_the_decision_would() -> None:
    offers = options_for(world(record(job()), spells=LOST), record(job()))
    assert {offer.clash.reason for offer in offers if offer.clash} == {Reason.WAITING_FOR_SPOT}


spell_ends = st.lists(st.floats(0.05, 9.5), min_size=0, max_size=6, unique=True)


@settings(max_examples=40, deadline=None)
@given(spell_ends, st.booleans(), st.floats(1.0, 3.0), st.integers(50, 1200), st.floats(0.0, 3.9), st.booleans())
def test_nobody_is_put_on_spot_or_left_waiting_who_could_then_be_late(
    ends: list[float], up: bool, factor: float, price: int, done_h: float, asks: bool
) -> None:
    """Whatever was seen: on-demand would still be in time at the next look, a launch lost at once included."""
    turns = sorted(ends, reverse=True)
    pairs = zip(turns[::2], turns[1::2], strict=False)
    spells = tuple(NodeSpell(f"n{h}", NOW_S - h * HOUR_S, NOW_S - e * HOUR_S, lost=True) for h, e in pairs)
    spells = (*spells, NodeSpell("now", NOW_S - 60.0)) if up else spells or LOST
    waiting = record(job(deadline_s=4 * HOUR_S * factor))
    waiting = replace(waiting, status=replace(waiting.status, done_s=done_h * HOUR_S))
    seen = world(waiting, spot=price, spells=spells, asks=asks)
    slack_s = 4 * HOUR_S * factor - CAREFUL * (4 - done_h) * HOUR_S
    decision = decided(seen)
    if isinstance(decision, Place) and decision.placement.capacity is Capacity.SPOT:
        assert slack_s >= 2 * LOOK_S
    if isinstance(decision, Hold) and any(one.reason is Reason.WAITING_FOR_SPOT for one in decision.verdicts):
        assert slack_s >= LOOK_S
    assert waiting_rule(Cycle(seen, (waiting,)), waiting, Cycle(seen, (waiting,)).candidates(waiting)) is None or (
        slack_s >= 0
    )
