"""Signing in with an identity provider. One attempt lives in a signed cookie, so that any replica can finish it.

The person then has the roles that tenants give to their name (`roles:` of a Tenant), and none if there are none.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from dure.api.login import refused_page, welcome
from dure.api.people import OIDC
from dure.api.service import service_of
from dure.model.errors import NotAllowed, NotFound

ATTEMPT_S = 600
COOKIE = "dure_sso"
START, BACK = "/login/sso", "/login/sso/back"


@get(START, include_in_schema=False)
async def begin(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Send the browser to the provider."""
    relying = _relying(request)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    url = await asyncio.to_thread(relying.authorization_url, _redirect(request), state, nonce, verifier)
    body = f"{int(time.time()) + ATTEMPT_S}.{state}.{nonce}.{verifier}"
    answer = Response(b"", status_code=303, headers={"location": url}, media_type="text/plain")
    answer.set_cookie(
        key=COOKIE,
        value=f"{body}.{service_of(request).keys.sign('sso', body)}",
        max_age=ATTEMPT_S,
        httponly=True,
        # Not strict: the browser comes back from another site.
        samesite="lax",
        path=START,
        secure=request.scope["scheme"] == "https",
    )
    return answer


@get(BACK, include_in_schema=False)
async def back(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The provider has sent the browser back."""
    relying = _relying(request)
    try:
        nonce, verifier = _attempt(request)
        code = request.query_params.get("code", "")
        name = await asyncio.to_thread(relying.redeem, code, _redirect(request), verifier, nonce)
    except NotAllowed as error:
        return refused_page("Signing in did not work. Please try again.", error)
    subject = f"{OIDC}{name}"
    if await asyncio.to_thread(service_of(request).people.find, subject) is None:
        return refused_page("You are signed in there, but nobody has given you a role here.", None, 403)
    answer = welcome(request, subject)
    answer.set_cookie(key=COOKIE, value="", max_age=0, httponly=True, path=START)
    return answer


HANDLERS: list[HTTPRouteHandler] = [begin, back]


def _relying(request: Request[Any, Any, Any]) -> Any:
    found = service_of(request).relying
    if found is None:
        raise NotFound("this Dure has no identity provider", remedy="Start it with --oidc-issuer.")
    return found


def _attempt(request: Request[Any, Any, Any]) -> tuple[str, str]:
    """Nonce and verifier of the attempt that this browser began."""
    body, _, mark = request.cookies.get(COOKIE, "").rpartition(".")
    if not hmac.compare_digest(mark.encode(), service_of(request).keys.sign("sso", body).encode()):
        raise NotAllowed("this browser has not begun to sign in")
    expiry, state, nonce, verifier = body.split(".")
    given = request.query_params.get("state", "")
    if int(expiry) < time.time() or not hmac.compare_digest(state.encode(), given.encode()):
        raise NotAllowed("this is not the sign-in that this browser began, or it took too long")
    return nonce, verifier


def _redirect(request: Request[Any, Any, Any]) -> str:
    host = request.headers.get("host", "")
    return f"{request.scope['scheme']}://{host}{BACK}"
