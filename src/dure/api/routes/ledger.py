"""The double-entry ledger: sums by what one asks for, its balance, and what was paid for and used by nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from dure.api.answers import NameFilter, Page, plain
from dure.api.caller import who_of
from dure.api.service import Service, service_of
from dure.api.sheet import CSV, sheet
from dure.api.window import Since, Until, window
from dure.model.errors import InvalidInput
from dure.model.posting import Account, Posting, added
from dure.model.units import HOUR_S, Grams, Instant, Micros
from dure.model.who import Who
from dure.watch.books import imbalances
from dure.watch.waste import Waste, waste

BY = ("hour", "day", "cluster", "pool", "account", "group", "tenant", "model", "workload")

By = Annotated[str, QueryParameter(max_length=100, description=f"Any of {', '.join(BY)}, with commas.")]


class LedgerRow(msgspec.Struct, frozen=True):
    """The sums of one combination of the fields in `by`."""

    by: dict[str, str]
    micros: Micros
    carbon_g: Grams
    device_hours: float
    energy_kwh: float
    unknown_kwh: float


class Ledger(msgspec.Struct, frozen=True):
    """`paid` = `used` + `idle` + `overhead`, exactly; `imbalances` counts the hours and pools where not."""

    since_s: Instant
    until_s: Instant
    currency: str
    paid_micros: Micros
    used_micros: Micros
    idle_micros: Micros
    overhead_micros: Micros
    imbalances: int
    items: tuple[LedgerRow, ...]


@get("/v1/ledger", tags=["ledger"])
async def fetch_ledger(
    request: Request[Any, Any, Any],
    by: By = "tenant,account",
    since_s: Since = None,
    until_s: Until = None,
    tenant: NameFilter = None,
    cluster: NameFilter = None,
) -> Response[Ledger]:
    """Where the money and the carbon went. Both sides stand on it: leave out the account `paid` before you add up."""
    service, fields = service_of(request), fields_of(by)
    begin_s, end_s = window(service, since_s, until_s)
    who = who_of(request)
    found = await asyncio.to_thread(postings, service, who, begin_s, end_s, tenant, cluster)
    groups = Counter[str]()
    for one in found:
        groups[one.account.group] += one.micros
    return plain(
        Ledger(
            since_s=begin_s,
            until_s=end_s,
            currency=service.backend.fleet().currency,
            paid_micros=groups["paid"],
            used_micros=groups["used"],
            idle_micros=groups["idle"],
            overhead_micros=groups["overhead"],
            # One tenant's lines have no other side.
            imbalances=0 if tenant or who.tenants is not None else len(imbalances(found)),
            items=_rows(found, fields),
        )
    )


@get("/v1/ledger.csv", tags=["ledger"], media_type=CSV)
async def ledger_sheet(
    request: Request[Any, Any, Any],
    by: By = "tenant,account",
    since_s: Since = None,
    until_s: Until = None,
    tenant: NameFilter = None,
    cluster: NameFilter = None,
) -> Response[str]:
    service, fields, who = service_of(request), fields_of(by), who_of(request)
    found = await asyncio.to_thread(postings, service, who, *window(service, since_s, until_s), tenant, cluster)
    return sheet([{**row.by, **_figures(row)} for row in _rows(found, fields)], "ledger", fields)


@get("/v1/waste", tags=["ledger"])
async def list_waste(
    request: Request[Any, Any, Any], since_s: Since = None, until_s: Until = None
) -> Response[Page[Waste]]:
    """What was paid for and used by nobody, by pool and cause, the dearest first, with what to do about it."""
    return plain(Page(await _waste(request, since_s, until_s)))


@get("/v1/waste.csv", tags=["ledger"], media_type=CSV)
async def waste_sheet(request: Request[Any, Any, Any], since_s: Since = None, until_s: Until = None) -> Response[str]:
    return sheet(await _waste(request, since_s, until_s), "waste")


HANDLERS: list[HTTPRouteHandler] = [fetch_ledger, ledger_sheet, list_waste, waste_sheet]


def fields_of(by: str) -> tuple[str, ...]:
    fields = tuple(part.strip() for part in by.split(",") if part.strip())
    for field in fields:
        if field not in BY:
            raise InvalidInput(f"cannot sum by '{field}'", remedy=f"Any of: {', '.join(BY)}")
    return fields


async def _waste(
    request: Request[Any, Any, Any], since_s: Instant | None, until_s: Instant | None
) -> tuple[Waste, ...]:
    service = service_of(request)
    bounds = window(service, since_s, until_s)
    return waste(await asyncio.to_thread(postings, service, who_of(request), *bounds))


def postings(
    service: Service,
    who: Who,
    begin_s: Instant,
    end_s: Instant,
    tenant: str | None = None,
    cluster: str | None = None,
) -> tuple[Posting, ...]:
    """Of the caller's tenants; what nobody used is shown to who stands above tenants only."""
    until_hour = int(-(-end_s // HOUR_S))
    found = service.backend.store.list_ledger(int(begin_s // HOUR_S), until_hour, tenant=tenant, cluster=cluster)
    return found if who.tenants is None else tuple(one for one in found if who.sees(one.tenant))


def _rows(found: tuple[Posting, ...], fields: tuple[str, ...]) -> tuple[LedgerRow, ...]:
    sums: dict[tuple[str, ...], Posting] = {}
    for one in found:
        key = tuple(_field(one, field) for field in fields)
        before = sums.get(key)
        sums[key] = one if before is None else added(before, one)
    return tuple(
        LedgerRow(
            dict(zip(fields, key, strict=True)), one.micros, one.carbon_mg / 1000, one.device_hours,
            one.energy_mwh / 1e6, one.unknown_mwh / 1e6,
        )
        for key, one in sorted(sums.items())
    )  # fmt: skip


def _field(one: Posting, field: str) -> str:
    match field:
        case "day":
            return datetime.fromtimestamp(one.hour * HOUR_S, UTC).date().isoformat()
        case "hour":
            return datetime.fromtimestamp(one.hour * HOUR_S, UTC).strftime("%Y-%m-%dT%H:00Z")
        case "group":
            return one.account.group
        case "account":
            return Account(one.account).value
        case _:
            return str(getattr(one, field))


def _figures(row: LedgerRow) -> dict[str, float]:
    return {
        "micros": row.micros,
        "carbon_g": row.carbon_g,
        "device_hours": row.device_hours,
        "energy_kwh": row.energy_kwh,
        "unknown_kwh": row.unknown_kwh,
    }
