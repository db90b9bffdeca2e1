"""Is it alive, is it ready, what are its figures. The first two answer without a token."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CONTENT_TYPE_LATEST

import dure
from dure.api.answers import plain
from dure.api.caller import who_of
from dure.api.metrics import own_page
from dure.api.seen import own_records
from dure.api.service import service_of
from dure.model.errors import Temporary
from dure.model.who import Who


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str = dure.__version__


class LoginLink(msgspec.Struct, frozen=True):
    """`path` signs a browser in, once."""

    path: str


@get("/healthz", tags=["health"], sync_to_thread=False)
def healthz() -> Response[Health]:
    """The process answers."""
    return plain(Health("ok"))


@get("/readyz", tags=["health"])
async def readyz(request: Request[Any, Any, Any]) -> Response[Health]:
    """The store answers and the fleet has been seen; 503 before that."""
    if not await asyncio.to_thread(service_of(request).backend.ready):
        raise Temporary("Dure has not seen its fleet yet", remedy="Ask again in a few seconds.")
    return plain(Health("ready"))


@get("/metrics", tags=["health"], media_type="text/plain")
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Figures for Prometheus; who belongs to a tenant gets those of its own workloads."""
    service, who = service_of(request), who_of(request)
    if who.tenants is None:
        body = await asyncio.to_thread(service.metrics.page)
    else:
        body = own_page(await asyncio.to_thread(own_records, service.backend.store, who))
    return Response(body, headers={"content-type": CONTENT_TYPE_LATEST})


@post("/v1/login-links", tags=["health"], sync_to_thread=False)
def new_login_link(request: Request[Any, Any, Any]) -> Response[LoginLink]:
    """A path that signs a browser in, once; for `dure status --open` and for handing on to nobody else."""
    return plain(LoginLink(f"/login?code={service_of(request).keys.new_code(who_of(request).via)}"), status=201)


@get("/v1/whoami", tags=["health"], sync_to_thread=False)
def whoami(request: Request[Any, Any, Any]) -> Response[Who]:
    """Who you are here, and which role you have for which tenant; `*` is the whole fleet."""
    return plain(who_of(request))


HANDLERS: list[HTTPRouteHandler] = [healthz, readyz, metrics, new_login_link, whoami]
