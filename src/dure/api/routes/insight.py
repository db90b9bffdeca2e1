"""Anomalies with their evidence, error budgets, forecasts and drift; as JSON or, with `csv=true`, as a sheet."""

from __future__ import annotations

import asyncio
import difflib
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, QueryParameter

from dure.api.answers import Name, NameFilter, Page, plain
from dure.api.insight import FORESEEN, Foreseen, ServiceBudget
from dure.api.service import service_of
from dure.api.sheet import sheet
from dure.model.errors import NotFound
from dure.watch.anomaly import Anomaly
from dure.watch.drift import Drift

AsCsv = Annotated[bool, QueryParameter(description="Answer a sheet instead of JSON.")]


@get("/v1/anomalies", tags=["insight"])
async def list_anomalies(
    request: Request[Any, Any, Any], since_s: FromQuery[float] = 0.0, csv: AsCsv = False
) -> Response[Any]:
    """What did not behave as load and hour explain, newest first, with both numbers."""
    found = await asyncio.to_thread(service_of(request).insight.anomalies)
    shown: tuple[Anomaly, ...] = tuple(one for one in reversed(found) if one.until_s >= since_s)
    return sheet(shown, "anomalies") if csv else plain(Page(shown))


@get("/v1/slo", tags=["insight"])
async def list_budgets(
    request: Request[Any, Any, Any], tenant: NameFilter = None, csv: AsCsv = False
) -> Response[Any]:
    """Error budget of every service and how fast it burns over three pairs of windows; the worst first."""
    found = await asyncio.to_thread(service_of(request).insight.budgets)
    shown: tuple[ServiceBudget, ...] = tuple(one for one in found if tenant in (None, one.tenant))
    return sheet(shown, "slo") if csv else plain(Page(shown))


@get("/v1/forecast/{name:str}", tags=["insight"])
async def fetch_forecast(request: Request[Any, Any, Any], name: Name, csv: AsCsv = False) -> Response[Any]:
    """`cost`, `carbon` or `used` of the next day by the hour, with quantiles, and the past it follows from."""
    if name not in FORESEEN:
        close = difflib.get_close_matches(name, FORESEEN, n=1)
        raise NotFound(
            f"no forecast of '{name}'",
            remedy=f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(FORESEEN)}.",
        )
    found: Foreseen = await asyncio.to_thread(service_of(request).insight.foreseen, name)
    if not csv:
        return plain(found)
    rows = [{"at_s": at_s, "value": value} for at_s, value in found.past]
    ahead = [
        {"at_s": at_s, **{f"q{int(q * 100)}": value for q, value in zip(found.quantiles, values, strict=True)}}
        for at_s, values in found.ahead
    ]
    return sheet([*rows, *ahead], f"forecast-{name}")


@get("/v1/drift", tags=["insight"])
async def list_drift(request: Request[Any, Any, Any], csv: AsCsv = False) -> Response[Any]:
    """How far predicted durations and costs are from what came, by model and class; the furthest off first."""
    found: tuple[Drift, ...] = await asyncio.to_thread(service_of(request).insight.drifts)
    return sheet(found, "drift") if csv else plain(Page(found))


HANDLERS: list[HTTPRouteHandler] = [list_anomalies, list_budgets, fetch_forecast, list_drift]
