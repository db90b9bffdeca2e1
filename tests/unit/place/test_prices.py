"""Congestion prices: what an hour is worth to those who compete for it, and the bound they prove."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.place.exact import linear_prices, solve_exact
from dure.place.instance import Floats, Instance, instance, spread, total
from dure.place.prices import bound_at, congestion_prices, rents
from dure.place.solve import first_answer
from dure.place.solver import Ascent
from tests.unit.place.instances import crowd, instances

ROW, QUOTA, START, LENGTH, NEED = range(5)


@settings(max_examples=30, deadline=None)
@given(instances(), st.integers(0, 99))
def test_the_rent_is_the_price_of_every_unit_in_every_hour_of_pool_and_quota(inst: Instance, seed: int) -> None:
    price = np.random.default_rng(seed).random(inst.capacity.shape)
    by_hand = []
    for row, quota, start, length, need in inst.option:
        drawn = [one for one in (row, quota) if one >= 0]
        hours = range(start, start + length)
        by_hand.append(sum(float(price[one, hour] @ inst.need[need]) for one in drawn for hour in hours))
    assert rents(inst, price).tolist() == pytest.approx(by_hand)


@settings(max_examples=25, deadline=None)
@given(instances())
def test_the_bound_is_never_below_what_everybody_would_pay_alone(inst: Instance) -> None:
    cheapest = sum(
        min([float(inst.hold[j]), *inst.cost[inst.first[j] : inst.first[j + 1]].tolist()]) for j in range(inst.jobs)
    )
    found = congestion_prices(inst, total(inst, first_answer(inst)))
    assert found.bound >= cheapest - 1e-9
    assert found.price.min() >= 0.0


@settings(max_examples=15, deadline=None)
@given(instances(budgets=False))
def test_no_capacity_has_a_price_where_all_can_have_their_wish(inst: Instance) -> None:
    roomy = instance(inst.first, inst.option, inst.cost, inst.hold, inst.need, inst.capacity + 100)
    found = congestion_prices(roomy, total(roomy, first_answer(roomy)))
    assert not found.price.any()
    assert found.bound == pytest.approx(solve_exact(roomy).cost)


def rivals(quota: int = -1) -> Instance:
    """Both want the first hour, which has room for one; the second hour costs the one 5 and the other 3."""
    option = np.array([(0, quota, 0, 1, 0), (0, quota, 1, 1, 0)] * 2, np.int32)
    roomy, scarce = [[9], [9], [9]], [[1], [9], [9]]
    return instance(
        np.array([0, 2, 4]), option, np.array([1.0, 5.0, 1.0, 3.0]), np.array([90.0, 90.0]),
        np.array([[1]], np.int32), np.array([scarce, roomy] if quota < 0 else [roomy, scarce], np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("quota", [-1, 1])
def test_a_disputed_hour_costs_what_its_loser_pays_to_give_way(quota: int) -> None:
    found = congestion_prices(rivals(quota), 4.0, Ascent(steps=400))
    disputed = found.price[1 if quota > 0 else 0]
    assert found.bound == pytest.approx(4.0, rel=0.01)
    assert 1.9 <= disputed[0, 0] <= 4.1
    assert found.price.sum() == pytest.approx(disputed[0, 0])
    assert found.rent.tolist() == pytest.approx([disputed[0, 0], 0.0] * 2)


def plain_ascent(inst: Instance, upper: float, ascent: Ascent) -> tuple[Floats, float]:
    """The ascent written down for reading: every rent and every use added up anew in each step."""
    price, move = np.zeros(inst.capacity.shape), np.zeros(inst.capacity.shape)
    best_price, best, stale, scale = price, -np.inf, 0, ascent.scale
    for _ in range(ascent.steps):
        wanted = inst.cost + rents(inst, price)
        choice = np.full(inst.jobs, -1)
        for j in range(inst.jobs):
            mine = wanted[inst.first[j] : inst.first[j + 1]]
            if mine.min(initial=np.inf) < inst.hold[j]:
                choice[j] = inst.first[j] + int(mine.argmin())
        paid = np.where(choice < 0, inst.hold, wanted[choice] if inst.options else 0.0)
        value = paid.sum() - (price * inst.capacity).sum()
        excess = (spread(inst, choice) - inst.capacity).astype(np.float64)
        excess[(excess < 0) & (price == 0)] = 0.0
        move = ascent.momentum * move + excess
        if value > best:
            best, best_price, stale = value, price, 0
        else:
            stale += 1
            if stale == ascent.patience:
                scale, stale, price, move = scale / 2, 0, best_price, np.zeros_like(move)
                continue
        norm = (move**2).sum()
        if norm == 0:
            break
        price = np.maximum(0.0, price + scale * max(upper - value, 1e-9) / norm * move)
    return best_price, best


@pytest.mark.parametrize("ascent", [Ascent(steps=1), Ascent(steps=25, patience=2), Ascent(steps=25, momentum=0.3)])
@pytest.mark.parametrize("seed", range(5))
def test_the_ascent_takes_the_steps_of_its_plain_twin(seed: int, ascent: Ascent) -> None:
    inst = crowd(seed)
    odd = np.random.default_rng(seed).random(inst.options)  # no two ways at the same price
    inst = replace(inst, cost=inst.cost + odd)
    upper = total(inst, first_answer(inst))
    price, bound = plain_ascent(inst, upper, ascent)
    found = congestion_prices(inst, upper, ascent)
    assert found.bound == pytest.approx(bound, rel=1e-9)
    np.testing.assert_allclose(found.price, price, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.rent, rents(inst, price), rtol=1e-7, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(instances(), st.integers(0, 99))
def test_whatever_the_prices_no_plan_goes_under_the_bound_they_prove(inst: Instance, seed: int) -> None:
    price = 5 * np.random.default_rng(seed).random(inst.capacity.shape)
    assert bound_at(inst, price) <= solve_exact(inst).cost + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_the_linear_relaxation_proves_as_much_as_the_ascent_and_no_more_than_the_optimum(seed: int) -> None:
    inst = crowd(seed)
    bound = bound_at(inst, linear_prices(inst, 10.0))
    ascent = congestion_prices(inst, total(inst, first_answer(inst)), Ascent(steps=500)).bound
    assert ascent - 1e-6 * abs(ascent) <= bound <= solve_exact(inst).cost + 1e-6
