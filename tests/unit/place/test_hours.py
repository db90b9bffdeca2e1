"""Integrals over hours are what adding up hour by hour gives; an unknown hour is never a zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.tariff import CarbonSeries, Weekly
from dure.place.hours import carbon_integral, spans, weekly_integral
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
