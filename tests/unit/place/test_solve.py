"""What stands in front of the solvers and behind the exact one: the model, the windows, who may stop when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.place import solve as front
from dure.place.exact import _as_choice, _as_solution, _model, solve_exact
from dure.place.greedy import insert_in_order, regret_order
from dure.place.instance import HELD, Instance, Longs, broken, instance, spread, total
from dure.place.plain import plain_insert, plain_regret_order, plain_settle
from dure.place.solve import _window, first_answer, solve, undisputed
from dure.place.solver import Limits, Method, Search, Solver
from tests.unit.place.instances import NEEDS, crowd, instances


def few(*costs: tuple[float, ...], hold: float = 100.0, room: int = 1, starts: int = 3, lengths: int = 1) -> Instance:
    """Each job may start in hour 0, 1, ... of one pool at these costs."""
    option = [(0, -1, start, lengths, 1) for mine in costs for start in range(len(mine))]
    return instance(
        np.cumsum([0, *map(len, costs)]), np.array(option, np.int32), np.concatenate(costs),
        np.full(len(costs), hold), NEEDS[:, :1], np.full((1, starts + lengths - 1, 1), room, np.int32),
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> tuple[Instance, Longs]:
    inst = draw(instances())
    choice = [
        draw(st.sampled_from([HELD, *range(int(inst.first[j]), int(inst.first[j + 1]))])) for j in range(inst.jobs)
    ]
    return inst, np.array(choice, np.int64)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_the_model_allows_a_plan_exactly_if_nothing_is_broken(drawn: tuple[Instance, Longs]) -> None:
    inst, choice = drawn
    lp, x = _model(inst), np.array(_as_solution(inst, choice).col_value)
    start, index, value = (np.asarray(one) for one in (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_))
    sums = np.zeros(lp.num_row_)
    for column in np.flatnonzero(x):
        np.add.at(sums, index[start[column] : start[column + 1]], value[start[column] : start[column + 1]])
    inside = (np.asarray(lp.row_lower_) <= sums) & (sums <= np.asarray(lp.row_upper_) + 1e-9)
    assert inside.all() == (broken(inst, choice) == "")
    assert sums[: inst.jobs].tolist() == [1.0] * inst.jobs, "each job has one option or waits"
    assert float(np.asarray(lp.col_cost_) @ x) == pytest.approx(total(inst, choice))
    assert _as_choice(inst, x).tolist() == choice.tolist()
    assert (np.asarray(lp.col_lower_) == 0).all()
    assert (np.asarray(lp.col_upper_) == 1).all()


def test_half_an_option_is_none_and_no_answer_is_nobody() -> None:
    inst = few((1.0, 2.0), (3.0,))
    assert _as_choice(inst, np.array([0.5, 0.51, 1.0, 0.0, 0.0])).tolist() == [1, 2]
    assert _as_choice(inst, np.array([0.5, 0.5, 0.0, 1.0, 1.0])).tolist() == [HELD, HELD]
    assert _as_choice(inst, np.empty(0)).tolist() == [HELD, HELD]


def test_the_exact_solver_proves_what_it_finds_and_keeps_a_start_that_it_cannot_beat() -> None:
    inst = few((1.0, 5.0), (1.0, 3.0))
    proof = solve_exact(inst)
    assert (proof.choice.tolist(), proof.cost, proof.optimal) == ([0, 3], 4.0, True)
    assert proof.bound == pytest.approx(4.0)
    assert solve_exact(inst, start=np.array([1, 2])).cost == 4.0
    given_up = solve_exact(crowd(0), Limits(seconds=0.0), np.full(10, HELD))
    assert given_up.cost <= total(crowd(0), np.full(10, HELD))
    assert given_up.bound <= given_up.cost
    nobody = instance(
        np.array([0]), np.empty((0, 5), np.int32), np.empty(0), np.empty(0), NEEDS, np.ones((1, 1, 2), np.int32)
    )
    empty = solve_exact(nobody)
    assert (empty.choice.tolist(), empty.cost, empty.bound, empty.optimal) == ([], 0.0, 0.0, True)


def test_nothing_is_disputed_where_everybody_has_the_cheapest_that_fits_him_alone() -> None:
    apart = few((1.0, 5.0), (4.0, 3.0))
    assert undisputed(apart, np.array([0, 3]))
    assert not undisputed(apart, np.array([0, 2]))
    assert not undisputed(apart, np.array([HELD, 3]))
    assert not undisputed(few((1.0, 5.0), (1.0, 3.0)), np.array([0, 3])), "both want the first hour"
    dear = few((200.0,), (3.0,))
    assert undisputed(dear, np.array([HELD, 1])), "waiting is cheaper"
    full = few((1.0, 5.0), room=0)
    assert undisputed(full, np.array([HELD])), "what has no room is no option"


def test_an_undisputed_answer_is_proven_and_a_first_one_is_not() -> None:
    proven = solve(few((1.0, 5.0), (4.0, 3.0)), Solver(Method.REGRET))
    assert (proven.choice.tolist(), proven.cost, proven.bound, proven.optimal) == ([0, 3], 4.0, 4.0, True)
    first = solve(few((1.0, 5.0), (1.0, 3.0)), Solver(Method.REGRET))
    assert (first.choice.tolist(), first.cost, first.bound, first.optimal) == ([0, 3], 4.0, -np.inf, False)


def test_a_start_that_is_no_dearer_is_kept_and_a_dearer_one_is_not() -> None:
    inst = few((1.0, 3.0), (1.0, 3.0))
    regret = Solver(Method.REGRET)
    assert solve(inst, regret).choice.tolist() == [0, 3]
    assert solve(inst, regret, start=np.array([1, 2])).choice.tolist() == [1, 2], "equal: who was let in stays in"
    assert solve(inst, regret, start=np.array([1, HELD])).choice.tolist() == [0, 3]


@pytest.mark.parametrize("seed", range(3))
def test_each_method_says_what_it_has_proven(seed: int) -> None:
    inst = crowd(seed)
    quick = Search(iterations_per_job=20)
    exact = solve(inst, Solver(Method.EXACT))
    assert exact.optimal
    assert exact.bound == pytest.approx(exact.cost, rel=1e-5)
    for method in (Method.RUIN, Method.ROLLING):
        found = solve(inst, Solver(method, quick, window=inst.jobs))
        assert exact.cost <= found.cost == total(inst, found.choice)
        assert found.bound <= exact.cost + 1e-6
        assert not found.optimal
    assert found.cost == pytest.approx(exact.cost), "one window over all is the exact answer"


@pytest.mark.parametrize("seed", range(3))
def test_windows_only_make_a_plan_cheaper_and_stop_when_told(seed: int) -> None:
    inst = crowd(seed)
    start = plain_insert(inst, np.arange(inst.jobs)[::-1])
    solver = Solver(Method.ROLLING, window=3)
    rolled = front._rolled(inst, start, solver, front.never_ends)
    assert broken(inst, rolled) == ""
    assert total(inst, rolled) <= total(inst, start)
    answers = iter([True, False])
    first_only = front._rolled(inst, start, solver, lambda: next(answers))
    assert first_only[3:].tolist() == start[3:].tolist()
    assert first_only[:3].tolist() == rolled[:3].tolist()


@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (4, 7), (7, 10)])
def test_a_window_has_what_all_others_leave(lo: int, hi: int) -> None:
    inst = crowd(4)
    choice = first_answer(inst)
    part = _window(inst, choice, lo, hi)
    others = choice.copy()
    others[lo:hi] = HELD
    mine = slice(int(inst.first[lo]), int(inst.first[hi]))
    assert part.capacity.tolist() == (inst.capacity - spread(inst, others)).tolist()
    assert part.option.tolist() == inst.option[mine].tolist()
    assert part.cost.tolist() == inst.cost[mine].tolist()
    assert part.drain.tolist() == inst.drain[mine].tolist()
    assert (part.hold.tolist(), part.ledger.tolist()) == (inst.hold[lo:hi].tolist(), inst.ledger[lo:hi].tolist())
    assert np.diff(part.first).tolist() == np.diff(inst.first)[lo:hi].tolist()
    spent = sum((inst.drain[o] for j, o in enumerate(others) if o >= 0 and inst.ledger[j] == 0), np.zeros(2))
    assert part.left.tolist() == [(inst.left[0] - spent).tolist()]


def test_large_batches_take_the_compiled_way_and_small_ones_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    inst = crowd(5)
    settled = plain_settle(inst, plain_insert(inst, plain_regret_order(inst)))
    for most, expected in ((inst.options, settled), (inst.options - 1, None)):
        monkeypatch.setattr(front, "PLAIN_OPTIONS", most)
        wanted = insert_in_order(inst, inst.cost, regret_order(inst, inst.cost)) if expected is None else expected
        assert first_answer(inst).tolist() == wanted.tolist()


def test_time_that_is_up_before_the_search_leaves_the_first_answer_with_its_bound() -> None:
    inst = crowd(1)
    answers = iter([True, False])
    found = solve(inst, Solver(Method.RUIN), go_on=lambda: next(answers))
    assert found.choice.tolist() == first_answer(inst).tolist()
    assert -np.inf < found.bound <= solve_exact(inst).cost + 1e-6


def test_who_would_lose_most_by_missing_his_best_chooses_first() -> None:
    """Regrets: 4 against another hour, 9 against waiting, none, and 2 since the hour between overlaps."""
    inst = few((1.0, 5.0), (1.0,), (10.0,), (3.0, 3.5, 5.0), hold=10.0)
    assert plain_regret_order(inst).tolist() == [1, 0, 3, 2]
    long = few((3.0, 3.5, 5.0), (1.0, 2.2, 2.8), hold=10.0, lengths=2)
    assert plain_regret_order(long).tolist() == [0, 1]
    elsewhere = replace(long, option=np.array([(0, -1, 0, 2, 1), (0, -1, 1, 2, 1), (0, -1, 2, 2, 1)] * 2, np.int32))
    elsewhere.option[4, 0] = 1
    assert regret_order(elsewhere, elsewhere.cost).tolist() == [0, 1]
    assert plain_regret_order(elsewhere).tolist() == [0, 1]
