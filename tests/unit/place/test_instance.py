"""The numbers that solvers read: what a well-formed instance is, what a plan uses and costs, why one is broken."""

from __future__ import annotations

import numpy as np
import pytest

from dure.model.errors import InvalidInput
from dure.place.instance import HELD, Instance, Ints, broken, instance, spread, total
from dure.place.kernels import affords, book, draw, fits, take

FIRST = (0, 2, 3)
OPTIONS = ((0, 1, 0, 2, 1), (1, -1, 2, 1, 0), (0, -1, 1, 2, 0))

ONE_OF_ONE = np.ones((1, 1), np.int32), np.ones((1, 1, 1), np.int32)


def made(
    *,
    first: tuple[int, ...] = FIRST,
    option: tuple[tuple[int, ...], ...] = OPTIONS,
    cost: tuple[float, ...] = (5.0, 7.0, 2.0),
    hold: tuple[float, ...] = (20.0, 30.0),
    need: object = ((1, 0), (2, 3)),
    left: tuple[float, float] = (6.0, 4.0),
) -> Instance:
    """Two jobs over two rows, three hours and two resources; the first job has a budget."""
    return instance(
        np.array(first), np.array(option, np.int32), np.array(cost), np.array(hold), np.array(need, np.int32),
        np.full((2, 3, 2), 3, np.int32), np.array([0, -1], np.int32),
        np.array([(6.0, 1.0), (1.0, 4.0), (9.0, 9.0)][: len(cost)]), np.array([left]),
    )  # fmt: skip


def option(**changes: int) -> tuple[tuple[int, ...], ...]:
    names = ("row", "quota", "start", "length", "need")
    return (tuple(changes.get(name, old) for name, old in zip(names, OPTIONS[0], strict=True)), *OPTIONS[1:])


def test_what_is_well_formed_knows_its_sizes() -> None:
    inst = made()
    assert (inst.jobs, inst.options, inst.hours) == (2, 3, 3)
    assert made(option=option(row=1, quota=1, start=0, length=3)).options == 3, "the last row and the last hour"
    empty = instance(np.array([0, 0]), np.empty((0, 5), np.int32), np.empty(0), np.ones(1), *ONE_OF_ONE)
    assert (empty.options, empty.ledger.tolist(), empty.drain.shape, empty.left.shape) == (0, [-1], (0, 2), (0, 2))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"first": (0, 3)}, "must run from 0"),
        ({"first": (1, 2, 3)}, "must run from 0"),
        ({"first": (0, 2, 2)}, "must run from 0"),
        ({"first": (0, 4, 3)}, "must not decrease"),
        ({"cost": (5.0, np.inf, 2.0)}, "must be finite"),
        ({"hold": (np.nan, 30.0)}, "must be finite"),
        ({"option": option(row=-1)}, "outside 0..1"),
        ({"option": option(row=2)}, "outside 0..1"),
        ({"option": option(quota=2)}, "outside 0..1"),
        ({"option": option(start=-1)}, "horizon of 3 hours"),
        ({"option": option(length=0)}, "horizon of 3 hours"),
        ({"option": option(start=2)}, "horizon of 3 hours"),
        ({"need": ((1, 0, 0), (2, 3, 0))}, "number of resources"),
        ({"need": (1, 2)}, "number of resources"),
    ],
)
def test_what_is_not_is_refused_in_words(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        made(**changes)  # type: ignore[arg-type]


def test_a_budget_counts_only_where_all_of_it_is_given() -> None:
    half = instance(
        np.array([0, 1]), np.array([(0, -1, 0, 1, 0)], np.int32), np.ones(1), np.ones(1), *ONE_OF_ONE,
        ledger=np.zeros(1, np.int32), drain=np.ones((1, 2)),
    )  # fmt: skip
    assert (half.ledger.tolist(), half.drain.tolist(), half.left.tolist()) == ([-1], [[0.0, 0.0]], [])


def test_a_plan_uses_its_row_and_its_quota_in_the_hours_it_runs() -> None:
    used = spread(made(), np.array([0, 2]))
    assert used[0].tolist() == [[2, 3], [3, 3], [1, 0]]
    assert used[1].tolist() == [[2, 3], [2, 3], [0, 0]]
    assert not spread(made(), np.array([HELD, HELD])).any()


def test_a_plan_costs_its_options_and_what_waiting_costs_the_others() -> None:
    assert total(made(), np.array([0, 2])) == 7.0
    assert total(made(), np.array([HELD, 2])) == 22.0
    assert total(made(), np.array([1, HELD])) == 37.0
    assert total(made(), np.array([HELD, HELD])) == 50.0


def test_why_a_plan_is_broken() -> None:
    inst = made()
    assert broken(inst, np.array([0, 2])) == ""
    assert broken(inst, np.array([HELD, HELD])) == ""
    assert broken(inst, np.array([2, HELD])) == "job 0 was given option 2, which is not its own"
    assert broken(inst, np.array([HELD, 1])) == "job 1 was given option 1, which is not its own"
    crowded = made(option=(*OPTIONS[:2], (0, -1, 1, 2, 1)))
    assert broken(crowded, np.array([0, 2])) == "row 0 is over capacity at hour 1 in resource 0"
    under_quota = made(option=(*OPTIONS[:2], (1, -1, 0, 2, 1)))
    assert broken(under_quota, np.array([0, 2])) == "row 1 is over capacity at hour 0 in resource 0"
    assert broken(made(left=(5.0, 4.0)), np.array([0, 2])) == "ledger 0 is overspent"
    assert broken(made(left=(6.0, 3.0)), np.array([1, 2])) == "ledger 0 is overspent"
    assert broken(made(left=(6.0, 4.0)), np.array([1, 2])) == "", "spent to the last unit"


def test_the_dice_are_the_textbook_generator_of_32_bits() -> None:
    assert [draw(state) for state in (0, 1, 2**32 - 1)] == [1013904223, 1015568748, 1012239698]


def room() -> tuple[Ints, Ints, Ints]:
    """Two hours of a pool and of a quota with three units of two resources; a need for the second alone."""
    option = np.array([(0, 1, 0, 2, 0), (0, -1, 1, 1, 1), (0, 1, 0, 1, 2)], np.int32)
    return option, np.array([(2, 1), (3, 3), (0, 2)], np.int32), np.full((2, 2, 2), 3, np.int32)


@pytest.mark.parametrize(
    ("o", "row", "hour", "resource", "units"),
    [
        (0, 0, 0, 0, 2),
        (0, 0, 1, 1, 1),
        (0, 1, 0, 0, 2),
        (0, 1, 1, 1, 1),
        (1, 0, 1, 0, 3),
        (2, 0, 0, 1, 2),
        (2, 1, 0, 1, 2),
    ],
)
def test_an_option_fits_as_long_as_every_hour_of_pool_and_quota_has_its_units(
    o: int, row: int, hour: int, resource: int, units: int
) -> None:
    option, need, free = room()
    free[row, hour, resource] = units
    assert fits(option, need, free, o)
    free[row, hour, resource] = units - 1
    assert fits(option, need, free, o) is False


def test_hours_rows_and_resources_that_an_option_does_not_touch_do_not_matter() -> None:
    option, need, free = room()
    free[0, 0], free[1] = 0, 0
    assert fits(option, need, free, 1)
    free[:, :, 0], free[:, 0, 1] = 0, 2
    assert fits(option, need, free, 2)


def test_what_is_taken_and_given_back_is_as_before() -> None:
    option, need, free = room()
    take(option, need, free, 0, 1)
    assert free.tolist() == [[[1, 2], [1, 2]], [[1, 2], [1, 2]]]
    take(option, need, free, 2, 1)
    assert free.tolist() == [[[1, 0], [1, 2]], [[1, 0], [1, 2]]]
    take(option, need, free, 0, -1)
    take(option, need, free, 2, -1)
    assert (free == 3).all()


def test_a_budget_must_cover_both_money_and_grams() -> None:
    ledger, drain = np.array([0, -1], np.int32), np.array([(5.0, 7.0)])
    for left, enough in (((5.0, 7.0), True), ((4.9, 7.0), False), ((5.0, 6.9), False)):
        assert affords(ledger, drain, np.array([left]), 0, 0) == enough
        assert affords(ledger, drain, np.array([left]), 1, 0), "who has no budget is not asked"


def test_booking_takes_room_and_budget_together() -> None:
    option, need, free = room()
    ledger, drain, left = np.array([0, -1], np.int32), np.array([(5.0, 7.0)] * 3), np.array([(10.0, 10.0)])
    book(option, need, ledger, drain, free, left, 0, 0, 1)
    assert (left.tolist(), int(free.sum())) == ([[5.0, 3.0]], 12)
    book(option, need, ledger, drain, free, left, 1, 0, -1)
    assert (left.tolist(), int(free.sum())) == ([[5.0, 3.0]], 24)
    book(option, need, ledger, drain, free, left, 0, 1, -1)
    assert left.tolist() == [[10.0, 10.0]]
