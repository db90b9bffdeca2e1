"""Prices that follow the clock: the more particular wins, and local hours become UTC ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.files.hours import Hourly, standard_hours, to_local, to_utc
from dure.files.quantities import PRICE_HOUR
from dure.files.reading import Reading
from dure.files.shapes import Quantity
from dure.files.yaml import from_plain
from dure.model.tariff import Weekly
from dure.model.units import MICROS
from tests.unit.files.strategies import ZONES, weeklies


def weekly(data: object) -> list[int]:
    """Whole units by local hour of the week."""
    value = from_plain(data, "test")
    into = Reading("test", value)
    made = Hourly(Quantity(PRICE_HOUR)).read(value, "price", into)
    assert into.problems == []
    return [price // MICROS for price in made.values]


def test_one_value_is_one_value() -> None:
    assert weekly("5/h") == [5]
    assert weekly({"default": "5/h", "sunday": "5/h"}) == [5]


def test_the_more_particular_key_wins() -> None:
    hours = weekly({"sunday": "4/h", "weekend": "3/h", "daily": {"22-8": "2/h"}, "default": "1/h"})
    assert hours[0:24] == [2] * 8 + [1] * 14 + [2] * 2
    assert hours[5 * 24 : 6 * 24] == [3] * 24
    assert hours[6 * 24 :] == [4] * 24


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC", 0), ("Asia/Seoul", 9), ("America/Los_Angeles", -8), ("Asia/Kolkata", 5), ("Pacific/Auckland", 12)],
)
def test_zones_are_taken_by_their_standard_time(zone: str, hours: int) -> None:
    assert standard_hours(zone) == hours


def test_nine_in_seoul_is_midnight_in_utc() -> None:
    local = Weekly(tuple(range(168)))
    assert to_utc(local, "Asia/Seoul").values[0] == 9
    assert to_utc(local, "America/Los_Angeles").values[8] == 0


@given(weeklies(), st.sampled_from(ZONES))
def test_local_is_the_inverse_of_utc(prices: Weekly, zone: str) -> None:
    assert to_local(to_utc(prices, zone), zone) == prices
