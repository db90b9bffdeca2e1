"""Spot under a deadline: never late whatever the market does, and slack is spent where it pays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.bench.spot_bound import least_cost
from dure.bench.spot_replay import Job, Zones, replay
from dure.bench.spot_rules import RULES
from dure.place.spot import Rent, Seen, SpotView, choose, must_rent
from dure.place.spot_value import Market, best_actions

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
    seen = Seen(up_h=20, down_h=5, losses=10, returns=20)
    assert choose(view(13.5, 12, up=False), seen) is Rent.ON_DEMAND
    assert choose(view(22, 12, up=False), seen) is Rent.IDLE


def test_the_guard_overrules_every_estimate() -> None:
    dreamt = Seen(up_h=1e6, down_h=1e-3, losses=1.0, returns=1e6)
    tight = view(12.2, 12, up=True)
    assert must_rent(tight)
    assert choose(tight, dreamt) is Rent.ON_DEMAND


def test_a_table_never_starts_spot_on_a_market_that_is_down() -> None:
    actions = best_actions(60, 40, Market(lost=0.1, back=0.2, price=0.3))
    assert not (actions[:, 1:, 0, :] == Rent.SPOT).any()
    assert (actions[60, 1:40, 1, Rent.SPOT] == Rent.SPOT).all()
