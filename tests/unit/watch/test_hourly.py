"""A tenant's own past by the hour, out of the ledger."""

from __future__ import annotations

import pytest

from dure.model.posting import Account, Posting
from dure.watch.hourly import hourly


def used(hour: int, micros: int, model: str = "m") -> Posting:
    return Posting(hour, "seoul", "h100", Account.USED, "vision", model, "w", micros, 2000, 1_800_000_000)


def test_hours_are_summed_and_those_without_a_posting_are_nothing_used() -> None:
    assert hourly([used(10, 3), used(10, 4, "n"), used(12, 5)], 14, "cost") == (10, [7.0, 0.0, 5.0, 0.0])


def test_the_hour_under_way_is_left_out() -> None:
    assert hourly([used(10, 3), used(11, 4)], 11, "cost") == (10, [3.0])


def test_without_postings_there_is_no_past() -> None:
    assert hourly([], 11, "cost") == (11, [])
    assert hourly([used(11, 4)], 11, "cost") == (11, [])


@pytest.mark.parametrize(("figure", "value"), [("cost", 3.0), ("carbon", 2.0), ("used", 0.5)])
def test_figures_have_the_units_of_the_forecast(figure: str, value: float) -> None:
    assert hourly([used(10, 3)], 11, figure) == (10, [value])
