"""API tokens: make, list, rotate, revoke. A secret is in the answer that made it and nowhere else."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from litestar import Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter

from dure.api.answers import After, Limit, Name, Page, page, plain
from dure.api.caller import who_of
from dure.api.service import Service, service_of
from dure.model.token import TokenView, TokenWish
from dure.plane import tokens

Grace = Annotated[float, QueryParameter(ge=0, le=tokens.LONGEST_GRACE_S, description="Seconds the old one works on.")]


@get("/v1/tokens", tags=["tokens"])
async def list_tokens(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None
) -> Response[Page[TokenView]]:
    """Tokens of the tenants that you administer, ended ones too; never their secrets."""
    found = await asyncio.to_thread(tokens.list_seen, service_of(request).backend.store, who_of(request))
    return page(found, limit, after, lambda token: token.id)


@post("/v1/tokens", tags=["tokens"])
async def create_token(request: Request[Any, Any, Any], data: JSONBody[TokenWish]) -> Response[TokenView]:
    """A new token. Its `secret` is shown in this answer only."""
    service = service_of(request)
    made = await asyncio.to_thread(tokens.create, service.backend.store, data, who_of(request), time.time())
    return _told(service, made, 201)


@post("/v1/tokens/{name:str}/rotate", tags=["tokens"], status_code=200)
async def rotate_token(request: Request[Any, Any, Any], name: Name, grace_s: Grace = 0.0) -> Response[TokenView]:
    """A new secret for the same token, by id or name; the old one works on for `grace_s`."""
    service = service_of(request)
    turned = await asyncio.to_thread(
        tokens.rotate, service.backend.store, name, who_of(request), time.time(), grace_s
    )
    return _told(service, turned, 200)


@delete("/v1/tokens/{name:str}", tags=["tokens"], status_code=200)
async def revoke_token(request: Request[Any, Any, Any], name: Name) -> Response[TokenView]:
    """It opens nothing any more, and the sessions that it opened end."""
    service = service_of(request)
    ended = await asyncio.to_thread(tokens.revoke, service.backend.store, name, who_of(request), time.time())
    return _told(service, ended, 200)


def _told(service: Service, token: TokenView, status: int) -> Response[TokenView]:
    service.people.forget()
    return plain(token, status=status)


HANDLERS: list[HTTPRouteHandler] = [list_tokens, create_token, rotate_token, revoke_token]
