"""The audit log: who wrote what, line by line, each sealed by the one before."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import Limit, Page, plain
from dure.api.routes.journal import Sequence
from dure.api.service import service_of
from dure.model.audit import AuditLine


@get("/v1/audit", tags=["audit"])
async def list_audit(
    request: Request[Any, Any, Any], limit: Limit = 100, after: Sequence = 0, newest: FromQuery[bool] = False
) -> Response[Page[AuditLine]]:
    """Lines of the log, oldest first. `body` is the text that was hashed; with `newest` the last `limit` lines."""
    store = service_of(request).backend.store
    lines = await asyncio.to_thread(store.list_audit, after=after, limit=limit, newest=newest)
    more = len(lines) == limit and not newest
    return plain(Page(lines, str(lines[-1].said().seq) if more else None))


HANDLERS: list[HTTPRouteHandler] = [list_audit]
