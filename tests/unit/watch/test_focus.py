"""The FOCUS export against what version 1.0 of the format says of each column: type, empty or not, allowed values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from dure.model.posting import Account, Posting
from dure.watch.focus import COLUMNS, focus_rows

HOUR = int(datetime(2026, 12, 31, 23, tzinfo=UTC).timestamp() // 3600)
DEVICE_HOUR = 3_600_000_000
SERVICES = {
    "AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools",
    "Identity", "Integration", "Internet of Things", "Management and Governance", "Media", "Migration", "Mobile",
    "Multicloud", "Networking", "Security", "Storage", "Web", "Other",
}  # fmt: skip
Judge = Callable[[str], bool]


def text(value: str) -> bool:
    return value != ""


def decimal(value: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None


def moment(value: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value) is not None


def one_of(*allowed: str) -> Judge:
    return lambda value: value in allowed


def empty(value: str) -> bool:
    return value == ""


def perhaps(judge: Judge) -> Judge:
    return lambda value: value == "" or judge(value)


def pairs(value: str) -> bool:
    return all(isinstance(found, str | int | float | bool) for found in json.loads(value).values())


# Of a charge for usage that corrects nothing, which is the only one there is here.
FORMAT: dict[str, Judge] = {
    "AvailabilityZone": perhaps(text), "BilledCost": decimal, "BillingAccountId": text,
    "BillingAccountName": perhaps(text), "BillingCurrency": lambda value: re.fullmatch("[A-Z]{3}", value) is not None,
    "BillingPeriodEnd": moment, "BillingPeriodStart": moment,
    "ChargeCategory": one_of("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "ChargeClass": perhaps(one_of("Correction")), "ChargeDescription": perhaps(text),
    "ChargeFrequency": one_of("One-Time", "Recurring", "Usage-Based"), "ChargePeriodEnd": moment,
    "ChargePeriodStart": moment, "CommitmentDiscountCategory": empty, "CommitmentDiscountId": empty,
    "CommitmentDiscountName": empty, "CommitmentDiscountStatus": empty, "CommitmentDiscountType": empty,
    "ConsumedQuantity": decimal, "ConsumedUnit": text, "ContractedCost": decimal, "ContractedUnitPrice": decimal,
    "EffectiveCost": decimal, "InvoiceIssuerName": text, "ListCost": decimal, "ListUnitPrice": decimal,
    "PricingCategory": one_of("Standard", "Dynamic", "Committed", "Other"), "PricingQuantity": decimal,
    "PricingUnit": text, "ProviderName": text, "PublisherName": text, "RegionId": perhaps(text),
    "RegionName": perhaps(text), "ResourceId": perhaps(text), "ResourceName": perhaps(text),
    "ResourceType": perhaps(text), "ServiceCategory": one_of(*SERVICES), "ServiceName": text, "SkuId": text,
    "SkuPriceId": text, "SubAccountId": perhaps(text), "SubAccountName": perhaps(text), "Tags": perhaps(pairs),
}  # fmt: skip

postings = st.builds(
    Posting,
    hour=st.integers(HOUR - 10_000, HOUR),
    cluster=st.sampled_from(("seoul", "cloud")),
    pool=st.sampled_from(("h100", "spot")),
    account=st.sampled_from(Account),
    tenant=st.sampled_from(("", "vision")),
    model=st.sampled_from(("", "chat")),
    workload=st.sampled_from(("", "train-1")),
    micros=st.integers(0, 10**13),
    carbon_mg=st.integers(0, 10**9),
    device_ms=st.sampled_from((0, 1, DEVICE_HOUR, 8 * DEVICE_HOUR)),
)


def rows(*found: Posting) -> list[dict[str, str]]:
    return list(focus_rows(found, "fleet", "KRW", {"seoul": "kr-central"}, {("cloud", "spot")}))


def test_the_columns_are_those_of_the_format() -> None:
    assert list(COLUMNS) == sorted(FORMAT)


@given(postings)
def test_every_value_is_of_its_type_allowed_and_there_where_it_must_be(one: Posting) -> None:
    for row in rows(one):
        assert list(row) == list(COLUMNS)
        assert [(name, row[name]) for name, judge in FORMAT.items() if not judge(row[name])] == []


@given(postings)
def test_what_is_paid_is_left_out_and_cost_is_quantity_times_price(one: Posting) -> None:
    found = rows(one)
    assert len(found) == (one.account is not Account.PAID)
    for row in found:
        cost, quantity, price = (Decimal(row[name]) for name in ("BilledCost", "PricingQuantity", "ListUnitPrice"))
        assert cost * 1_000_000 == one.micros
        # A price has six digits, a quantity nine; a millisecond of a device has hardly any.
        rounding = Decimal("1e-6") * (quantity + 1) + price * Decimal("1e-9")
        assert abs(cost - quantity * price) <= rounding
        assert {row[name] for name in ("EffectiveCost", "ListCost", "ContractedCost")} == {row["BilledCost"]}


@given(postings)
def test_the_hour_lies_in_its_month(one: Posting) -> None:
    for row in rows(one):
        assert (
            row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        )
        assert row["BillingPeriodStart"][8:] == row["BillingPeriodEnd"][8:] == "01T00:00:00Z"


def test_spot_is_priced_dynamically_and_what_no_device_was_held_for_by_the_hour() -> None:
    spot = Posting(HOUR, "cloud", "spot", Account.USED, "vision", "", "train-1", 5_000_000, 0, 2 * DEVICE_HOUR)
    cooling = Posting(HOUR, "seoul", "h100", Account.BUILDING, micros=7_000_000)
    (first, second) = rows(spot, cooling)
    assert (first["PricingCategory"], first["PricingUnit"], first["ListUnitPrice"]) == (
        "Dynamic", "Device-Hours", "2.500000",
    )  # fmt: skip
    assert (second["PricingCategory"], second["PricingUnit"], second["PricingQuantity"], second["ListUnitPrice"]) == (
        "Standard", "Hours", "1.000000000", "7.000000",
    )  # fmt: skip
    assert (second["SubAccountId"], second["BillingPeriodEnd"]) == ("", "2027-01-01T00:00:00Z")
