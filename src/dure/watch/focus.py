"""The ledger as rows of the FinOps FOCUS format (1.0), so that billing tools read it. Pure.

One row for each hour and posting that is not on `paid`: together they are what was paid. Idle and overhead have no
sub-account, as nobody ordered them. Money is in the fleet's currency with all six digits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
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
    postings: Iterable[Posting],
    fleet: str,
    currency: str,
    regions: Mapping[str, str],
    spot: Collection[tuple[str, str]] = (),
) -> Iterable[dict[str, str]]:
    """`regions` by cluster; `spot` are the pools (cluster, name) whose price may change without notice.

    Columns that have no meaning here are there and empty, as the format wants it.
    """
    for one in postings:
        if one.account is not Account.PAID:
            pricing = "Dynamic" if (one.cluster, one.pool) in spot else "Standard"
            row = _row(one, fleet, currency, regions.get(one.cluster, ""))
            yield {**dict.fromkeys(COLUMNS, ""), **row, **_amount(one), "PricingCategory": pricing}


def _amount(one: Posting) -> dict[str, str]:
    """Quantity x unit price is the cost. What no device was held for, such as cooling, is paid by the hour."""
    quantity, unit = (one.device_hours, "Device-Hours") if one.device_ms else (1.0, "Hours")
    price = _decimal(round(one.micros / quantity))
    return {
        "ConsumedQuantity": f"{quantity:.9f}",
        "ConsumedUnit": unit,
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingQuantity": f"{quantity:.9f}",
        "PricingUnit": unit,
    }


def _row(one: Posting, fleet: str, currency: str, region: str) -> dict[str, str]:
    cost = _decimal(one.micros)
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
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "InvoiceIssuerName": "Dure",
        "ListCost": cost,
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
