"""Spot under a deadline: never late whatever the market does, and slack is spent where it pays."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.bench.spot_bound import least_cost
from dure.bench.spot_replay import Job, Zones, replay
from dure.bench.spot_rules import RULES
from dure.place import spot, spot_value
from dure.place.spot import Rent, Seen, SpotView, choose, may_launch_spot, must_rent
from dure.place.spot_value import HOPELESS, Market, age_class, costs, ending

GAP_S = 600.0
JOB = Job(work_s=6 * 3600.0, restart_s=900.0, deadline_s=9 * 3600.0, price=0.3)


def view(left_h: float, work_h: float, *, up: bool, running: Rent = Rent.IDLE) -> SpotView:
    return SpotView(left_h * 3600, work_h * 3600, up, running, restart_s=720.0, look_s=195.0, price=0.3)


def market(*zones: list[bool]) -> Zones:
    return Zones(np.array(zones), GAP_S, np.zeros((len(zones), 0), np.bool_))


@settings(max_examples=60)
@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.sampled_from(sorted(RULES)),
    st.sampled_from([1.1, 1.3, 2.0]),
)
def test_no_rule_is_ever_late_and_none_beats_the_bound(up: list[bool], rule: str, factor: float) -> None:
    job = Job(JOB.work_s, JOB.restart_s, JOB.work_s * factor, JOB.price)
    outcome = replay(job, market(up), RULES[rule])
    assert outcome.end_s <= job.deadline_s + 1e-6
    assert outcome.cost >= least_cost(job, np.array(up), GAP_S) - 1e-6


@settings(max_examples=30)
@given(st.lists(st.lists(st.booleans(), min_size=30, max_size=30), min_size=2, max_size=4))
def test_several_zones_together_are_never_late(zones: list[list[bool]]) -> None:
    assert replay(JOB, market(*zones), RULES["dure"]).end_s <= JOB.deadline_s + 1e-6


def test_a_market_that_is_always_up_costs_the_spot_price() -> None:
    outcome = replay(JOB, market([True]), RULES["dure"])
    assert outcome.cost == 0.3 * (JOB.work_s + JOB.restart_s)


def test_a_market_that_never_comes_costs_on_demand_and_no_more() -> None:
    outcome = replay(JOB, market([False]), RULES["dure"])
    assert outcome.cost == JOB.work_s + JOB.restart_s


def test_a_zone_that_is_lost_is_followed_by_another_that_is_up() -> None:
    first = [True] * 6 + [False] * 200
    second = [False] * 4 + [True] * 202
    outcome = replay(JOB, market(first, second), RULES["dure"])
    assert outcome.launches == 2
    assert outcome.cost == 0.3 * (JOB.work_s + 2 * JOB.restart_s)


def test_slack_is_kept_for_later_losses_when_it_is_short_and_spent_waiting_when_there_is_plenty() -> None:
    seen = Seen(up=10, down=10, losses=10, returns=10)
    assert choose(view(13.5, 12, up=False), seen) is Rent.ON_DEMAND
    assert choose(view(22, 12, up=False), seen) is Rent.IDLE


def test_the_guard_overrules_every_estimate() -> None:
    dreamt = Seen(up=1e6, down=1e-3, losses=1.0, returns=1e6)
    tight = view(12.2, 12, up=True)
    assert must_rent(tight)
    assert choose(tight, dreamt) is Rent.ON_DEMAND


@pytest.mark.parametrize(
    ("running", "loading_s", "needed_s"),
    [
        (Rent.IDLE, 0.0, 915.0),
        (Rent.SPOT, 500.0, 915.0),
        (Rent.ON_DEMAND, 0.0, 1830.0),
        (Rent.ON_DEMAND, 70.0, 1900.0),
    ],
)
def test_on_demand_is_a_must_from_the_look_at_which_the_next_may_be_too_late(
    running: Rent, loading_s: float, needed_s: float
) -> None:
    def at(slack_s: float) -> SpotView:
        return SpotView(7200.0 + slack_s, 7200.0, True, running, 720.0, 195.0, 0.3, loading_s)

    assert not must_rent(at(needed_s))
    assert must_rent(at(needed_s - 1.0))


def test_spot_is_not_launched_where_its_loss_would_leave_no_time_but_it_goes_on_where_it_runs() -> None:
    calm = Seen(up=1000.0, age_h=4.0)
    enough_h = 2 * (720.0 + 195.0) / 3600
    assert may_launch_spot(view(12 + enough_h, 12, up=True))
    assert not may_launch_spot(view(12 + enough_h - 0.01, 12, up=True))
    assert choose(view(12 + enough_h - 0.01, 12, up=True), calm) is Rent.ON_DEMAND
    assert choose(view(12 + enough_h - 0.01, 12, up=True, running=Rent.SPOT), calm) is Rent.SPOT
    assert choose(view(20, 12, up=True), calm) is Rent.SPOT


@pytest.mark.parametrize("elsewhere", [0.0, 0.4])
def test_the_table_is_the_cheapest_way_worked_out_step_by_step(elsewhere: float) -> None:
    market = Market(lost=0.6, back=0.8, price=0.4, elsewhere=elsewhere, grain=0.7)
    ticks, work, oldest = 7, 3, 7
    widths = (1, 1, 2, 4, 8, 16, 32, math.inf)
    ends: dict[bool, list[float]] = {
        True: ending(market.lost, market.grain).tolist(),
        False: ending(market.back, market.grain).tolist(),
    }

    @functools.cache
    def plain(left: int, todo: int, up: bool, age: int, running: Rent) -> dict[Rent, float]:
        def older(done: int, own: Rent) -> float:
            on = 1 / widths[age]
            passed = best(left - 1, todo - done, up, min(age + 1, oldest), own)
            return on * passed + (1 - on) * best(left - 1, todo - done, up, age, own)

        def turned(done: int, own: Rent) -> float:
            young_up = best(left - 1, todo - done, True, 0, own)
            if not up:
                return young_up
            return elsewhere * young_up + (1 - elsewhere) * best(left - 1, todo - done, False, 0, own)

        def after(done: int, own: Rent, if_turned: Rent) -> float:
            return (1 - ends[up][age]) * older(done, own) + ends[up][age] * turned(done, if_turned)

        found = {
            Rent.IDLE: 1e-6 + after(0, Rent.IDLE, Rent.IDLE),
            Rent.ON_DEMAND: 1.0 + after(running is Rent.ON_DEMAND, Rent.ON_DEMAND, Rent.ON_DEMAND),
        }
        if up:
            found[Rent.SPOT] = market.price + after(running is Rent.SPOT, Rent.SPOT, Rent.IDLE)
        return found

    def best(left: int, todo: int, up: bool, age: int, running: Rent) -> float:
        if todo <= 0:
            return 0.0
        return min(1e12, *plain(left, todo, up, age, running).values()) if left else 1e12

    for left, todo, up, age, running in itertools.product(
        range(1, ticks + 1), range(1, work + 1), (False, True), range(oldest + 1), Rent
    ):
        [found] = costs(left, todo, (int(up), age, running), (market,))
        for rent, cost in plain(left, todo, up, age, running).items():
            assert found[rent] == pytest.approx(min(1e12, cost), rel=1e-9)
        if not up:
            assert found[Rent.SPOT] >= HOPELESS, "nobody starts on a market that is down"


def test_a_table_that_has_grown_for_others_or_is_of_several_markets_gives_the_same_figures() -> None:
    calm, wild = (Market(lost, back=1.3, price=0.45, elsewhere=0.2, grain=2.0) for lost in (0.35, 5.0))
    asked = [(9, 4, (1, 2, Rent.IDLE)), (40, 31, (0, 0, Rent.ON_DEMAND)), (12, 5, (1, 0, Rent.SPOT))]
    alone = []
    for one in asked:
        spot_value._table.cache_clear()
        alone.append([*costs(*one, (calm,)), *costs(*one, (wild,))])
    spot_value._table.cache_clear()
    assert [costs(*one, (calm, wild)) for one in reversed(asked)] == alone[::-1]


def test_what_has_lasted_is_less_likely_to_end_and_by_the_law_of_its_age() -> None:
    chances = ending(0.5, 1.0)
    assert (np.diff(chances) < 0).all()
    assert chances[0] == pytest.approx(1 - math.sqrt(1 / 2))
    assert chances[1] == pytest.approx(1 - math.sqrt(2 / 3))
    assert [age_class(ticks) for ticks in (0.0, 0.9, 1.0, 3.9, 4.0, 63.0, 64.0, 1e6)] == [0, 0, 1, 2, 3, 6, 7, 7]


def test_who_runs_on_spot_that_is_up_goes_on_there() -> None:
    market = Market(lost=0.5, back=0.5, price=0.3)
    for todo, age in itertools.product(range(1, 40), range(8)):
        [found] = costs(60, todo, (1, age, Rent.SPOT), (market,))
        assert found.index(min(found)) == Rent.SPOT


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, Market]]:
    """What the table is asked for; it always answers to wait."""
    seen: list[tuple[int, int, Market]] = []

    def waits(left: int, work: int, _: tuple[int, int, int], markets: tuple[Market]) -> list[tuple[float, ...]]:
        seen.append((left, work, *markets))
        return [(1.0, 2.0, 3.0)]

    monkeypatch.setattr(spot, "costs", waits)
    return seen


def test_the_table_is_asked_in_ticks_of_a_restart_and_for_what_was_learned(
    asked: list[tuple[int, int, Market]],
) -> None:
    seen = Seen(up=10.0, down=4.0, losses=10.0, returns=4.0, elsewhere=0.58, grain_h=0.1)
    assert choose(view(30, 12, up=False), seen) is Rent.IDLE
    [(left, work, market)] = asked
    # Thirty hours of 720 s are 150 ticks, twelve are 60.
    assert (left, work) == (150, 60)
    assert market == Market(lost=1.0, back=1.0, price=0.3, elsewhere=0.55, grain=0.5)


@pytest.mark.parametrize(
    ("learned", "stepped"),
    [
        (1.0, 1.0),
        (math.e, math.e),
        (1.07, 1.0),
        (1.1, math.exp(1 / 6)),
        (1e-9, math.exp(-28 / 6)),
        (1e9, math.exp(18 / 6)),
    ],
)
def test_what_was_learned_is_rounded_to_sixths_of_an_e_fold_within_bounds(learned: float, stepped: float) -> None:
    assert spot._stepped(learned) == pytest.approx(stepped)


@pytest.mark.parametrize(("share", "rounded"), [(0.0, 0.0), (0.049, 0.0), (0.05, 0.05), (0.97, 0.95), (1.0, 0.95)])
def test_another_pool_is_never_certain(share: float, rounded: float) -> None:
    assert spot._rounded_down(share) == rounded


@pytest.mark.parametrize(
    ("left_s", "work_s", "loading_s", "restart_s", "look_s", "cell"),
    [
        (9000.0, 1000.0, 0.0, 100.0, 100.0, (90, 10)),
        (9000.0, 1001.0, 0.0, 100.0, 100.0, (90, 11)),
        (9000.0, 1000.0, 50.0, 100.0, 100.0, (90, 11)),
        (9000.0, 1000.0, 0.0, 200.0, 100.0, (45, 5)),
        (9000.0, 1000.0, 0.0, 100.0, 300.0, (30, 4)),
        (9000.0, 0.0, 0.0, 100.0, 100.0, (91, 1)),
        (90_000.0, 10_000.0, 0.0, 100.0, 100.0, (360, 40)),
    ],
)
def test_the_moment_is_looked_up_in_whole_ticks_with_no_more_slack_than_there_is(
    left_s: float, work_s: float, loading_s: float, restart_s: float, look_s: float, cell: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Only the cell that is looked up says to wait; the others would rent."""

    def figures(left: int, work: int, where: tuple[int, int, int], _: tuple[Market]) -> list[tuple[float, ...]]:
        return [(1.0, 3.0, 2.0) if (left, work, *where) == (*cell, 0, 2, Rent.IDLE) else (3.0, 2.0, 1.0)]

    monkeypatch.setattr(spot, "costs", figures)
    moment = SpotView(left_s, work_s, False, Rent.IDLE, restart_s, look_s, 0.3, loading_s)
    # Three ticks old: in the class of two and three.
    seen = Seen(age_h=3 * max(restart_s, look_s, (left_s + work_s) / 400) / 3600)
    assert choose(moment, seen) is Rent.IDLE
    assert choose(moment, Seen()) is Rent.ON_DEMAND
    assert choose(replace(moment, up=True), seen) is Rent.ON_DEMAND
    assert choose(replace(moment, running=Rent.ON_DEMAND), seen) is Rent.ON_DEMAND


def test_who_runs_on_spot_with_time_for_more_than_a_loss_stays_whatever_was_seen() -> None:
    wild = Seen(up=1.0, losses=50.0)
    calm_h = 4 * (720.0 + 195.0) / 3600
    assert choose(view(12 + calm_h, 12, up=True, running=Rent.SPOT), wild) is Rent.SPOT
    assert not view(12 + calm_h - 0.01, 12, up=True, running=Rent.SPOT).at_ease
    assert not view(20, 12, up=True).at_ease
    assert not replace(view(20, 12, up=True, running=Rent.SPOT), price=1.2).at_ease


def test_nobody_waits_while_spot_is_up(asked: list[tuple[int, int, Market]]) -> None:
    assert choose(view(30, 12, up=True), Seen()) is Rent.SPOT
    assert choose(view(30, 12, up=False), Seen()) is Rent.IDLE
    assert len(asked) == 2


def test_a_wish_for_spot_where_there_is_none_is_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "costs", lambda *_: [(2.0, 1.0, 3.0)])
    assert choose(view(30, 12, up=False, running=Rent.SPOT), Seen()) is Rent.ON_DEMAND
    assert choose(view(30, 12, up=True), Seen()) is Rent.SPOT
