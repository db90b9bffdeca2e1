"""Anomalies: what load explains is none, what it does not explain is, and calm series stay silent."""

from __future__ import annotations

import numpy as np
import pytest

from dure.watch.anomaly import Watched, detect

STEPS, DAY = 2880, 288
WATCHED = (
    Watched("d/load", "d", tested=False),
    Watched("d/power", "d", ("d/load",)),
    Watched("d/latency", "d", ("d/load",)),
)


def device(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    load = 0.45 + 0.3 * np.sin(np.arange(STEPS) * 2 * np.pi / DAY) + 0.02 * rng.normal(size=STEPS)
    power = 70 + 300 * load + 3 * rng.normal(size=STEPS)
    latency = 100 * (1 + load**2) * np.exp(0.03 * rng.normal(size=STEPS))
    return np.arange(STEPS) * 300.0, np.stack([load, power, latency], axis=1)


@pytest.mark.parametrize("seed", range(4))
def test_ten_quiet_days_give_no_alarm(seed: int) -> None:
    times, values = device(seed)
    assert detect(times, values, WATCHED) == ()


def test_a_burst_of_load_that_explains_itself_is_no_alarm() -> None:
    times, values = device(5)
    rng = np.random.default_rng(9)
    for begin in (400, 900, 2300):
        part = slice(begin, begin + 20)
        values[part, 0] = 0.72
        values[part, 1] = 70 + 300 * 0.72 + 3 * rng.normal(size=20)
        values[part, 2] = 100 * (1 + 0.72**2) * np.exp(0.03 * rng.normal(size=20))
    assert detect(times, values, WATCHED) == ()


def test_slowness_without_load_is_found_with_both_numbers() -> None:
    times, values = device(6)
    values[2000:2020, 2] *= 1.35
    (found,) = detect(times, values, WATCHED)
    assert found.series == "d/latency"
    assert found.since_s <= 2004 * 300 <= found.until_s
    assert found.value > 1.2 * found.expected
    assert "above" in found.evidence


def test_one_wild_step_is_no_alarm() -> None:
    times, values = device(7)
    values[2000, 2] *= 4
    assert detect(times, values, WATCHED) == ()


def test_a_small_shift_that_lasts_is_found() -> None:
    times, values = device(8)
    values[2200:2320, 1] += 6.0
    found = detect(times, values, WATCHED)
    assert any(one.series == "d/power" and one.until_s >= 2210 * 300 for one in found)


def test_faults_in_the_quiet_past_do_not_blind_it() -> None:
    times, values = device(9)
    values[500:530, 2] *= 2.0
    values[2000:2020, 2] *= 1.35
    assert [one.series for one in detect(times, values, WATCHED)] == ["d/latency"]


def test_gaps_and_short_series_are_borne() -> None:
    times, values = device(10)
    values[100:160] = np.nan
    assert detect(times, values, WATCHED) == ()
    assert detect(times[:10], values[:10], WATCHED) == ()


def test_the_same_figures_give_the_same_answer() -> None:
    times, values = device(11)
    values[2000:2020, 2] *= 1.5
    assert detect(times, values, WATCHED) == detect(times, values.copy(), WATCHED)
