"""Those who run stay unless standing aside saves enough, and are never left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.place.aside import Standing, rearranged
from dure.place.instance import Instance, broken, instance
from dure.place.solver import Method, Search, Solver

RUIN = Solver(search=Search(iterations_per_job=20))
METHODS = [Method.REGRET, Method.RUIN, Method.EXACT]


def cheap_and_dear(later: float) -> Instance:
    """One unit of a cheap row over two hours and one of a dear row. Job 0 runs on the cheap row (its last option) and
    could go on there an hour later; job 1 has just come, can only start now, and pays 1 or 10."""
    table = [(0, -1, 1, 1, 0), (0, -1, 0, 1, 0), (0, -1, 0, 1, 0), (1, -1, 0, 1, 0)]
    cost = np.array([later, 2.0, 1.0, 10.0])
    capacity = np.ones((2, 2, 1), np.int32)
    return instance(np.array([0, 2, 4]), np.array(table), cost, np.array([50.0, 50.0]), np.array([[1]]), capacity)


STANDING = Standing(np.array([1, -1]), np.array([-1, -1]), np.arange(2))


@pytest.mark.parametrize("method", METHODS)
def test_who_runs_stands_aside_for_one_who_saves_more_by_it(method: Method) -> None:
    assert rearranged(cheap_and_dear(3.0), STANDING, 0.15, Solver(method), 1).tolist() == [0, 2]


@pytest.mark.parametrize("method", METHODS)
def test_an_interruption_that_costs_more_than_it_saves_is_not_made(method: Method) -> None:
    assert rearranged(cheap_and_dear(12.0), STANDING, 0.15, Solver(method), 1).tolist() == [1, 3]


@pytest.mark.parametrize("method", METHODS)
def test_the_threshold_is_a_share_of_what_staying_costs(method: Method) -> None:
    """Standing aside saves 9 - 8.5 = 0.5, a quarter of what staying costs."""
    inst = cheap_and_dear(2.0 + 8.5)
    assert rearranged(inst, STANDING, 0.2, Solver(method), 1).tolist() == [0, 2]
    assert rearranged(inst, STANDING, 0.3, Solver(method), 1).tolist() == [1, 3]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Instance, Standing]:
    """Jobs of one unit with random options on two rows; some of them run and fit where they are."""
    rows, hours = 2, 6
    jobs = draw(st.integers(1, 8))
    capacity = np.full((rows, hours, 1), draw(st.integers(1, 3)), np.int32)
    free = capacity[:, :, 0].astype(int)
    table, cost, first, stay = [], [], [0], []
    for _ in range(jobs):
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, hours - 2))
            table.append((draw(st.integers(0, rows - 1)), -1, start, draw(st.integers(1, 2)), 0))
            cost.append(float(draw(st.integers(1, 20))))
        row, _, start, length, _ = table[-1]
        runs = draw(st.booleans()) and bool((free[row, start : start + length] > 0).all())
        if runs:
            free[row, start : start + length] -= 1
        first.append(len(table))
        stay.append(len(table) - 1 if runs else -1)
    made = instance(np.array(first), np.array(table), np.array(cost), np.full(jobs, 100.0), np.array([[1]]), capacity)
    return made, Standing(np.array(stay), np.full(jobs, -1), np.arange(jobs))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(METHODS))
def test_nobody_who_runs_is_left_out_and_no_room_is_given_twice(
    world: tuple[Instance, Standing], method: Method
) -> None:
    inst, standing = world
    found = rearranged(inst, standing, 0.15, Solver(method, RUIN.search), 3)
    assert broken(inst, found) == ""
    assert (found[standing.stay >= 0] >= 0).all()
    again = rearranged(inst, standing, 0.15, Solver(method, RUIN.search), 3)
    assert np.array_equal(found, again)
