"""Forecasts: as good as what repeats, honest about what does not, and never lost on gaps or short series."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.watch.forecast import ForecastSettings, forecast, seasonal_naive


def daily(days: int, seed: int, noise: float, weekly: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hour = np.arange(days * 24)
    weekend = np.where((hour // 24) % 7 >= 5, 1 - weekly, 1.0)
    return np.asarray(100 * weekend * (1 + 0.5 * np.sin(hour * 2 * np.pi / 24)) + noise * rng.normal(size=days * 24))


def test_a_series_that_repeats_is_foreseen_exactly() -> None:
    series = daily(30, 1, 0.0)
    found = forecast(series.tolist(), 24)
    assert np.allclose([row[1] for row in found.values], series[-24:], atol=1e-6)


def test_noise_is_averaged_out_so_it_beats_the_value_of_yesterday() -> None:
    ours = naive = 0.0
    for seed in range(6):
        series = daily(29, seed, 8.0)
        past, came = series[:-24], series[-24:]
        ours += float(np.abs(np.array(forecast(past.tolist(), 24).values)[:, 1] - came).mean())
        naive += float(np.abs(seasonal_naive(past, 24, 24) - came).mean())
    assert ours < 0.85 * naive


def test_the_range_of_eighty_percent_holds_about_that_often() -> None:
    held = []
    for seed in range(12):
        series = daily(43, seed, 8.0, weekly=0.3)
        values = np.array(forecast(series[:-24].tolist(), 24).values)
        held.append(((values[:, 0] <= series[-24:]) & (series[-24:] <= values[:, 2])).mean())
    assert 0.68 < float(np.mean(held)) < 0.92


def test_gaps_are_filled_from_one_season_ago() -> None:
    series = daily(30, 1, 0.0)
    series[-30:-20] = np.nan
    assert np.allclose([row[1] for row in forecast(series.tolist(), 24).values], daily(31, 1, 0.0)[-24:], atol=1e-6)


def test_a_short_series_gets_what_it_was_last() -> None:
    found = forecast([5.0, 5.0, 5.0], 3)
    assert found.method == "seasonal-naive"
    assert [row[1] for row in found.values] == [5.0, 5.0, 5.0]
    assert forecast([], 3).values == ()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), max_size=130), st.integers(1, 8))
def test_quantiles_never_cross_and_everything_is_finite(series: list[float], horizon: int) -> None:
    found = forecast(series, horizon, ForecastSettings(seasons=(6, 24), floor=None))
    for row in found.values:
        assert all(np.isfinite(row))
        assert list(row) == sorted(row)
