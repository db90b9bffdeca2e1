"""Documents: apply them, show what applying them would change, and their JSON Schemas for editors."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler

from dure.api.answers import Name, one, plain
from dure.api.apply import apply, diff
from dure.api.caller import who_of
from dure.api.documents import DOCUMENTS_BODY, documented, read_documents
from dure.api.routes.workloads import Key
from dure.api.service import service_of
from dure.files.kind import KINDS
from dure.files.schema import schema
from dure.model.answer import Applied
from dure.model.errors import NotFound


@post("/v1/apply", tags=["documents"], status_code=200, operation_class=documented(DOCUMENTS_BODY))
async def apply_documents(request: Request[Any, Any, Any], key: Key = "") -> Response[Applied]:
    """Create or change tenants and policies, submit workloads. The same documents again change nothing."""
    backend = service_of(request).backend
    documents = await read_documents(request, backend)
    return plain(await asyncio.to_thread(apply, backend, documents, key, who_of(request)))


@post("/v1/diff", tags=["documents"], status_code=200, operation_class=documented(DOCUMENTS_BODY))
async def diff_documents(request: Request[Any, Any, Any]) -> Response[Applied]:
    """What `/v1/apply` would do with these documents. Nothing is changed."""
    backend = service_of(request).backend
    documents = await read_documents(request, backend)
    return plain(await asyncio.to_thread(diff, backend, documents, who_of(request)))


@get("/v1/schemas/{kind:str}", tags=["documents"], sync_to_thread=False)
def fetch_schema(request: Request[Any, Any, Any], kind: Name) -> Response[dict[str, Any]]:
    """The JSON Schema of one kind of document."""
    known = {name.lower(): name for name in KINDS}
    if kind.lower() not in known:
        raise NotFound(f"no kind '{kind}'", remedy=f"Kinds: {', '.join(sorted(KINDS))}")
    return one(request, schema(known[kind.lower()]))


HANDLERS: list[HTTPRouteHandler] = [apply_documents, diff_documents, fetch_schema]
