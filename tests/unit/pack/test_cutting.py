"""What a remainder of a device is worth: the best that fits into it, at the prices of what is asked for."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.pack import cutting
from dure.pack.codes import WHOLE
from dure.pack.cutting import knapsack, remainder_values, unroll


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(2, 12), st.integers(0, 9)), min_size=1, max_size=3, unique_by=lambda one: one[0]),
    st.integers(0, 24),
)
def test_the_best_of_a_room_is_that_of_trying_all_multisets(items: list[tuple[int, int]], room: int) -> None:
    sizes, prices = np.array([size for size, _ in items]), np.array([float(price) for _, price in items])
    values, _ = knapsack(sizes, prices, room)
    counts = [range(room // int(size) + 1) for size in sizes]
    best = max(float(np.dot(many, prices)) for many in itertools.product(*counts) if int(np.dot(many, sizes)) <= room)
    assert values[room] == pytest.approx(best)
    assert (np.diff(values) >= 0).all()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(90, 700), min_size=1, max_size=4, unique=True), st.integers(0, 99))
def test_what_was_taken_fits_and_is_worth_what_was_said(sizes: list[int], seed: int) -> None:
    known = np.array(sorted(sizes))
    prices = np.random.default_rng(seed).random(len(sizes)) + 0.1
    values, take = knapsack(known, prices, WHOLE)
    pattern = unroll(known, take)
    assert int(pattern @ known) <= WHOLE
    assert float(pattern @ prices) == pytest.approx(values[WHOLE])


def test_halves_make_half_a_device_worth_half_and_less_than_that_nothing() -> None:
    (values,) = remainder_values(np.array([500]), np.array([1.0]), np.array([[1.0]]))
    assert (values[499], values[500], values[999], values[WHOLE]) == (0.0, 0.5, 0.5, 1.0)


def test_a_remainder_without_the_host_cpu_for_its_fractions_is_worth_less() -> None:
    poor, rich = remainder_values(np.array([250, 500]), np.array([1.0, 1.0]), np.array([[0.5, 0.5], [1.0, 1.0]]))
    assert poor[WHOLE] == pytest.approx(0.5 * rich[WHOLE])
    assert rich[WHOLE] == 1.0
    assert (poor <= rich).all()


def test_where_nobody_asks_for_fractions_only_a_whole_device_is_worth_anything() -> None:
    values = remainder_values(np.array([], np.int64), np.array([]), np.ones((2, 0)))
    assert values.shape == (2, WHOLE + 1)
    assert values[:, WHOLE].tolist() == [1.0, 1.0]
    assert not values[:, :WHOLE].any()


def test_prices_are_those_of_the_best_patterns_for_the_mix() -> None:
    """Devices are cut as 600 + 400, and of the 400s that are left two go into one."""
    sizes, all_served = np.array([400, 600]), np.array([[1.0, 1.0]])
    (even,) = remainder_values(sizes, np.array([0.5, 0.5]), all_served)
    assert even[WHOLE] == 1.0
    assert even[400] + even[600] == pytest.approx(1.0)
    (more_small,) = remainder_values(sizes, np.array([0.75, 0.25]), all_served)
    assert more_small[[399, 400, 599, 600, 799, 800]] == pytest.approx([0, 0.5, 0.5, 0.5, 0.5, 1.0])
    (more_large,) = remainder_values(sizes, np.array([0.25, 0.75]), all_served)
    assert more_large[[399, 400, 599, 600, 999]] == pytest.approx([0, 0.0, 0.0, 1.0, 1.0])


def test_three_sizes_need_patterns_that_no_single_size_shows() -> None:
    """550 + 350 + 100 fill a device; only together are they worth one."""
    sizes = np.array([100, 350, 550])
    (values,) = remainder_values(sizes, np.array([1.0, 1.0, 1.0]), np.ones((1, 3)))
    assert values[WHOLE] == 1.0
    assert values[100] + values[350] + values[550] == pytest.approx(1.0)


def test_unrolling_counts_items_and_skips_the_room_that_nothing_takes() -> None:
    sizes = np.array([300, 450])
    _, take = knapsack(sizes, np.array([1.0, 1.6]), WHOLE)
    assert unroll(sizes, take).tolist() == [0, 2]
    _, take = knapsack(sizes, np.array([1.0, 1.0]), WHOLE)
    assert unroll(sizes, take).tolist() == [3, 0]
    values, take = knapsack(sizes, np.array([1.0, 1.0]), 300)
    assert (values[299], values[300], take[299], take[300]) == (0.0, 1.0, -1, 0)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 10, 25, 50, 125]),
    st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True),
    st.integers(0, 99),
)
def test_working_in_steps_that_all_sizes_share_changes_nothing(grain: int, parts: list[int], seed: int) -> None:
    sizes = np.array(sorted(parts)) * grain
    prices = np.random.default_rng(seed).random(len(parts))
    values, take = knapsack(sizes, prices, WHOLE)
    plain_values, plain_take = cutting._fill(sizes, prices, WHOLE)
    assert values.tolist() == plain_values.tolist()
    assert take.tolist() == plain_take.tolist()


def test_many_odd_sizes_are_left_to_the_compiler_with_the_same_answer() -> None:
    sizes = np.array([101, 103, 107, 109, 113])
    prices = np.array([0.11, 0.1, 0.12, 0.105, 0.13])
    before = cutting._compiled.cache_info().hits + cutting._compiled.cache_info().misses
    values, take = knapsack(sizes, prices, WHOLE)
    assert cutting._compiled.cache_info().hits + cutting._compiled.cache_info().misses == before + 1
    plain_values, plain_take = cutting._fill(sizes, prices, WHOLE)
    assert (values.tolist(), take.tolist()) == (plain_values.tolist(), plain_take.tolist())


def test_a_few_round_sizes_and_slices_are_priced_without_loading_the_compiler() -> None:
    """A new process, since another test may have loaded it here."""
    code = (
        "import sys, numpy as np\n"
        "from dure.pack.cutting import remainder_values\n"
        "from dure.pack.carving import mask_values\n"
        "from dure.files.builtin import catalogue\n"
        "A100 = catalogue().accelerator('a100-80gb-sxm').mig\n"
        "remainder_values(np.array([250, 400, 500]), np.ones(3), np.ones((4, 3)))\n"
        "mask_values(A100, np.ones(len(A100.profiles)), np.ones((4, len(A100.profiles))))\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
