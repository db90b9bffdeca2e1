"""What remainders and partly cut devices are worth, by the demand."""

from __future__ import annotations

import numpy as np

from dure.pack.carving import mask_values, patterns, profile_prices
from dure.pack.cutting import remainder_values
from dure.pack.worth import WorthSettings, type_prices
from tests.unit.pack.worlds import A100


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
    from dure.pack.mix import Shape

    shares = [(Shape(0, 0, 1, 1000, -1, 0b01), 0.3), (Shape(0, 0, 1, 1000, -1, 0b11), 0.7)]
    early = type_prices(shares, [50.0, 50.0], WorthSettings())
    late = type_prices(shares, [30.0, 50.0], WorthSettings())
    assert late[0] > early[0]
    assert late[1] == early[1] == 0.0
