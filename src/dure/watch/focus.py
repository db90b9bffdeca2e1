"""The ledger as rows of the FinOps FOCUS format (1.0), so that billing tools read it. Pure.

One row for each hour and posting that is not on `paid`: together they are what was paid. Idle and overhead have no
sub-account, as nobody ordered them. Money is in the fleet's currency with all six digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from dure.model.posting import Account, Posting
from dure.model.units import HOUR_S

COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription",
    "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "CommitmentDiscountCategory",
    "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost",
    "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit",
    "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags",
)  # fmt: skip


def focus_rows(
    postings: Iterable[Posting], fleet: str, currency: str, regions: Mapping[str, str]
) -> Iterable[dict[str, str]]:
    """`regions` by cluster. Columns that have no meaning here are there and empty, as the format wants it."""
    for one in postings:
        if one.account is not Account.PAID:
            yield {**dict.fromkeys(COLUMNS, ""), **_row(one, fleet, currency, regions.get(one.cluster, ""))}


def _row(one: Posting, fleet: str, currency: str, region: str) -> dict[str, str]:
    cost, hours = _decimal(one.micros), f"{one.device_hours:.9f}"
    price = _decimal(round(one.micros / one.device_hours)) if one.device_hours else ""
    at = datetime.fromtimestamp(one.hour * HOUR_S, UTC)
    month = at.replace(day=1, hour=0)
    return {
        "BilledCost": cost,
        "BillingAccountId": fleet,
        "BillingAccountName": fleet,
        "BillingCurrency": currency,
        "BillingPeriodStart": _stamp(month),
        "BillingPeriodEnd": _stamp((month + timedelta(days=32)).replace(day=1)),
        "ChargeCategory": "Usage",
        "ChargeDescription": _told(one),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _stamp(at),
        "ChargePeriodEnd": _stamp(at + timedelta(hours=1)),
        "ConsumedQuantity": hours,
        "ConsumedUnit": "Device-Hours",
        "ContractedCost": cost,
        "ContractedUnitPrice": price,
        "EffectiveCost": cost,
        "InvoiceIssuerName": "Dure",
        "ListCost": cost,
        "ListUnitPrice": price,
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": "Device-Hours",
        "ProviderName": one.cluster,
        "PublisherName": "Dure",
        "RegionId": region or one.cluster,
        "RegionName": region or one.cluster,
        "ResourceId": f"{one.cluster}/{one.pool}/{one.workload or one.account}",
        "ResourceName": one.workload or f"{one.pool} {one.account}",
        "ResourceType": "Workload" if one.workload else "Pool",
        "ServiceCategory": "AI and Machine Learning" if one.workload else "Compute",
        "ServiceName": "Accelerators",
        "SkuId": one.pool,
        "SkuPriceId": f"{one.cluster}/{one.pool}",
        "SubAccountId": one.tenant,
        "SubAccountName": one.tenant,
        "Tags": json.dumps(_tags(one), sort_keys=True),
    }


def _tags(one: Posting) -> dict[str, str]:
    known = {"dure.dev/account": one.account.value, "dure.dev/carbon-g": f"{one.carbon_mg / 1000:.3f}"}
    named = {"dure.dev/model": one.model, "dure.dev/workload": one.workload, "dure.dev/tenant": one.tenant}
    return known | {name: value for name, value in named.items() if value}


def _told(one: Posting) -> str:
    if one.workload:
        return f"{one.account} by {one.workload} on {one.cluster}/{one.pool}"
    return f"{one.account} on {one.cluster}/{one.pool}"


def _decimal(micros: int) -> str:
    sign = "-" if micros < 0 else ""
    return f"{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06d}"


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
