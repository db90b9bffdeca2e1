"""What remainders and partly cut devices are worth, by the demand."""

from __future__ import annotations

import numpy as np
import pytest

from dure.model.accelerator import Geometry
from dure.pack import carving
from dure.pack.carving import mask_values, patterns, profile_prices
from dure.pack.cutting import remainder_values
from dure.pack.mix import Shape
from dure.pack.slots import layout_values
from dure.pack.worth import WorthSettings, type_prices
from tests.unit.pack.worlds import A100, profile


def test_an_empty_device_is_worth_one_and_a_full_one_nothing() -> None:
    amounts = np.ones(len(A100.profiles))
    values = mask_values(A100, amounts, np.ones((1, amounts.size)))[0]
    assert values[0] == 1.0
    assert values[-1] == 0.0


def test_slots_that_no_demanded_profile_can_take_are_worth_nothing() -> None:
    whole = max(range(len(A100.profiles)), key=lambda i: A100.profiles[i].slots)
    amounts = np.zeros(len(A100.profiles))
    amounts[whole] = 1.0
    values = mask_values(A100, amounts, np.ones((1, amounts.size)))[0]
    assert set(values[1:]) == {0.0}


def test_half_a_device_is_worth_half_of_one_that_is_cut_into_halves() -> None:
    half = next(i for i, one in enumerate(A100.profiles) if one.name == "3g.40gb")
    amounts = np.zeros(len(A100.profiles))
    amounts[half] = 1.0
    values = mask_values(A100, amounts, np.ones((1, amounts.size)))[0]
    lower, upper = A100.profiles[half].masks()
    assert (values[0], values[lower], values[upper], values[lower | upper]) == (1.0, 0.5, 0.5, 0.0)


def test_a_half_that_only_the_smaller_can_use_keeps_some_worth_and_the_other_is_less_than_a_device() -> None:
    """With as many 3g as 4g a 3g is free in devices and a 4g costs one; their means with a half count."""
    amounts = np.array([0.0, 0, 0, 1, 1, 0])
    values = mask_values(A100, amounts, np.ones((1, 6)))[0]
    lower, upper = A100.profiles[3].masks()
    assert (values[0], values[lower], values[upper]) == (1.0, pytest.approx(0.25), pytest.approx(0.75))


def test_every_small_slice_that_still_fits_is_worth_its_part() -> None:
    amounts = np.zeros(len(A100.profiles))
    amounts[0] = 1.0
    values = mask_values(A100, amounts, np.ones((1, amounts.size)))[0]
    assert [round(float(values[mask]) * 7, 6) for mask in (0b0, 0b1, 0b101, 0b111_1111)] == [7.0, 6.0, 5.0, 0.0]


def test_a_profile_that_fills_the_device_costs_one_device() -> None:
    whole = max(range(len(A100.profiles)), key=lambda i: A100.profiles[i].slots)
    amounts = tuple(1.0 if i == whole else 0.0 for i in range(len(A100.profiles)))
    assert abs(profile_prices(A100, amounts)[whole] - 1.0) < 1e-9


def test_no_pattern_is_contained_in_another() -> None:
    found = patterns(A100)
    for one in found:
        assert not any(one != two and all(a <= b for a, b in zip(one, two, strict=True)) for two in found)


def test_a_remainder_loses_its_worth_with_the_host_cpu_that_its_fractions_need() -> None:
    sizes, amounts = np.array([250, 500]), np.array([1.0, 1.0])
    reach = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    none, small, both = remainder_values(sizes, amounts, reach)
    assert none[750] == 0.0
    assert small[250] == both[250] == 0.25
    assert both[1000] == 1.0


def test_a_type_grows_dearer_as_it_runs_out_before_the_others() -> None:
    shares = [(Shape(0, 0, 1, 1000, -1, 0b01), 0.3), (Shape(0, 0, 1, 1000, -1, 0b11), 0.7)]
    early = type_prices(shares, [50.0, 50.0], WorthSettings())
    late = type_prices(shares, [30.0, 50.0], WorthSettings())
    assert late[0] > early[0]
    assert late[1] == early[1] == 0.0


def test_prices_are_those_of_the_best_layouts_for_the_demand() -> None:
    """What a device holds n of costs a device divided by n."""
    for at, price in ((0, 1 / 7), (1, 1 / 4), (2, 1 / 3), (3, 1 / 2), (4, 1.0), (5, 1.0)):
        amounts = tuple(1.0 if i == at else 0.0 for i in range(6))
        assert profile_prices(A100, amounts)[at] == pytest.approx(price)
    both = profile_prices(A100, (0.0, 0.0, 0.0, 0.5, 0.5, 0.0))
    assert (both[3], both[4]) == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0)), "a 3g fits beside every 4g"


def test_without_demand_for_slices_every_profile_counts_by_its_slots() -> None:
    values = mask_values(A100, np.zeros(6), np.zeros((2, 6)))
    assert values.shape == (2, 256)
    assert values[0].tolist() == values[1].tolist() == layout_values(A100, {})


def test_a_mask_is_worth_what_the_host_cpu_lets_it_serve() -> None:
    amounts = np.array([1.0, 0, 0, 0, 0, 0])
    reach = np.zeros((3, 6))
    reach[1:, 0] = 0.5, 1.0
    none, half, full = mask_values(A100, amounts, reach)
    assert not none.any()
    np.testing.assert_allclose(half, full / 2)
    assert full[0] == 1.0


def test_patterns_are_the_fullest_counts_of_each_profile() -> None:
    pair = Geometry(2, 2, (profile("one", 1, (0, 1), 1, 2), profile("two", 2, (0,), 2, 1)))
    assert patterns(pair) == ((0, 1), (2, 0))
    assert len(patterns(A100)) == 28


def test_every_mask_is_worth_the_best_of_all_placements_beside_it() -> None:
    """The plain twin tries them one by one."""
    prices = np.random.default_rng(3).random(len(A100.profiles))
    reach = np.random.default_rng(4).random((3, prices.size))
    found = carving._best_fill(A100, prices * reach)
    for row, priced in enumerate(prices * reach):
        best = [0.0] * (1 << A100.slots)
        for mask in reversed(range(len(best))):
            for price, one in zip(priced, A100.profiles, strict=True):
                best[mask] = max(
                    [best[mask], *(price + best[mask | bits] for bits in one.masks() if not mask & bits)]
                )
        assert found[row].tolist() == best
