"""Plans with moves: every job is whole, no device is given twice, deadlines hold, and everything is paid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.bench.place_moves import Interruption, Leg, outcome_of, policy_of, with_moves
from dure.bench.place_moving_floor import moving_bound, relaxed
from dure.bench.place_ours import jointly
from dure.bench.replay import Fleet, Jobs, Outcome
from dure.place.settings import PlaceSettings, StandAside
from dure.place.solver import Ascent

RUIN = policy_of(PlaceSettings(method="ruin", iterations_per_job=20))
# One slot lost by each interruption, half a dollar for each device that goes to another region.
CHEAP = Interruption(checkpoint_s=600.0, load_s=300.0, state_gib=5.0, gib_per_s=1.0, usd_per_gib=0.1)


def jobs_of(*rows: tuple[int, int, int, int]) -> Jobs:
    arrival, length, width, slack = (np.array(column, np.int64) for column in zip(*sorted(rows), strict=True))
    return Jobs(arrival, length, width, arrival + slack)


def flat(*prices: float, slots: int = 400, devices: int = 1) -> Fleet:
    price = np.repeat(np.array(prices)[:, None], slots, axis=1)
    return Fleet(price, np.ones_like(price), devices)


def wrong(jobs: Jobs, fleet: Fleet, legs: Sequence[Leg], found: Outcome, cost: Interruption) -> str:
    """What is wrong with a plan, slot by slot and without any of the planner's sums, or an empty string."""
    used = np.zeros(fleet.price.shape, int)
    money, missed = 0.0, 0
    for j in range(len(jobs.arrival)):
        mine = sorted((leg for leg in legs if leg.job == j), key=lambda leg: leg.begin)
        if not mine or mine[0].begin < jobs.arrival[j]:
            return f"job {j} does not run, or before it came"
        if any(after.begin < before.end for before, after in pairwise(mine)):
            return f"job {j} is in two places at once"
        slots = sum(leg.end - leg.begin for leg in mine)
        if slots != jobs.length[j] + cost.slots * (len(mine) - 1):
            return f"job {j} runs for {slots} slots in {len(mine)} legs"
        for leg in mine:
            for slot in range(leg.begin, leg.end):
                used[leg.region, slot] += jobs.width[j]
                money += jobs.width[j] * fleet.price[leg.region, slot]
        money += sum(jobs.width[j] * cost.usd_per_device for one, two in pairwise(mine) if one.region != two.region)
        missed += mine[-1].end > jobs.latest[j] + jobs.length[j]
    if used.max() > fleet.devices:
        return "a device was given twice"
    if abs(money - found.money) > 1e-6 * max(1.0, money) or missed != found.missed:
        return f"counted {money}, {missed} missed; told {found.money}, {found.missed}"
    return ""


def test_one_who_waits_takes_the_place_of_a_long_job_that_has_slack() -> None:
    """Who comes at a full hour is asked together with those who run."""
    jobs = jobs_of((0, 80, 1, 40), (8, 16, 1, 0))
    fleet = flat(1.0, 20.0)
    found = with_moves(jobs, fleet, 0.0, RUIN, 1, CHEAP)
    assert (found.outcome.moves, found.outcome.pauses, found.outcome.missed) == (0, 1, 0)
    assert found.legs == (Leg(0, 0, 0, 8), Leg(0, 0, 24, 97), Leg(1, 0, 8, 24))
    assert found.outcome.money == pytest.approx(81 + 16)
    assert wrong(jobs, fleet, found.legs, found.outcome, CHEAP) == ""


def test_a_job_in_a_dear_region_goes_to_a_cheap_one_that_has_become_free() -> None:
    """The first job has the cheap device for ten slots, too long for the second; that leaves two slots early."""
    jobs = jobs_of((0, 10, 1, 0), (1, 60, 1, 3))
    fleet = flat(1.0, 5.0)
    found = with_moves(jobs, fleet, 0.0, RUIN, 1, CHEAP)
    assert found.outcome.moves == 1
    assert found.legs[1:] == (Leg(1, 1, 1, 8), Leg(1, 0, 10, 10 + 53 + 1))
    assert found.outcome.money == pytest.approx(10 + 7 * 5 + 54 + 0.5)


def test_nobody_is_asked_where_moves_are_off_or_the_deadline_leaves_no_time() -> None:
    jobs, fleet = jobs_of((0, 80, 1, 40), (8, 16, 1, 0)), flat(1.0, 20.0)
    for off in (replace(RUIN, moves_at_once=0), replace(RUIN, stand_aside=StandAside.NEVER)):
        assert with_moves(jobs, fleet, 0.0, off, 1, CHEAP).outcome.pauses == 0
    tight = jobs_of((0, 80, 1, 0), (8, 16, 1, 0))
    assert with_moves(tight, fleet, 0.0, RUIN, 1, CHEAP).outcome.missed == 0
    assert len(with_moves(tight, fleet, 0.0, RUIN, 1, CHEAP).legs) == 2


def test_threshold_cooldown_and_share_of_the_slack_are_those_of_the_policy() -> None:
    """The long job's room is wanted for sixteen slots. It has thirty-nine to spare, an interruption counted, so a
    third of them is too few; two jobs come more than six hours apart, so both find it cool."""
    jobs, fleet = jobs_of((0, 80, 1, 40), (8, 16, 1, 0)), flat(1.0, 20.0)
    assert with_moves(jobs, fleet, 0.0, replace(RUIN, aside_slack=0.5), 1, CHEAP).outcome.pauses == 1
    assert with_moves(jobs, fleet, 0.0, replace(RUIN, aside_slack=0.33), 1, CHEAP).outcome.pauses == 0
    assert with_moves(jobs, fleet, 0.0, replace(RUIN, duration_high=1.4), 1, CHEAP).outcome.pauses == 0
    assert with_moves(jobs, fleet, 0.0, replace(RUIN, move_threshold=10.0), 1, CHEAP).outcome.pauses == 0
    twice = jobs_of((0, 80, 1, 40), (8, 4, 1, 0), (36, 4, 1, 0))
    assert with_moves(twice, fleet, 0.0, RUIN, 1, CHEAP).outcome.pauses == 2
    assert with_moves(twice, fleet, 0.0, replace(RUIN, move_cooldown_h=9.0), 1, CHEAP).outcome.pauses == 1


def test_the_row_is_the_policy_that_always_stands_aside_with_lengths_known() -> None:
    assert (RUIN.stand_aside, RUIN.duration_high, RUIN.slack_share) == (StandAside.ALWAYS, 1.0, 1.0)
    plain = PlaceSettings()
    limits = (RUIN.move_threshold, RUIN.move_cooldown_h, RUIN.moves_at_once, RUIN.moves_per_hour)
    assert limits == (plain.move_threshold, plain.move_cooldown_h, plain.moves_at_once, plain.moves_per_hour)


def test_what_an_interruption_costs_follows_from_its_parts() -> None:
    assert CHEAP.slots == 1
    honest = Interruption()
    assert honest.slots == 2, "15 minutes done again, 5 of loading, 4.6 on the line"
    assert honest.usd_per_device == pytest.approx(2.0)
    assert Interruption(checkpoint_s=7200.0).slots == 5


rows = st.lists(
    st.tuples(st.integers(0, 24), st.integers(1, 40), st.integers(1, 3), st.integers(0, 30)), min_size=1, max_size=9
)
prices = st.lists(st.lists(st.integers(1, 9), min_size=6, max_size=6), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(rows, prices, st.integers(3, 5))
def test_a_plan_with_moves_is_whole_paid_and_above_its_floor(
    jobs: list[tuple[int, int, int, int]], price: list[list[int]], devices: int
) -> None:
    work = jobs_of(*jobs)
    # Prices change every five hours, then stay; no plan here is longer.
    steps = np.repeat(np.array(price, float), 20, axis=1)
    table = np.concatenate((steps, np.repeat(steps[:, -1:], 900, axis=1)), axis=1)
    fleet = Fleet(table, np.ones_like(table), devices)
    found = with_moves(work, fleet, 0.0, RUIN, 1, CHEAP)
    assert wrong(work, fleet, found.legs, found.outcome, CHEAP) == ""
    kept = np.flatnonzero(~found.outcome.late)
    if len(kept):
        served = Jobs(work.arrival[kept], work.length[kept], work.width[kept], work.latest[kept])
        money = float(found.outcome.paid[kept].sum())
        assert moving_bound(served, fleet, CHEAP.slots, money, Ascent(steps=40)) <= money * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(rows, prices, st.integers(3, 5))
def test_where_all_come_at_once_no_interruption_makes_anybody_late(
    jobs: list[tuple[int, int, int, int]], price: list[list[int]], devices: int
) -> None:
    work = jobs_of(*[(0, length, width, slack) for _, length, width, slack in jobs])
    table = np.concatenate((np.repeat(np.array(price, float), 20, axis=1), np.full((len(price), 900), 9.0)), axis=1)
    fleet = Fleet(table, np.ones_like(table), devices)
    still = jointly(work, fleet, 0.0, RUIN, 1)
    moved = with_moves(work, fleet, 0.0, RUIN, 1, CHEAP).outcome
    assert moved.missed <= still.missed


def test_legs_are_counted_as_moves_or_pauses_by_where_they_follow() -> None:
    jobs = jobs_of((0, 6, 2, 9))
    fleet = flat(1.0, 3.0, devices=2)
    found = outcome_of(jobs, fleet, [Leg(0, 0, 0, 2), Leg(0, 0, 3, 5), Leg(0, 1, 5, 9)], CHEAP)
    assert (found.moves, found.pauses, found.missed) == (1, 1, 0)
    assert found.money == pytest.approx(2 * (2 + 2 + 4 * 3) + 2 * 0.5)
    assert found.waited_slots == 3, "one between two legs, two lost"


def test_a_job_that_is_stopped_takes_the_cheapest_slots_of_its_window_in_the_floor() -> None:
    """Three slots between 0 and 6: at a stretch 1 + 9 + 1 or 5 + 5 + 5; in pieces 1 + 1 + 5 and one lost slot."""
    work = jobs_of((0, 3, 2, 3))
    charged = np.array([[1.0, 9.0, 1.0, 9.0, 9.0, 9.0], [5.0] * 6])
    assert relaxed(work, charged, 0)[0] == pytest.approx(2 * 7)
    assert relaxed(work, charged, 1)[0] == pytest.approx(2 * 11), "12 in pieces"
    value, used = relaxed(work, charged, 0)
    assert value == pytest.approx((used * charged).sum())


def test_the_floor_of_moving_plans_rises_where_two_want_one_device() -> None:
    work = jobs_of((0, 4, 1, 0), (0, 4, 1, 0))
    fleet = flat(1.0, 3.0)
    assert moving_bound(work, fleet, 1, 16.0) == pytest.approx(16.0, rel=0.01)
    assert moving_bound(work, fleet, 1, 16.0, Ascent(steps=1)) == pytest.approx(8.0)


def test_in_an_hour_as_many_are_asked_as_the_policy_lets_move() -> None:
    """Eight long jobs stand on cheap devices; eight without slack come at the same full hour."""
    jobs = jobs_of(*[(0, 80, 1, 40)] * 8, *[(8, 16, 1, 0)] * 8)
    fleet = flat(1.0, 20.0, devices=8)
    for at_once, per_hour, stopped in ((1, 12, 4), (2, 3, 3), (4, 12, 8), (0, 12, 0)):
        rule = replace(RUIN, iterations_per_job=100, moves_at_once=at_once, moves_per_hour=per_hour)
        found = with_moves(jobs, fleet, 0.0, rule, 1, CHEAP)
        assert found.outcome.pauses + found.outcome.moves == stopped
