"""A handful of jobs by search: what it finds is what the solver proves, and it knows when to stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from dure.place import few
from dure.place.exact import solve_exact
from dure.place.few import cheapest
from dure.place.instance import HELD, Instance, broken, instance, total
from dure.place.plain import plain_insert
from dure.place.solve import solve
from dure.place.solver import Limits, Method, Solver
from tests.unit.place.instances import crowd, instances


@given(instances())
def test_a_handful_gets_the_plan_that_the_solver_proves(inst: Instance) -> None:
    for start in (np.full(inst.jobs, HELD), plain_insert(inst, np.arange(inst.jobs))):
        found = cheapest(inst, start)
        assert found is not None
        assert not broken(inst, found.choice)
        assert found.cost == total(inst, found.choice) == found.bound
        assert found.cost == pytest.approx(solve_exact(inst).cost)


@given(instances())
def test_a_start_that_nothing_is_cheaper_than_stays(inst: Instance) -> None:
    best = solve_exact(inst).choice
    found = cheapest(inst, best)
    assert found is not None
    assert found.choice.tolist() == best.tolist()


def test_two_who_want_the_same_hour_share_the_day_at_the_least_cost() -> None:
    option = np.array([(0, -1, start, 1, 0) for _ in range(2) for start in range(2)], np.int32)
    cost = np.array([1.0, 9.0, 1.0, 3.0])
    capacity = np.ones((1, 2, 1), np.int32)
    made = instance(np.array([0, 2, 4]), option, cost, np.full(2, 50.0), np.ones((1, 1), np.int32), capacity)
    found = cheapest(made, np.array([1, 2]))
    assert found is not None
    assert (found.choice.tolist(), found.cost) == ([0, 3], 4.0)


def test_a_search_without_end_is_given_up_and_the_solver_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    small, held = crowd(1, few.JOBS), np.full(few.JOBS, HELD)
    optimum = solve_exact(small).cost
    assert cheapest(crowd(1, few.JOBS + 1), np.full(few.JOBS + 1, HELD)) is None
    monkeypatch.setattr(few, "NODES", 2)
    assert cheapest(small, held) is None
    assert solve(small, Solver(Method.EXACT, limits=Limits())).cost == pytest.approx(optimum)
