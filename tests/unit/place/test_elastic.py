"""Devices among elastic jobs: never more than there are, nobody worse than it need be, more for those who use it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.place.elastic import Choice, Wish, _Table, disturbed_s, shares


@st.composite
def wishes(draw: st.DrawFn) -> list[Wish]:
    found = []
    for _ in range(draw(st.integers(0, 8))):
        base = draw(st.floats(100, 1e5))
        power = draw(st.floats(0.2, 1.0))
        kinds = draw(st.lists(st.integers(0, 1), min_size=1, max_size=2, unique=True))
        speed = {kind: draw(st.floats(0.3, 3.0)) for kind in kinds}
        found.append(
            Wish(
                tuple(Choice(kind, size, base / speed[kind] / size**power) for kind in kinds for size in (1, 2, 4, 8))
            )
        )
    return found


@settings(max_examples=80)
@given(wishes(), st.tuples(st.integers(0, 16), st.integers(0, 16)), st.sampled_from([0.3, 0.5, 1.0]))
def test_never_more_than_there_is_and_nothing_useful_left_over(
    jobs: list[Wish], capacity: tuple[int, int], fairness: float
) -> None:
    chosen = shares(jobs, capacity, fairness)
    assert len(chosen) == len(jobs)
    free = list(capacity)
    for job, at in zip(jobs, chosen, strict=True):
        if at >= 0:
            free[job.choices[at].kind] -= job.choices[at].devices
    assert min(free) >= 0
    for job, at in zip(jobs, chosen, strict=True):
        if at < 0:
            assert all(one.devices > free[one.kind] for one in job.choices)


def test_a_job_that_does_not_speed_up_leaves_the_rest_to_one_that_does() -> None:
    flat = Wish(tuple(Choice(0, size, 1000.0) for size in (1, 2, 4)))
    steep = Wish(tuple(Choice(0, size, 1000.0 / size) for size in (1, 2, 4)))
    chosen = shares([flat, steep], [5])
    assert [job.choices[at].devices for job, at in zip([flat, steep], chosen, strict=True)] == [1, 4]


def test_when_not_all_can_run_the_shortest_do() -> None:
    jobs = [Wish((Choice(0, 2, seconds),)) for seconds in (9000.0, 100.0, 500.0)]
    assert shares(jobs, [4], 1.0) == (-1, 0, 0)


def test_each_goes_where_it_is_fastest_while_there_is_room() -> None:
    jobs = [Wish((Choice(0, 1, 100.0), Choice(1, 1, 50.0))), Wish((Choice(0, 1, 50.0), Choice(1, 1, 100.0)))]
    assert shares(jobs, [1, 1]) == (1, 0)


def plain_prices(jobs: list[Wish], capacity: list[int], fairness: float) -> list[int]:
    """Sixty steps of the prices, written down for reading; the choice that misses the capacity by the least."""
    values = [[wish.weight * max(one.seconds, 1.0) ** -fairness for one in wish.choices] for wish in jobs]
    start = float(np.median([one for mine in values for one in mine])) / max(1.0, sum(capacity) / len(capacity))
    price, best, least = [0.0] * len(capacity), [], np.inf
    for turn in range(60):
        chosen, used = [], [0] * len(capacity)
        for wish, mine in zip(jobs, values, strict=True):
            net = [value - price[one.kind] * one.devices for value, one in zip(mine, wish.choices, strict=True)]
            at = max(range(len(net)), key=net.__getitem__)
            chosen.append(at if net[at] > 0 else -1)
            if net[at] > 0:
                used[wish.choices[at].kind] += wish.choices[at].devices
        over = [taken - there for taken, there in zip(used, capacity, strict=True)]
        excess = sum(max(one, 0) for one in over) + 0.1 * sum(max(-one, 0) for one in over)
        if excess < least:
            best, least = chosen, excess
        step = 2 * start / (1 + 0.3 * turn)
        price = [
            max(0.0, old + step * one / max(1, there)) for old, one, there in zip(price, over, capacity, strict=True)
        ]
    return best


@settings(max_examples=40)
@given(wishes().filter(bool), st.tuples(st.integers(0, 16), st.integers(0, 16)), st.sampled_from([0.3, 1.0]))
def test_prices_move_until_what_is_chosen_is_nearly_what_there_is(
    jobs: list[Wish], capacity: tuple[int, int], fairness: float
) -> None:
    found = _Table(jobs, capacity, fairness).priced()
    assert found.tolist() == plain_prices(jobs, list(capacity), fairness)


def steps(*seconds: float, weight: float = 1.0, least: int = -1, kind: int = 0) -> Wish:
    """One, two, four, ... devices of a kind, done in so many seconds; with a fairness of 1 worth 1/seconds."""
    return Wish(tuple(Choice(kind, 2**at, one) for at, one in enumerate(seconds)), weight, least)


def test_the_cheapest_step_down_loses_the_least_for_each_device_it_frees() -> None:
    table = _Table([steps(128.0, 64.0, 51.2), steps(8.0, 4.0, least=1)], [9], 1.0)

    def step(job: int, at: int) -> tuple[int, float, bool]:
        found, other, (least, loss, again) = table._step_down(job, at)
        assert (found, again) == (job, job)
        return other, loss * 1024, least

    assert step(0, 2) == (1, 2.0, False), "four are worth 20, two 16, one 8: 4 for two devices is the least"
    assert step(0, 1) == (-1, 8.0, False), "8 for each device either way: then all of them"
    assert step(0, 0) == (-1, 8.0, False)
    assert step(1, 1) == (-1, 128.0, True), "who holds its least says so"
    assert step(1, 0) == (-1, 128.0, False)


def test_only_the_kind_that_is_too_much_asked_for_steps_down() -> None:
    jobs = [steps(100.0, 50.0, 40.0), steps(1000.0, 900.0, kind=1), steps(100.0, 60.0, 52.0)]
    table = _Table(jobs, [5, 2], 1.0)
    wanted = np.array([2, 1, 2])
    found = table.repaired(wanted)
    # The third frees two devices for 0.0013 each and would lose 0.0067 for the next; the first only 0.0025.
    assert found.tolist() == [1, 1, 1]
    assert wanted.tolist() == [2, 1, 2], "the wish itself stays"
    assert table.repaired(np.array([1, 1, 0])).tolist() == [1, 1, 0], "what fits stays"


def test_who_must_not_fall_below_goes_down_last() -> None:
    jobs = [steps(10.0), steps(1000.0, least=0), steps(20.0)]
    assert _Table(jobs, [2], 1.0).repaired(np.array([0, 0, 0])).tolist() == [0, 0, -1]
    assert _Table(jobs, [0], 1.0).repaired(np.array([0, 0, 0])).tolist() == [-1, -1, -1]


def test_what_is_left_goes_where_it_adds_most_for_each_device() -> None:
    jobs = [steps(100.0, 50.0, 40.0), steps(20.0, 19.0), steps(30.0, kind=1)]
    nobody = np.array([-1, -1, -1])
    # 1/20 for one device, 1/30 for one of the other kind, 1/100 for one; then 0.01 for the second of the first.
    assert _Table(jobs, [1, 0], 1.0).filled(nobody).tolist() == [-1, 0, -1]
    assert _Table(jobs, [1, 1], 1.0).filled(nobody).tolist() == [-1, 0, 0]
    assert _Table(jobs, [2, 1], 1.0).filled(nobody).tolist() == [0, 0, 0]
    assert _Table(jobs, [3, 1], 1.0).filled(nobody).tolist() == [1, 0, 0]
    assert _Table(jobs, [4, 1], 1.0).filled(nobody).tolist() == [1, 1, 0]
    assert _Table(jobs, [6, 1], 1.0).filled(nobody).tolist() == [2, 1, 0]
    assert _Table(jobs, [9, 9], 1.0).filled(np.array([2, 1, 0])).tolist() == [2, 1, 0]


def test_a_change_of_kind_gives_back_what_was_held() -> None:
    either = Wish((Choice(0, 2, 100.0), Choice(1, 2, 50.0)))
    waits = Wish((Choice(0, 2, 400.0),))
    assert _Table([either, waits], [2, 2], 1.0).filled(np.array([0, -1])).tolist() == [1, 0]
    assert _Table([either, waits], [2, 1], 1.0).filled(np.array([0, -1])).tolist() == [0, -1]


def test_the_value_is_the_weight_over_the_time_to_the_power_of_fairness() -> None:
    table = _Table([steps(100.0, 0.25, weight=3.0), steps(4.0)], [1], 0.5)
    assert table.value.tolist() == [[pytest.approx(0.3), 3.0], [0.5, -np.inf]]
    assert shares([], [4]) == ()
    assert shares([steps(10.0)], [0]) == (-1,)


def test_a_restart_costs_more_for_one_that_has_just_begun_or_was_restarted_often() -> None:
    steady = disturbed_s(1000.0, 100.0, 9900.0, 0)
    assert steady == pytest.approx(100.0 + 1000.0 / 0.99)
    assert disturbed_s(1000.0, 100.0, 9900.0, 40) == pytest.approx(100.0 + 1000.0 / 0.59)
    assert disturbed_s(1000.0, 100.0, 300.0, 0) == pytest.approx(100.0 + 1000.0 / 0.75)


@pytest.mark.parametrize(("age_s", "restarts"), [(0.0, 0), (100.0, 5), (1e9, 10**9)])
def test_a_job_that_did_nothing_but_restart_is_not_endless(age_s: float, restarts: int) -> None:
    assert disturbed_s(1000.0, 100.0, age_s, restarts) == 100.0 + 1000.0 / 0.05


def test_a_job_that_needs_no_time_to_restart_loses_nothing() -> None:
    assert disturbed_s(1000.0, 0.0, 500.0, 7) == 1000.0
    assert disturbed_s(1000.0, 0.0, 0.0, 0) == 1000.0


def test_a_small_gain_does_not_restart_who_was_restarted_often() -> None:
    def wish(restarts: int) -> Wish:
        return Wish((Choice(0, 1, 10_000.0), Choice(0, 2, disturbed_s(8_000.0, 100.0, 10_000.0, restarts))))

    assert shares([wish(0)], [2]) == (1,)
    assert shares([wish(30)], [2]) == (0,)
