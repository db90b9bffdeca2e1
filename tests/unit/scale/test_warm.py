"""Who gets a machine, and how many there should be."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.scale.demand import Seen, WorkModel
from dure.scale.warm import Machines, Standing, WarmPolicy, WarmSettings, divided

SETTINGS = WarmSettings(150.0)
STANDINGS = st.lists(
    st.builds(Standing, st.integers(1, 9), st.floats(0.0, 12.0), st.floats(0.05, 4.0), st.just(1)),
    min_size=1, max_size=4,
)  # fmt: skip


@given(STANDINGS, st.integers(0, 5), st.integers(0, 8))
def test_no_more_is_given_than_is_there_and_nobody_loses_its_last(
    standings: list[Standing], free: int, surplus: int
) -> None:
    given_to = divided(standings, free, surplus, SETTINGS)
    there = sum(one.held for one in standings) + free
    assert sum(given_to) == max(there - surplus, len(standings))
    assert all(count >= 1 for count in given_to)


def test_a_free_machine_goes_to_who_is_nearest_to_being_short() -> None:
    calm, tight = Standing(5, 3.0, 1.0), Standing(5, 4.5, 1.0)
    assert divided([calm, tight], 1, 0, SETTINGS) == (5, 6)
    unsure = Standing(5, 3.0, 4.0)
    assert divided([unsure, Standing(5, 4.0, 1.0)], 1, 0, SETTINGS) == (6, 5)


def test_who_is_short_takes_from_who_has_much_and_not_for_little() -> None:
    rich, short = Standing(9, 3.0, 1.0), Standing(4, 6.0, 1.0)
    given_to = divided([rich, short], 0, 0, SETTINGS)
    assert given_to[1] > 4
    assert divided([Standing(6, 5.0, 1.0), Standing(5, 5.0, 1.0)], 0, 0, SETTINGS) == (6, 5)


def test_who_gives_keeps_what_it_needs_itself_however_short_the_other_is() -> None:
    giver, short = Standing(9, 6.0, 1.0), Standing(4, 30.0, 1.0)
    assert divided([giver, short], 0, 0, SETTINGS) == (7, 6)
    assert divided([Standing(7, 6.0, 1.0), short], 0, 0, SETTINGS) == (7, 4)


def seen(arrivals: int, target: int) -> Seen:
    return Seen(arrivals, arrivals * 1000, 0, 0.0, arrivals, arrivals * 200, target)


def machines(rates: list[tuple[int, int]], safety: float) -> list[int]:
    policy = WarmPolicy(WarmSettings(150.0, safety=safety), (WorkModel(), WorkModel()))
    return [policy.step([seen(rate, 9) for rate in pair], Machines(0)).machines for pair in rates]


def test_services_that_rise_in_turn_need_fewer_machines_than_ones_that_rise_together() -> None:
    swing = [round(45 * math.sin(step / 60.0)) for step in range(1500)]
    turn = [(75 + off, 75 - off) for off in swing]
    same = [(75 + off, 75 + off) for off in swing]
    assert max(machines(turn, 1.0)[-400:]) < 0.8 * max(machines(same, 1.0)[-400:])


def test_more_safety_is_more_machines() -> None:
    rates = [(60 + 20 * ((step // 40 * 7919) % 5), 60) for step in range(900)]
    assert sum(machines(rates, 0.0)[-200:]) < sum(machines(rates, 2.0)[-200:])


def test_a_burst_that_is_over_before_a_machine_has_booted_boots_none() -> None:
    rng = np.random.default_rng(17)
    noise = [(int(rate), 60) for rate in np.repeat(rng.integers(50, 90, 200), 6)]
    calm, burst = machines(noise, 1.0), machines([*noise[:-6], *[(150, 60)] * 6], 1.0)
    assert max(burst[-6:]) <= 1.15 * max(calm[-6:])


def test_there_are_machines_for_the_least_that_everybody_has() -> None:
    policy = WarmPolicy(WarmSettings(150.0), (WorkModel(), WorkModel()), least=(3, 4))
    assert policy.step([seen(0, 3), seen(0, 4)], Machines(0)).machines == 7


def test_bounds_of_a_service_hold() -> None:
    few, many = Standing(2, 9.0, 1.0, least=1, most=3), Standing(4, 1.0, 1.0, least=3, most=9)
    assert divided([few, many], 0, 0, SETTINGS) == (3, 3)
    assert divided([few, many], 5, 0, SETTINGS)[0] == 3


def test_the_same_shown_twice_is_the_same_twice() -> None:
    rates = [(60 + (step * 31) % 17, 40 + step % 5) for step in range(300)]
    assert machines(rates, 1.0) == machines(rates, 1.0)
