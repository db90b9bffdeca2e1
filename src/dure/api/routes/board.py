"""What the first page shows, made small: the map's changes since a number, and the workloads worth a row."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from dure.api.answers import plain
from dure.api.board import Board, FleetMap, board_of, own_map
from dure.api.caller import who_of
from dure.api.seen import own_records
from dure.api.service import service_of

Seen = Annotated[int, QueryParameter(ge=0, le=2**53, description="The `number` of the answer before; 0 for all.")]
Find = Annotated[str, QueryParameter(max_length=200, description="Words of name, tenant, type or place.")]
Rows = Annotated[int, QueryParameter(ge=1, le=500)]


@get("/v1/map", tags=["fleet"])
async def fetch_map(request: Request[Any, Any, Any], since: Seen = 0) -> Response[FleetMap]:
    """Devices by pool with who holds them; only the pools that have changed since that number."""
    found = await asyncio.to_thread(service_of(request).maps.since, since)
    return plain(own_map(found, who_of(request)))


@get("/v1/board", tags=["fleet"])
async def fetch_board(request: Request[Any, Any, Any], find: Find = "", limit: Rows = 100) -> Response[Board]:
    """The newest that run and the oldest that wait, with counts of all."""
    store, who = service_of(request).backend.store, who_of(request)

    def made() -> Board:
        return board_of(own_records(store, who, ended=False), find, limit)

    return plain(await asyncio.to_thread(made))


HANDLERS: list[HTTPRouteHandler] = [fetch_map, fetch_board]
