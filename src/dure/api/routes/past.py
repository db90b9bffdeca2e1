"""The past: the fleet as it was at a moment, who held a device when, and every change of size."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from dure.api.answers import Limit, Name, Page, plain
from dure.api.service import service_of
from dure.api.sheet import CSV, sheet
from dure.watch.past import Change, FleetWas, Stretch

Moment = Annotated[float, QueryParameter(ge=0, lt=1e11, description="Seconds since 1970, of the fleet's clock.")]


@get("/v1/past", tags=["past"])
async def fetch_past(request: Request[Any, Any, Any], at_s: Moment) -> Response[FleetWas]:
    """What ran where and what waited then, from the journal."""
    return plain(await asyncio.to_thread(service_of(request).past.fleet_at, at_s))


@get("/v1/past.csv", tags=["past"], media_type=CSV)
async def past_sheet(request: Request[Any, Any, Any], at_s: Moment) -> Response[str]:
    found = await asyncio.to_thread(service_of(request).past.fleet_at, at_s)
    return sheet((*found.running, *found.waiting), "past")


@get("/v1/clusters/{cluster:str}/devices/{device:str}/timeline", tags=["past"])
async def fetch_timeline(request: Request[Any, Any, Any], cluster: Name, device: Name) -> Response[Page[Stretch]]:
    """Who held this device when, oldest first."""
    return plain(Page(await asyncio.to_thread(service_of(request).past.held_by, cluster, device)))


@get("/v1/clusters/{cluster:str}/devices/{device:str}/timeline.csv", tags=["past"], media_type=CSV)
async def timeline_sheet(request: Request[Any, Any, Any], cluster: Name, device: Name) -> Response[str]:
    return sheet(await asyncio.to_thread(service_of(request).past.held_by, cluster, device), f"device-{device}")


@get("/v1/changes", tags=["past"])
async def list_changes(request: Request[Any, Any, Any], limit: Limit = 200) -> Response[Page[Change]]:
    """Decisions about sizes, newest first: nodes, replicas, devices that change hands."""
    return plain(Page(await asyncio.to_thread(service_of(request).past.changes, limit)))


@get("/v1/changes.csv", tags=["past"], media_type=CSV)
async def changes_sheet(request: Request[Any, Any, Any], limit: Limit = 200) -> Response[str]:
    return sheet(await asyncio.to_thread(service_of(request).past.changes, limit), "changes")


HANDLERS: list[HTTPRouteHandler] = [
    fetch_past,
    past_sheet,
    fetch_timeline,
    timeline_sheet,
    list_changes,
    changes_sheet,
]
