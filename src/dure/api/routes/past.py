"""The past: the fleet as it was at a moment, who held a device when, and every change of size."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from dure.api.answers import Limit, Name, NameFilter, Page, plain
from dure.api.caller import who_of
from dure.api.service import service_of
from dure.api.sheet import CSV, sheet
from dure.api.window import Until, bounded
from dure.model.units import DAY_S
from dure.watch.past import Change, FleetWas, Stretch
from dure.watch.queues import QueuePoint

Moment = Annotated[float, QueryParameter(ge=0, lt=1e11, description="Seconds since 1970, of the fleet's clock.")]
QUEUES_S = 2.0 * DAY_S
Begin = Annotated[
    float | None, QueryParameter(description="Seconds since 1970; two days before `until_s` without it.")
]
Step = Annotated[float, QueryParameter(ge=60, le=86_400 * 31, description="Seconds of one step.")]


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


@get("/v1/queues", tags=["past"])
async def list_queues(
    request: Request[Any, Any, Any],
    since_s: Begin = None,
    until_s: Until = None,
    step_s: Step = 1800.0,
    tenant: NameFilter = None,
) -> Response[Page[QueuePoint]]:
    """Every tenant's queue over time: how many wait, how long those who got in had waited, how many got in."""
    return plain(Page(await _queues(request, tenant, since_s, until_s, step_s)))


@get("/v1/queues.csv", tags=["past"], media_type=CSV)
async def queues_sheet(
    request: Request[Any, Any, Any],
    since_s: Begin = None,
    until_s: Until = None,
    step_s: Step = 1800.0,
    tenant: NameFilter = None,
) -> Response[str]:
    return sheet(await _queues(request, tenant, since_s, until_s, step_s), "queues", QueuePoint.__struct_fields__)


async def _queues(
    request: Request[Any, Any, Any], tenant: str | None, since_s: float | None, until_s: float | None, step_s: float
) -> tuple[QueuePoint, ...]:
    service = service_of(request)
    now_s = service.backend.now()
    end_s = now_s if until_s is None else min(until_s, now_s)
    begin_s, end_s = bounded(end_s - QUEUES_S if since_s is None else since_s, end_s)
    return await asyncio.to_thread(service.past.queues, who_of(request), tenant, begin_s, end_s, step_s)


HANDLERS: list[HTTPRouteHandler] = [
    fetch_past,
    past_sheet,
    fetch_timeline,
    timeline_sheet,
    list_changes,
    changes_sheet,
    list_queues,
    queues_sheet,
]
