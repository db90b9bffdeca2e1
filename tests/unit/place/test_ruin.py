"""Ruin and recreate: the compiled search takes the steps of its plain twin, and each part does what it says."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from dure.place.instance import HELD, LENGTH, NEED, START, Instance, Longs, broken, instance, total
from dure.place.plain import plain_insert, plain_regret_order, plain_settle
from dure.place.ruin import LONG, blocks, improve
from dure.place.solver import Search
from tests.unit.place.instances import NEEDS, crowd
from tests.unit.place.plain_ruin import plain_improve


def first_plan(inst: Instance) -> Longs:
    return plain_insert(inst, plain_regret_order(inst))


SEARCHES = {
    "as it comes": Search(iterations_per_job=16),
    "hot, without prices": Search(
        iterations_per_job=16, hot=6.0, cold=1.0, priced=0.0, steered=0.0, asked=1, blink=0.3
    ),
    "cold, one at a time": Search(
        iterations_per_job=16, hot=0.3, eject=1, priced=1.0, steered=1.0, asked=4, blink=0.0
    ),
    "in two blocks": Search(iterations_per_job=16, block=5),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("seed", range(4))
def test_the_search_takes_the_steps_of_its_plain_twin(name: str, seed: int) -> None:
    takes_the_steps_of_its_twin(crowd(seed), SEARCHES[name], seed)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("seed", range(6))
def test_what_turns_a_long_wide_run_away_hides_neither_narrow_nor_other_ones(name: str, seed: int) -> None:
    made = crowd(seed)
    option, capacity = made.option.copy(), np.repeat(made.capacity, LONG, axis=1)
    option[:, [START, LENGTH]] *= LONG
    option[:, NEED] = np.random.default_rng(seed).integers(1, len(NEEDS), made.options)
    inst = msgspec.structs.replace(made, option=option, capacity=capacity)
    takes_the_steps_of_its_twin(inst, SEARCHES[name], seed)


def takes_the_steps_of_its_twin(inst: Instance, search: Search, seed: int) -> None:
    rent = np.random.default_rng(seed).integers(0, 30, inst.options).astype(np.float64)
    edges = [0, 5, 10] if search.block == 5 else [0, 10]
    start = first_plan(inst)
    found = improve(inst, start, rent, search, seed)
    assert found.tolist() == plain_improve(inst, start, rent, search, seed, edges).tolist()
    assert broken(inst, found) == ""
    assert total(inst, found) <= total(inst, start)


@pytest.mark.parametrize("seed", range(6))
def test_without_a_single_round_everybody_gets_the_cheapest_that_is_free_for_him(seed: int) -> None:
    inst = crowd(seed)
    for start in (np.full(inst.jobs, HELD, np.int64), first_plan(inst)):
        found = improve(inst, start, np.zeros(inst.options), Search(iterations_per_job=0), seed)
        assert found.tolist() == plain_settle(inst, start).tolist()


def test_a_search_that_is_told_to_stop_leaves_the_later_blocks_alone() -> None:
    inst, search = crowd(2), SEARCHES["in two blocks"]
    start, answers = plain_settle(inst, first_plan(inst)), iter([True, False])
    rent = np.zeros(inst.options)
    stopped = improve(inst, start, rent, search, 2, lambda: next(answers))
    assert stopped.tolist() == plain_improve(inst, start, rent, search, 2, [0, 5]).tolist()
    assert improve(inst, start, rent, search, 2, lambda: False).tolist() == start.tolist()


def test_the_plan_that_was_given_is_not_written_to() -> None:
    inst = crowd(1)
    start = first_plan(inst)
    before = start.tolist()
    improve(inst, start, np.zeros(inst.options), SEARCHES["hot, without prices"], 1)
    assert start.tolist() == before


def test_where_there_is_no_option_there_is_nothing_to_improve() -> None:
    nobody = instance(
        np.array([0, 0]), np.empty((0, 5), np.int32), np.empty(0), np.ones(1), NEEDS, np.ones((1, 1, 2), np.int32)
    )
    start = np.array([HELD])
    assert improve(nobody, start, np.empty(0), Search(), 0) is start


@pytest.mark.parametrize(
    ("jobs", "size", "edges"),
    [
        (10, 5, [(0, 5), (5, 10)]),
        (10, 4, [(0, 5), (5, 10)]),
        (11, 4, [(0, 3), (3, 7), (7, 11)]),
        (3, 2000, [(0, 3)]),
        (0, 5, []),
    ],
)
def test_blocks_are_equal_runs_of_about_the_size(jobs: int, size: int, edges: list[tuple[int, int]]) -> None:
    assert blocks(jobs, size) == edges
