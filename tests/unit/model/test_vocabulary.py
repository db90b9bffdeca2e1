"""Units, money, reasons, tariffs: the small promises that everything else rests on."""

from __future__ import annotations

import pytest

from dure.model.bill import Bill
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary
from dure.model.money import Rates, for_duration, show
from dure.model.reason import REMEDIES, Reason, Verdict
from dure.model.tariff import Capacity, CarbonSeries, Tariff, Weekly
from dure.model.units import gib, hour_of_week


def test_a_week_begins_on_monday_at_midnight_utc() -> None:
    monday = 1_767_571_200  # 2026-01-05 00:00 UTC
    assert hour_of_week(monday) == 0
    assert hour_of_week(monday - 1) == 167
    assert hour_of_week(monday + 25 * 3600) == 25


def test_an_unknown_currency_is_an_error_and_never_one_to_one() -> None:
    rates = Rates("KRW", {"USD": 1380.0})
    assert rates.convert(1_000_000, "USD") == 1_380_000_000
    assert rates.convert(7, "KRW") == 7
    with pytest.raises(InvalidInput, match="no exchange rate from EUR"):
        rates.convert(1, "EUR")


def test_money_is_rounded_once_per_stretch() -> None:
    assert for_duration(3_600, 1.0) == 1
    assert show(412_000_000_000) == "412,000"
    assert show(1_500_000, "KRW") == "1.50 KRW"


def test_a_bill_adds_costs_and_takes_off_what_is_reused() -> None:
    bill = Bill(direct=100, energy=20, carbon=3, sla=4, rework=5, migration=6, warm_saved=30, data_saved=8)
    assert bill.total == 100
    assert bill.reuse == 38


def test_every_reason_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Reason)
    assert all(REMEDIES.values())


def test_a_verdict_says_which_two_numbers_clash() -> None:
    verdict = Verdict("seoul-a/h100", Reason.NO_CAPACITY, "40 GiB", "largest free slice in seoul-a is 20 GiB")
    assert verdict.sentence == "needs 40 GiB, largest free slice in seoul-a is 20 GiB"
    assert not verdict.ok
    assert Verdict("x").ok


def test_a_tariff_by_the_hour_of_the_week() -> None:
    night = Weekly(tuple(1 if hour % 24 < 8 else 2 for hour in range(168)))
    tariff = Tariff("c", "p", "t4", on_demand=night, spot=Weekly((1,)))
    assert night.at(1_767_571_200 + 7 * 3600) == 1
    assert night.at(1_767_571_200 + 8 * 3600) == 2
    assert tariff.capacities == (Capacity.ON_DEMAND, Capacity.SPOT)
    assert tariff.per_hour(Capacity.OWNED) is None


def test_unknown_carbon_is_none_and_never_zero() -> None:
    series = CarbonSeries("KR", 3600.0, (400.0, None))
    assert series.at(3600.0) == 400.0
    assert series.at(7200.0) is None
    assert series.at(0.0) is None


def test_memory_is_shown_in_gib() -> None:
    assert gib(18_432) == "18 GiB"
    assert gib(4_864) == "4.75 GiB"


def test_exit_codes_are_those_of_the_table() -> None:
    errors: list[type[DureError]] = [Permanent, InvalidInput, NotAllowed, NotFound, Conflict, Temporary]
    assert [error.exit_code for error in errors] == [1, 2, 3, 4, 5, 6]
