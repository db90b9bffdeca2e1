"""The ledger for other people's tools: rows of FOCUS, and allocations as OpenCost tells them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import NameFilter, plain
from dure.api.caller import who_of
from dure.api.routes.ledger import postings
from dure.api.service import service_of
from dure.api.sheet import CSV, sheet
from dure.api.window import Since, Until, duration_s, window_of
from dure.api.window import window as bounds
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S
from dure.watch.allocation import allocations
from dure.watch.focus import COLUMNS, focus_rows


class Allocations(msgspec.Struct, frozen=True):
    """One set for each step of the window."""

    data: tuple[dict[str, dict[str, Any]], ...]
    code: int = 200
    status: str = "success"


@get("/v1/focus.csv", tags=["ledger"], media_type=CSV)
async def fetch_focus(
    request: Request[Any, Any, Any], since_s: Since = None, until_s: Until = None, tenant: NameFilter = None
) -> Response[str]:
    """The ledger in the FinOps FOCUS format (1.0), as CSV: one row for each hour and line."""
    service = service_of(request)
    found = await asyncio.to_thread(postings, service, who_of(request), *bounds(service, since_s, until_s), tenant)
    fleet = service.backend.fleet()
    regions = {one.info.name: one.info.region for one in fleet.clusters}
    spot = {
        (one.info.name, pool.name) for one in fleet.clusters for pool in one.pools if pool.capacity is Capacity.SPOT
    }
    return sheet(focus_rows(found, fleet.name, fleet.currency, regions, spot), "focus", COLUMNS)


@get(["/allocation", "/allocation/compute"], tags=["ledger"])
async def fetch_allocation(
    request: Request[Any, Any, Any],
    window: FromQuery[str] = "7d",
    aggregate: FromQuery[str] = "namespace",
    step: FromQuery[str] = "",
    accumulate: FromQuery[bool] = False,
    includeIdle: FromQuery[bool] = True,  # noqa: N803  # its name at OpenCost
) -> Response[Allocations]:
    """Allocations as OpenCost's API tells them, for tools that read it. A tenant is a namespace."""
    service = service_of(request)
    begin_s, end_s = window_of(window, service.backend.now())
    found = await asyncio.to_thread(postings, service, who_of(request), begin_s, end_s)
    fields = [part for part in aggregate.split(",") if part]
    size_s = end_s - begin_s if accumulate or not step else duration_s(step)
    sets = []
    at_s = begin_s
    while at_s < end_s:
        until_s = min(end_s, at_s + size_s)
        mine = [one for one in found if at_s <= one.hour * HOUR_S < until_s]
        sets.append(allocations(mine, fields, at_s, until_s, idle=includeIdle))
        at_s = until_s
    return plain(Allocations(tuple(sets)))


HANDLERS: list[HTTPRouteHandler] = [fetch_focus, fetch_allocation]
