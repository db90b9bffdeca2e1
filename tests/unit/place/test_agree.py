"""One plan for all: nobody who was let in is dropped, nobody who meant to wait loses his place."""

from __future__ import annotations

import numpy as np
import pytest

from dure.place.agree import agreed, with_admitted
from dure.place.instance import Instance, broken, instance
from dure.place.solver import Method, Search, Solver
from tests.unit.place.instances import crowd

RUIN = Solver(search=Search(iterations_per_job=20))


def test_whom_fairness_let_in_is_all_but_undroppable() -> None:
    inst = crowd(0)
    admitted = np.where(np.arange(inst.jobs) < 4, -1, np.arange(inst.jobs) - 4)
    found = with_admitted(inst, admitted)
    assert found.hold.tolist() == [*inst.hold[:4], *(inst.hold[4:] * 1e4)]
    assert found.cost is inst.cost


def one_room(costs: list[list[float]]) -> Instance:
    """Jobs that all want the same row of one unit, two hours long: option h of each starts at hour h."""
    first = np.arange(len(costs) + 1) * 2
    table = [(0, -1, hour, 1, 0) for _ in costs for hour in range(2)]
    flat = np.array(costs).ravel()
    return instance(
        first, np.array(table), flat, np.full(len(costs), 100.0), np.array([[1]]), np.ones((1, 2, 1), np.int32)
    )


@pytest.mark.parametrize("method", [Method.REGRET, Method.RUIN, Method.EXACT])
def test_one_who_meant_to_wait_keeps_a_place_against_one_behind_him(method: Method) -> None:
    inst = one_room([[1.0, 2.0], [1.0, 9.0], [1.0, 3.0]])
    found = agreed(inst, np.array([0, 1, 2]), Solver(method), 1, meant=np.array([1, -1, -1]))
    assert found[0] >= 0
    assert found[2] < 0
    assert broken(inst, found) == ""


def test_what_was_meant_is_given_up_for_something_cheaper_that_is_free() -> None:
    inst = one_room([[1.0, 2.0], [5.0, 1.0]])
    assert agreed(inst, np.array([0, 1]), RUIN, 1, meant=np.array([1, 2])).tolist() == [0, 3]


def test_all_who_had_a_plan_that_goes_together_still_have_one() -> None:
    inst = crowd(3)
    order = np.arange(inst.jobs)
    before = agreed(inst, order, RUIN, 1)
    again = agreed(inst, order[::-1].copy(), RUIN, 2, meant=before)
    assert ((again >= 0) | (before < 0)).all()
    assert broken(inst, again) == ""
