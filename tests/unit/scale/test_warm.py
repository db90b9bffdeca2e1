"""Who gets a machine, and how many there should be."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.scale.demand import Seen, WorkModel
from dure.scale.warm import LOAD_S, Division, Machines, Standing, WarmPolicy, WarmSettings, asleep, divided

SETTINGS = WarmSettings(150.0)
ASLEEP = asleep(150.0, loading_s=LOAD_S)
STANDINGS = st.lists(
    st.builds(Standing, st.integers(1, 9), st.floats(0.0, 12.0), st.floats(0.05, 4.0), st.just(1)),
    min_size=1, max_size=4,
)  # fmt: skip


@given(STANDINGS, st.integers(0, 5), st.integers(0, 8), st.sampled_from([SETTINGS, ASLEEP]))
def test_no_more_is_given_than_is_there_and_nobody_loses_its_last(
    standings: list[Standing], free: int, surplus: int, settings: WarmSettings
) -> None:
    given_to = divided(standings, free, surplus, settings)
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


@given(STANDINGS, st.sampled_from([SETTINGS, ASLEEP]))
def test_what_has_been_divided_is_at_rest(standings: list[Standing], settings: WarmSettings) -> None:
    """Else machines would go to and fro for ever, and each time cost a change of hands."""
    once = divided(standings, 0, 0, settings)
    again = [Standing(count, one.need, one.error) for count, one in zip(once, standings, strict=True)]
    assert divided(again, 0, 0, settings) == once


def test_engines_asleep_change_hands_in_seconds_and_a_new_machine_loads_all_of_them_first() -> None:
    three = asleep(150.0, loading_s=2 * LOAD_S)
    assert three.warm_s < 5.0 < SETTINGS.warm_s
    assert three.boot_s == 150.0 + 2 * SETTINGS.warm_s
    assert asleep(150.0).boot_s == 150.0


def played(settings: WarmSettings, shown: Iterable[list[Seen]], there: int = 18) -> list[Division]:
    policy = WarmPolicy(settings, (WorkModel(), WorkModel()))
    return [policy.step(seen, Machines(there - sum(one.target for one in seen))) for seen in shown]


def test_machines_are_divided_at_every_step_and_counted_on_a_slower_clock() -> None:
    rng = np.random.default_rng(3)
    shown = [[seen(int(rate), 9), seen(24, 9)] for rate in rng.integers(4, 60, 900)]
    wanted = [division.machines for division in played(ASLEEP, shown)]
    every = ASLEEP.plan_steps
    assert every == 3
    changed = [step for step in range(1, 900) if wanted[step] != wanted[step - 1]]
    assert changed
    assert all(step % every == every - 1 for step in changed)


def test_nothing_is_let_go_before_it_was_asked_how_many_machines_there_should_be() -> None:
    first = played(ASLEEP, [[seen(0, 9), seen(0, 9)]] * 2)
    assert [division.machines for division in first] == [18, 18]
    assert all(sum(division.replicas) == 18 for division in first)


def test_who_steps_as_slowly_as_it_plans_asks_both_questions_each_time() -> None:
    assert WarmSettings(150.0).plan_steps == WarmSettings(150.0, step_s=15.0).plan_steps == 1


def waiting(count: int) -> Seen:
    return Seen(24, 24_000, count, count * 1000.0, 24, 4800, 9)


def test_what_waits_for_a_moment_boots_nothing_and_what_stays_does() -> None:
    calm = [[waiting(0), waiting(0)]] * 400
    burst, stays = ([[waiting(2000), waiting(0)]] * steps for steps in (15, 45))
    before = played(ASLEEP, calm)[-1].machines
    assert max(one.machines for one in played(ASLEEP, [*calm, *burst])[-15:]) == before
    assert max(one.machines for one in played(ASLEEP, [*calm, *stays])[-15:]) > before
    slow = played(SETTINGS, [*calm, *burst])
    assert slow[-1].machines > slow[399].machines, "with starts of 20 s what waits is a reason at once"
