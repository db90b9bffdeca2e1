"""Numbers with units: exact both ways, and errors that name what is allowed."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dure.files import quantities as q


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (q.MEMORY, "18GiB", 18 * 1024),
        (q.MEMORY, "4.75 GiB", 4864),
        (q.MEMORY, "2TiB", 2 * 1024 * 1024),
        (q.MEMORY, "512Mi", 512),
        (q.SHARE, "50%", 500),
        (q.SHARE, "12.5%", 125),
        (q.FRACTION, "99.9%", 0.999),
        (q.HOURLY_CHANCE, "4%/h", 0.04),
        (q.DURATION, "3h", 10_800.0),
        (q.DURATION, "90s", 90.0),
        (q.DURATION, "2d", 172_800.0),
        (q.DURATION, "250ms", 0.25),
        (q.MILLISECONDS, "400ms", 400.0),
        (q.MILLISECONDS, "2s", 2000.0),
        (q.RATE, "12/s", 12.0),
        (q.RATE, "720/min", 12.0),
        (q.RATE, "1.5k/s", 1500.0),
        (q.CORES, 8, 8000),
        (q.CORES, 0.5, 500),
        (q.CORES, "500m", 500),
        (q.PRICE_HOUR, "2100/h", 2_100_000_000),
        (q.PRICE_HOUR, "0.123456/h", 123_456),
        (q.PRICE_KWH, "140/kWh", 140_000_000),
        (q.PRICE_KWH, "140000/MWh", 140_000_000),
        (q.PRICE_CARBON, "90000/tCO2e", 90_000_000),
        (q.PRICE_CARBON, "90/kgCO2e", 90_000_000),
        (q.MONEY_MONTH, "40M/month", 40_000_000_000_000),
        (q.CARBON_MONTH, "2t/month", 2_000_000.0),
        (q.POWER, "1.2kW", 1200.0),
    ],
)
def test_quantities_are_read_exactly(unit: q.Unit, text: object, value: float) -> None:
    assert unit.read(text) == value


@pytest.mark.parametrize(
    ("unit", "text", "words"),
    [
        (q.MEMORY, "18GB", "the unit 'GB' is not one of memory; allowed: GiB, MiB, TiB, Gi, Mi, Ti"),
        (q.MEMORY, 18, "memory needs a unit; allowed: GiB"),
        (q.SHARE, 0.5, "a share of a device needs a unit; allowed: %"),
        (q.SHARE, "33.33%", "too fine: the smallest step is 0.1%"),
        (q.DURATION, "3 weeks", "the unit 'weeks' is not one of a duration; allowed: s, ms, min, m, h, d"),
        (q.PRICE_HOUR, "2100/d", "the unit '/d' is not one of a price per device and hour; allowed: /h"),
        (q.PRICE_HOUR, "0.0000001/h", "too fine: the smallest step is 0.000001/h"),
        (q.PRICE_HOUR, "-5/h", "may not be negative"),
        (q.PRICE_HOUR, True, "is written like 2100/h"),
        (q.FRACTION, "101%", "too much: at most 100%"),
        (q.DURATION, "soon", "a duration is written like 3h"),
        (q.DURATION, "٣h", "a duration is written like 3h"),
        (q.CORES, -1, "CPU cores may not be negative"),
        (q.MONEY_MONTH, "9" * 59, "needs a unit"),
        (q.MONEY_MONTH, "9" * 50 + "/month", "too much"),
        (q.MONEY_MONTH, "9" * 500, "is written like 40M/month"),
    ],
)
def test_a_wrong_quantity_is_told_what_is_allowed(unit: q.Unit, text: object, words: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        unit.read(text)
    assert words in str(caught.value)


WHOLE = [q.MEMORY, q.SHARE, q.CORES, q.PRICE_HOUR, q.PRICE_KWH, q.PRICE_GIB, q.PRICE_CARBON, q.MONEY_MONTH]
REAL = [q.DURATION, q.MILLISECONDS, q.RATE, q.POWER, q.BANDWIDTH, q.CARBON_MONTH]


@given(st.sampled_from(WHOLE), st.integers(0, 10**17))
def test_whole_quantities_survive_being_written(unit: q.Unit, value: int) -> None:
    assert unit.read(unit.write(value)) == value


@given(st.sampled_from(REAL), st.floats(0, 1e15, allow_subnormal=False).filter(lambda x: x == 0 or x > 1e-9))
def test_real_quantities_survive_being_written(unit: q.Unit, value: float) -> None:
    assert unit.read(unit.write(value)) == value


@given(st.sampled_from([q.FRACTION, q.HOURLY_CHANCE]), st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-9))
def test_percentages_survive_being_written(unit: q.Unit, value: float) -> None:
    assert unit.read(unit.write(value)) == value


@example(float("nan"))
@example(float("inf"))
@given(st.text(max_size=80) | st.integers() | st.floats() | st.none() | st.booleans())
def test_nothing_but_value_error_leaves_a_unit(found: object) -> None:
    for unit in (*WHOLE, *REAL, q.FRACTION, q.HOURLY_CHANCE):
        with contextlib.suppress(ValueError):
            assert unit.read(found) >= 0
