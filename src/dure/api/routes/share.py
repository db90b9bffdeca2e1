"""Shared devices: which there are, how one stands, its squads and timeline; its policy and people's words.

The paths are those of a device daemon's own door, with `device` to say which; without it the server shows one.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter

from dure.api.answers import After, Limit, Page, page, plain
from dure.api.backend import Shares
from dure.api.caller import who_of
from dure.api.service import service_of
from dure.device.board import Feedback, Moved, PolicyChange, ShareStatus, ShareView, Squads, Timeline
from dure.model.errors import NotFound

DeviceName = Annotated[
    str | None, QueryParameter(max_length=253, description="`cluster/device`; without it the server chooses one.")
]
Window = Annotated[float, QueryParameter(ge=1.0, le=60_000.0, description="Milliseconds of the device's own time.")]
Number = Annotated[int, QueryParameter(ge=0, le=2**53, description="Only squads with a higher number.")]


@get("/v1/share/devices", tags=["share"])
async def list_shared(
    request: Request[Any, Any, Any], limit: Limit = 1000, after: After = None
) -> Response[Page[ShareStatus]]:
    """Every device of the fleet that runs squads of several tenants."""
    found = await asyncio.to_thread(_shares(request).list_devices)
    return page(found, limit, after, lambda status: status.device)


@get("/v1/share/status", tags=["share"])
async def fetch_share(request: Request[Any, Any, Any], device: DeviceName = None) -> Response[ShareStatus]:
    """Policy, tenants, targets, weights, attainment and risk of one device."""
    return plain(await asyncio.to_thread(_shares(request).fetch_status, device))


@put("/v1/share/policy", tags=["share"])
async def put_share_policy(
    request: Request[Any, Any, Any], data: JSONBody[PolicyChange], device: DeviceName = None
) -> Response[ShareStatus]:
    """Use another policy, or `auto`, from the next squad on; nothing in flight is lost."""
    return plain(await asyncio.to_thread(_shares(request).set_policy, data.policy, device))


@get("/v1/share/squads", tags=["share"])
async def list_squads(
    request: Request[Any, Any, Any], after: Number = 0, device: DeviceName = None
) -> Response[Squads]:
    """The latest squads: who ran together, how many segments, how many partitions."""
    return plain(await asyncio.to_thread(_shares(request).fetch_squads, after, device))


@get("/v1/share/timeline", tags=["share"])
async def fetch_timeline(
    request: Request[Any, Any, Any], window: Window = 200.0, device: DeviceName = None
) -> Response[Timeline]:
    """What ran when on which part of the device, where it idled though there was work, weights over time."""
    return plain(await asyncio.to_thread(_shares(request).fetch_timeline, window, device))


@get("/v1/share/view", tags=["share"])
async def fetch_view(
    request: Request[Any, Any, Any], window: Window = 200.0, device: DeviceName = None
) -> Response[ShareView]:
    """What the dashboard shows: the names of all shared devices, status and timeline of one."""
    shares = service_of(request).shares
    # A shared device shows everybody who runs on it.
    if shares is None or who_of(request).tenants is not None:
        return plain(ShareView())
    return plain(await asyncio.to_thread(shares.fetch_view, window, device))


@post("/v1/share/feedback", tags=["share"], status_code=200)
async def post_feedback(
    request: Request[Any, Any, Any], data: JSONBody[Feedback], device: DeviceName = None
) -> Response[Moved]:
    """Take a tenant's word about its speed: moves its latency target within limits, for an hour."""
    return plain(await asyncio.to_thread(_shares(request).say, data, device))


def _shares(request: Request[Any, Any, Any]) -> Shares:
    found = service_of(request).shares
    if found is None:
        raise NotFound(
            "this server runs no shared devices", remedy="Ask a device daemon: dure share status --device SOCKET"
        )
    return found


HANDLERS: list[HTTPRouteHandler] = [
    list_shared,
    fetch_share,
    put_share_policy,
    list_squads,
    fetch_timeline,
    fetch_view,
    post_feedback,
]
