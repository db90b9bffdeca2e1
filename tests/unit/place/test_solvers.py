"""The solvers against each other, against brute force and against what every plan must keep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.errors import InvalidInput
from dure.place.exact import solve_exact
from dure.place.greedy import insert_in_order, regret_order
from dure.place.instance import HELD, Instance, alone, broken, instance, total
from dure.place.plain import plain_insert, plain_regret_order, plain_settle
from dure.place.prices import congestion_prices
from dure.place.ruin import improve
from dure.place.solve import first_answer, solve
from dure.place.solver import Limits, Method, Search, Solver
from tests.unit.place.instances import instances

QUICK = Search(iterations_per_job=60)


def brute_force(inst: Instance) -> float:
    sets = [[-1, *range(int(inst.first[j]), int(inst.first[j + 1]))] for j in range(inst.jobs)]
    plans = (np.array(plan, np.int64) for plan in itertools.product(*sets))
    return min(total(inst, plan) for plan in plans if not broken(inst, plan))


@settings(max_examples=30, deadline=None)
@given(instances())
def test_every_method_answers_a_plan_that_keeps_room_and_budget(inst: Instance) -> None:
    for method in Method:
        solver = Solver(method, QUICK, limits=Limits(seconds=5, nodes=100), window=3)
        answer = solve(inst, solver, seed=1)
        assert broken(inst, answer.choice) == ""
        assert answer.cost <= total(inst, first_answer(inst)) + 1e-9
        assert answer.bound <= answer.cost + 1e-6


@settings(max_examples=25, deadline=None)
@given(instances(most_jobs=3))
def test_the_exact_solver_finds_what_brute_force_finds(inst: Instance) -> None:
    if np.prod([n + 1 for n in np.diff(inst.first)]) > 5000:
        return
    proof = solve_exact(inst)
    assert proof.optimal
    assert proof.cost == pytest.approx(brute_force(inst))


@settings(max_examples=25, deadline=None)
@given(instances())
def test_the_lagrangian_bound_never_exceeds_the_optimum(inst: Instance) -> None:
    proof = solve_exact(inst)
    bound = congestion_prices(inst, proof.cost).bound
    assert bound <= proof.cost + 1e-6


@settings(max_examples=30, deadline=None)
@given(instances())
def test_compiled_and_plain_greedy_agree(inst: Instance) -> None:
    order = plain_regret_order(inst)
    assert regret_order(inst, inst.cost).tolist() == order.tolist()
    assert insert_in_order(inst, inst.cost, order).tolist() == plain_insert(inst, order).tolist()


@settings(max_examples=25, deadline=None)
@given(instances())
def test_adding_capacity_never_raises_the_cost_of_the_optimum(inst: Instance) -> None:
    import msgspec

    roomier = msgspec.structs.replace(inst, capacity=inst.capacity + 1)
    assert solve_exact(roomier).cost <= solve_exact(inst).cost + 1e-6


@settings(max_examples=25, deadline=None)
@given(instances())
def test_nobody_is_left_at_an_option_while_a_cheaper_one_of_his_is_free(inst: Instance) -> None:
    settled = plain_settle(inst, plain_insert(inst, plain_regret_order(inst)))
    ruined = improve(inst, settled, np.zeros(inst.options), QUICK, 3)
    for choice in (settled, ruined):
        for j in range(inst.jobs):
            paid = inst.cost[choice[j]] if choice[j] >= 0 else inst.hold[j]
            for o in range(int(inst.first[j]), int(inst.first[j + 1])):
                other = choice.copy()
                other[j] = o
                assert inst.cost[o] >= paid or broken(inst, other)


@settings(max_examples=20, deadline=None)
@given(instances(), st.integers(0, 99))
def test_the_same_seed_gives_the_same_plan(inst: Instance, seed: int) -> None:
    solver = Solver(Method.RUIN, QUICK)
    assert solve(inst, solver, seed).choice.tolist() == solve(inst, solver, seed).choice.tolist()


def test_an_answer_exists_even_when_the_time_is_already_up() -> None:
    option = np.array([(0, -1, 0, 1, 1), (0, -1, 0, 1, 1)], np.int32)
    inst = instance(
        np.array([0, 1, 2]),
        option,
        np.array([1.0, 2.0]),
        np.array([9.0, 9.0]),
        np.array([[0], [1]], np.int32),
        np.ones((1, 1, 1), np.int32),
    )
    answer = solve(inst, go_on=lambda: False)
    assert answer.choice.tolist() == [0, -1]


def test_an_option_outside_the_horizon_is_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match="leaves the horizon of 2 hours"):
        instance(
            np.array([0, 1]),
            np.array([(0, -1, 1, 2, 0)], np.int32),
            np.array([1.0]),
            np.array([2.0]),
            np.array([[1]], np.int32),
            np.ones((1, 2, 1), np.int32),
        )


@settings(max_examples=60, deadline=None)
@given(instances())
def test_what_fits_alone_is_what_is_not_broken_alone(inst: Instance) -> None:
    owner = np.repeat(np.arange(inst.jobs), np.diff(inst.first))
    fits = alone(inst)
    for option in range(inst.options):
        only = np.full(inst.jobs, HELD, np.int64)
        only[owner[option]] = option
        assert fits[option] == (broken(inst, only) == "")


def crowded(seed: int) -> Instance:
    """Twelve jobs of one to three hours that want the same cheap hours of two small pools."""
    chance = np.random.default_rng(seed)
    first, option, cost = [0], [], []
    for _ in range(12):
        length, need = int(chance.integers(1, 4)), int(chance.integers(1, 4))
        for row in range(2):
            for start in range(8 - length + 1):
                option.append((row, -1, start, length, need))
                cost.append(length * need * (1.0 + start + 2 * row) + float(chance.random()))
        first.append(len(cost))
    return instance(
        np.array(first), np.array(option, np.int32), np.array(cost), np.full(12, 500.0),
        np.arange(4, dtype=np.int32).reshape(-1, 1), np.full((2, 8, 1), 4, np.int32),
    )  # fmt: skip


def test_the_search_comes_near_the_optimum_of_small_crowds_where_the_first_answer_does_not() -> None:
    gaps, first_gaps = [], []
    for seed in range(8):
        inst = crowded(seed)
        optimum = solve_exact(inst).cost
        answer = solve(inst, Solver(Method.RUIN, Search(iterations_per_job=400)), seed=1)
        gaps.append(answer.cost / optimum - 1.0)
        first_gaps.append(total(inst, first_answer(inst)) / optimum - 1.0)
    assert np.mean(gaps) < 0.02
    assert np.mean(gaps) < np.mean(first_gaps) / 4
