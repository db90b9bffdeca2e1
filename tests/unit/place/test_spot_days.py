"""Days that differ: what a week says of them, and what the first hours say of today."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.place import spot
from dure.place.spot import Rent, Seen, SpotView, choose
from dure.place.spot_days import Days, days_of
from dure.place.spot_value import DOWN, UP, Market, costs

MARKET = Market(lost=1.5, back=3.0, price=0.3, elsewhere=0.7, grain=5.0)


def spread(days: tuple[tuple[float, float], ...]) -> float:
    return max(factor for _, factor in days) / min(factor for _, factor in days)


def test_without_a_past_days_are_taken_to_differ_by_as_much_as_a_usual_one_has() -> None:
    assert days_of([]) == Days(1.0, 1.0)


def test_days_that_are_alike_teach_that_they_are_and_wild_ones_that_they_are_not() -> None:
    alike, wild = days_of([(10.0, 10.0)] * 7), days_of([(1.0, 10.0), (40.0, 10.0)] * 4)
    assert alike.varied == pytest.approx(1 / 8)
    assert alike.usual == pytest.approx(71 / 71)
    assert wild.varied > 0.5 > alike.varied
    assert spread(wild.today(0.0, 0.0)) > 2 * spread(alike.today(0.0, 0.0))


def test_days_on_which_nothing_was_up_say_nothing() -> None:
    assert days_of([(0.0, 0.0)] * 7) == days_of([])


def test_before_anything_was_seen_today_five_days_are_equally_likely_and_usual_in_the_middle() -> None:
    days = Days(2.0, 0.5).today(0.0, 0.0)
    assert [share for share, _ in days] == pytest.approx([0.2] * 5)
    assert days[2][1] == pytest.approx(math.exp(-math.log1p(0.5) / 2))


def test_losses_say_that_today_is_bad_and_quiet_hours_that_it_is_good() -> None:
    days = Days(1.0, 1.0)

    def mean(losses: float) -> float:
        return sum(share * factor for share, factor in days.today(losses, 4.0)) / sum(
            share for share, _ in days.today(losses, 4.0)
        )

    assert mean(0.0) < 0.6 < 1.2 < mean(12.0)
    assert len(days.today(60.0, 10.0)) < 5, "a good day is out of the question"


@given(st.floats(0, 500), st.floats(0, 500), st.floats(0.01, 20), st.floats(0, 5))
def test_whatever_was_seen_some_day_is_possible(losses: float, aged: float, usual: float, varied: float) -> None:
    days = Days(usual, varied).today(losses, aged)
    assert days
    assert 0.9 <= sum(share for share, _ in days) <= 1.0 + 1e-9


def test_over_days_the_costs_of_each_action_are_weighed_by_how_likely_the_day_is() -> None:
    """Of two days with a share each, what is chosen costs least by the shares, cell by cell."""
    wild = replace(MARKET, lost=6.0)
    for left, work, state, age, running in itertools.product((17, 24), (4, 16), (DOWN, UP), range(8), range(3)):
        cell = state, age, running
        weighed = [0.3 * calm + 0.7 * bad for calm, bad in zip(*costs(left, work, cell, (MARKET, wild)), strict=True)]
        chosen = spot._best(left, work, cell, [(0.3, MARKET), (0.7, wild)])
        assert weighed[chosen] == pytest.approx(min(weighed), rel=1e-12)


def test_one_kind_of_day_is_chosen_for_as_before_and_of_two_kinds_neither_is_forgotten() -> None:
    """A market that is usually calm: on a calm day it hops to spot, and not if today is probably a bad one."""
    moment = SpotView(30_000.0, 24_000.0, True, Rent.ON_DEMAND, 720.0, 195.0, 0.3)
    calm = Seen(up=50.0, losses=10.0, down=10.0, returns=10.0)
    surely = Seen(up=50.0, losses=10.0, down=10.0, returns=10.0, days=((0.5, 1.0), (0.5, 1.0)))
    bad = Seen(up=50.0, losses=10.0, down=10.0, returns=10.0, days=((0.1, 1.0), (0.9, 40.0)))
    assert choose(moment, calm) is choose(moment, surely) is Rent.SPOT
    assert choose(moment, bad) is Rent.ON_DEMAND


def test_no_kind_of_day_overrules_the_guard() -> None:
    late = SpotView(24_800.0, 24_000.0, True, Rent.IDLE, 720.0, 195.0, 0.3)
    assert spot.must_rent(late)
    assert choose(late, Seen(days=((0.5, 0.01), (0.5, 0.02)))) is Rent.ON_DEMAND
