"""The versions of a policy: read them all, go back to an earlier one."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import Name, plain
from dure.api.caller import who_of
from dure.api.service import service_of
from dure.model.policy import Policy
from dure.plane import policies


@get("/v1/policies/{name:str}/history", tags=["fleet"])
async def fetch_history(request: Request[Any, Any, Any], name: Name) -> Response[list[Policy]]:
    """Every version of a policy, oldest first."""
    store = service_of(request).backend.store
    return plain(list(await asyncio.to_thread(policies.history, store, name)))


@post("/v1/policies/{name:str}/rollback", tags=["fleet"], status_code=200)
async def roll_back(
    request: Request[Any, Any, Any], name: Name, version: FromQuery[int | None] = None
) -> Response[Policy]:
    """An earlier version again, as a new one; without `version` the one before the present."""
    backend, by = service_of(request).backend, who_of(request).name
    return plain(await asyncio.to_thread(policies.rollback, backend.store, name, version, backend.now(), by))


HANDLERS: list[HTTPRouteHandler] = [fetch_history, roll_back]
