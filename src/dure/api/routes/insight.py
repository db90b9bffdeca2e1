"""Anomalies with their evidence, error budgets, forecasts and drift; as JSON, or as a sheet under name.csv."""

from __future__ import annotations

import asyncio
import difflib
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import Name, NameFilter, Page, plain
from dure.api.caller import who_of
from dure.api.insight import FORESEEN, Foreseen, ServiceBudget
from dure.api.service import service_of
from dure.api.sheet import CSV, sheet
from dure.model.errors import InvalidInput, NotFound
from dure.watch.anomaly import Anomaly
from dure.watch.drift import Drift


@get("/v1/anomalies", tags=["insight"])
async def list_anomalies(request: Request[Any, Any, Any], since_s: FromQuery[float] = 0.0) -> Response[Page[Anomaly]]:
    """What did not behave as load and hour explain, newest first, with both numbers."""
    return plain(Page(await _anomalies(request, since_s)))


@get("/v1/anomalies.csv", tags=["insight"], media_type=CSV)
async def anomalies_sheet(request: Request[Any, Any, Any], since_s: FromQuery[float] = 0.0) -> Response[str]:
    return sheet(await _anomalies(request, since_s), "anomalies")


@get("/v1/slo", tags=["insight"])
async def list_budgets(request: Request[Any, Any, Any], tenant: NameFilter = None) -> Response[Page[ServiceBudget]]:
    """Error budget of every service and how fast it burns over three pairs of windows; the worst first."""
    return plain(Page(await _budgets(request, tenant)))


@get("/v1/slo.csv", tags=["insight"], media_type=CSV)
async def budgets_sheet(request: Request[Any, Any, Any], tenant: NameFilter = None) -> Response[str]:
    return sheet(await _budgets(request, tenant), "slo")


@get("/v1/forecast/{name:str}", tags=["insight"])
async def fetch_forecast(
    request: Request[Any, Any, Any], name: Name, tenant: NameFilter = None
) -> Response[Foreseen]:
    """`cost`, `carbon` or `used` of the next day by the hour, with quantiles, and the past it follows from.

    Of a tenant, from its own ledger, with `tenant`; who belongs to one gets its own without asking.
    """
    return plain(await _foreseen(request, name, tenant))


@get("/v1/forecast/{name:str}/sheet.csv", tags=["insight"], media_type=CSV)
async def forecast_sheet(request: Request[Any, Any, Any], name: Name, tenant: NameFilter = None) -> Response[str]:
    found = await _foreseen(request, name, tenant)
    rows = [{"at_s": at_s, "value": value} for at_s, value in found.past]
    ahead = [
        {"at_s": at_s, **{f"q{int(q * 100)}": value for q, value in zip(found.quantiles, values, strict=True)}}
        for at_s, values in found.ahead
    ]
    return sheet([*rows, *ahead], f"forecast-{name}", ("at_s", "value"))


@get("/v1/drift", tags=["insight"])
async def list_drift(request: Request[Any, Any, Any]) -> Response[Page[Drift]]:
    """How far predicted durations and costs are from what came, by model and class; the furthest off first."""
    return plain(Page(await asyncio.to_thread(service_of(request).insight.drifts)))


@get("/v1/drift.csv", tags=["insight"], media_type=CSV)
async def drift_sheet(request: Request[Any, Any, Any]) -> Response[str]:
    return sheet(await asyncio.to_thread(service_of(request).insight.drifts), "drift")


HANDLERS: list[HTTPRouteHandler] = [
    list_anomalies,
    anomalies_sheet,
    list_budgets,
    budgets_sheet,
    fetch_forecast,
    forecast_sheet,
    list_drift,
    drift_sheet,
]


async def _anomalies(request: Request[Any, Any, Any], since_s: float) -> tuple[Anomaly, ...]:
    found = await asyncio.to_thread(service_of(request).insight.anomalies)
    return tuple(one for one in reversed(found) if one.until_s >= since_s)


async def _budgets(request: Request[Any, Any, Any], tenant: str | None) -> tuple[ServiceBudget, ...]:
    found = await asyncio.to_thread(service_of(request).insight.budgets)
    who = who_of(request)
    return tuple(one for one in found if who.sees(one.tenant) and tenant in (None, one.tenant))


async def _foreseen(request: Request[Any, Any, Any], name: str, tenant: str | None) -> Foreseen:
    if name not in FORESEEN:
        close = difflib.get_close_matches(name, FORESEEN, n=1)
        raise NotFound(
            f"no forecast of '{name}'",
            remedy=f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(FORESEEN)}.",
        )
    return await asyncio.to_thread(service_of(request).insight.foreseen, name, await _whose(request, tenant))


async def _whose(request: Request[Any, Any, Any], tenant: str | None) -> str:
    """The tenant who is meant; empty is the whole fleet, for those who stand above tenants."""
    who = who_of(request)
    if tenant is None:
        if who.tenants is None or who.tenant:
            return who.tenant
        raise InvalidInput("you belong to several tenants", remedy=f"Name one: tenant={sorted(who.grants)[0]}")
    known = await asyncio.to_thread(service_of(request).backend.store.list_tenants)
    seen = [one.name for one in known if who.sees(one.name)]
    if tenant not in seen:
        close = difflib.get_close_matches(tenant, seen, n=1)
        raise NotFound(f"no tenant '{tenant}'", remedy=f"Did you mean '{close[0]}'?" if close else "")
    return tenant
