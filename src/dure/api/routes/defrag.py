"""Defragmentation on a wish: ask the agents for plans, or to carry them out, and read what became of it."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import NameFilter, Page, plain
from dure.api.service import service_of
from dure.model.defrag import DefragAnswer
from dure.plane import defrag


@post("/v1/defrag", tags=["fleet"], status_code=202)
async def ask_defrag(
    request: Request[Any, Any, Any], cluster: NameFilter = None, apply: FromQuery[bool] = False
) -> Response[Page[DefragAnswer]]:
    """Ask every cluster, or one, for the moves that bring its free devices together; `apply` has them made.

    The agents answer in their next turns; read it with GET. While a cluster carries a plan out, no other is made.
    """
    backend = service_of(request).backend
    found = await asyncio.to_thread(defrag.ask, backend.store, backend.fleet(), backend.now(), cluster, apply)
    return plain(Page(found), status=202)


@get("/v1/defrag", tags=["fleet"])
async def list_defrag(request: Request[Any, Any, Any], cluster: NameFilter = None) -> Response[Page[DefragAnswer]]:
    """What became of the newest wish of each cluster: the plan, what it frees and costs, how far it is."""
    backend = service_of(request).backend
    return plain(Page(await asyncio.to_thread(defrag.answers, backend.store, backend.fleet(), cluster)))


HANDLERS: list[HTTPRouteHandler] = [ask_defrag, list_defrag]
