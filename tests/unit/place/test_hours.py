"""Integrals over hours are what adding up hour by hour gives; an unknown hour is never a zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.tariff import CarbonSeries, Weekly
from dure.place.hours import carbon_integral, constant, spans, weekly_integral
from tests.unit.place.worlds import NOW_S

PRICES = st.lists(st.integers(0, 9), min_size=168, max_size=168).map(tuple)


@given(PRICES, st.integers(0, 40), st.integers(1, 30), st.integers(0, 167))
def test_a_span_costs_the_hours_that_it_covers(prices: tuple[int, ...], first: int, length: int, now: int) -> None:
    """In quarters of an hour, from a start within the first ten hours; the horizon is 24 hours."""
    now_s = NOW_S + now * 3600
    found = weekly_integral(Weekly(prices), now_s, 24)
    assert found is not None
    quarters = [now * 4 + first + one for one in range(length)]
    last = now + 23  # beyond the horizon its last hour goes on
    expected = sum(prices[min(quarter // 4, last) % 168] for quarter in quarters) / 4
    [cost] = found.over(spans(np.array([now_s + first * 900.0]), length * 900.0))
    assert cost == pytest.approx(expected)


def test_a_flat_price_goes_on_for_ever_and_no_price_is_none() -> None:
    flat = weekly_integral(Weekly((5,)), NOW_S, 24)
    assert flat is not None
    assert flat.over(spans(np.array([NOW_S, NOW_S + 100 * 3600.0]), 7200.0)).tolist() == [10.0, 10.0]
    assert weekly_integral(None, NOW_S, 24) is None


def test_the_mean_is_that_of_the_known_hours_and_says_how_many_those_are() -> None:
    series = CarbonSeries("KR", NOW_S, (100.0, None, 300.0, None))
    found = carbon_integral(series, NOW_S, 4)
    mean, known = found.mean(spans(np.array([NOW_S, NOW_S + 3600.0]), 3 * 3600.0), 999.0)
    assert mean.tolist() == [200.0, 300.0]
    assert known.tolist() == pytest.approx([2 / 3, 1 / 3])
    nothing, none = found.mean(spans(np.array([NOW_S + 3600.0]), 3600.0), 999.0)
    assert (nothing.tolist(), none.tolist()) == ([999.0], [0.0])
    nowhere, zero = carbon_integral(None, NOW_S, 4).mean(spans(np.array([NOW_S]), 3600.0), 7.0)
    assert (nowhere.tolist(), zero.tolist()) == ([7.0], [0.0])


def test_a_complete_series_is_known_throughout() -> None:
    found = carbon_integral(CarbonSeries("KR", NOW_S, (100.0, 300.0)), NOW_S, 2)
    mean, known = found.mean(spans(np.array([NOW_S, NOW_S + 1800.0]), 3600.0), 0.0)
    assert (mean.tolist(), known.tolist()) == ([100.0, 200.0], [1.0, 1.0])


def test_spans_hold_all_begins_and_then_all_ends() -> None:
    found = spans(np.array([10.0, 20.0]), 7200.0)
    assert (found.edges.tolist(), found.count, found.hours) == ([10.0, 20.0, 7210.0, 7220.0], 2, 2.0)
    assert spans(np.array([10.0]), 0.0).hours == 1e-9, "nothing is divided by nothing"


@pytest.mark.parametrize(("length_h", "value_hours"), [(3.0, 60.0), (3.5, 75.0), (5.0, 120.0)])
def test_beyond_the_last_hour_its_value_goes_on(length_h: float, value_hours: float) -> None:
    prices = Weekly((10, 20, 30, *(99,) * 165))
    found = weekly_integral(prices, NOW_S, 3)
    assert found is not None
    assert found.over(spans(np.array([NOW_S]), length_h * 3600)).tolist() == pytest.approx([value_hours])


def test_a_series_starts_with_the_hour_of_now() -> None:
    prices = Weekly(tuple(range(168)))
    found = weekly_integral(prices, NOW_S + 30.5 * 3600, 4)
    assert found is not None
    assert found.over(spans(np.array([NOW_S + 30.5 * 3600]), 3600.0)).tolist() == [30.5]
    wraps = weekly_integral(prices, NOW_S + 167 * 3600, 2)
    assert wraps is not None
    assert wraps.over(spans(np.array([NOW_S + 167 * 3600.0]), 7200.0)).tolist() == [167.0]


def test_what_is_known_for_a_while_only_is_not_known_beyond_it() -> None:
    found = carbon_integral(CarbonSeries("KR", NOW_S, (100.0, 300.0, *(None,) * 9)), NOW_S, 4)
    mean, known = found.mean(spans(np.array([NOW_S + 1800.0]), 3 * 3600.0), 7.0)
    assert mean.tolist() == pytest.approx([(50 + 300) / 1.5])
    assert known.tolist() == [0.5]
    complete = carbon_integral(CarbonSeries("KR", NOW_S, (100.0, 300.0)), NOW_S, 2)
    beyond, sure = complete.mean(spans(np.array([NOW_S + 3600.0]), 2 * 3600.0), 7.0)
    assert (beyond.tolist(), sure.tolist()) == ([300.0], [1.0]), "the last hour goes on"


def test_a_constant_is_shared_and_so_nobody_may_write_to_it() -> None:
    found = constant(2.5, 3)
    assert found.tolist() == [2.5, 2.5, 2.5]
    assert constant(2.5, 3) is found
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1.0
