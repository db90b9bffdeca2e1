"""Signing in with a browser: a one-time code in the printed address, or the token typed into a form.

Both end in a session cookie that scripts cannot read and other sites cannot send.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import urllib.parse
from typing import Any, NamedTuple

import structlog
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler

from dure.api.auth import SESSION_S
from dure.api.service import service_of

_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:26rem;margin:18vh auto;"
    "padding:0 1rem}h1{font-size:1.1rem}input,button{font:inherit;padding:.4rem .6rem;width:100%;"
    "box-sizing:border-box;margin:.3rem 0}code{font-size:.9em}"
)
_FORM = (
    "<h1>Sign in to Dure</h1>{note}<p>Open the address that <code>dure up</code> printed, or paste the token from "
    "the file <code>token</code> in its state folder.</p><form method=post action=/login>"
    "<label for=token>Token</label>"
    "<input id=token name=token type=password autocomplete=current-password required autofocus>"
    "<button>Sign in</button></form>{sso}"
)
_SSO = "<p><a href=/login/sso>Sign in with your organisation</a></p>"
_log = structlog.get_logger("dure.api")


class Page(NamedTuple):
    body: bytes
    policy: bytes


@functools.cache
def sign_in_page(note: str = "", sso: bool = False) -> Page:
    """`note` is text of ours, never of the caller."""
    return _page(_FORM.format(note=f"<p role=alert>{note}</p>" if note else "", sso=_SSO if sso else ""))


def refused_page(note: str, error: Exception | None, status: int = 401) -> Response[bytes]:
    """What went wrong is for the log; whoever signs in hears only that it did."""
    if error is not None:
        _log.warning("nobody was let in", error=str(error))
    return _answer(sign_in_page(note, True), status)


@get("/login", include_in_schema=False, sync_to_thread=False)
def login(request: Request[Any, Any, Any]) -> Response[bytes]:
    code = request.query_params.get("code")
    if code is None:
        return _answer(sign_in_page(sso=service_of(request).relying is not None), 200)
    subject = service_of(request).keys.redeem_code(code)
    if subject is None:
        return _answer(sign_in_page("This link was used already or is too old."), 401)
    return welcome(request, subject)


@post("/login", include_in_schema=False)
async def login_with_token(request: Request[Any, Any, Any]) -> Response[bytes]:
    form = urllib.parse.parse_qs((await request.body()).decode("latin-1"))
    who = service_of(request).keys.check_token(form.get("token", [""])[0].strip())
    if who is None:
        return _answer(sign_in_page("That is not the token."), 401)
    return welcome(request, who.via)


@post("/logout", include_in_schema=False, sync_to_thread=False, status_code=200)
def logout(request: Request[Any, Any, Any]) -> Response[bytes]:
    response = _answer(sign_in_page("Signed out."), 200)
    response.set_cookie(key=service_of(request).keys.cookie, value="", max_age=0, httponly=True, samesite="strict")
    return response


HANDLERS: list[HTTPRouteHandler] = [login, login_with_token, logout]


def welcome(request: Request[Any, Any, Any], subject: str) -> Response[bytes]:
    """A page that goes on by itself: after a redirect from elsewhere a browser would keep a strict cookie back."""
    keys = service_of(request).keys
    response = _answer(_page("<p>Signed in. <a href=/>Go on to the fleet</a>.</p>"), 200)
    response.headers["refresh"] = "0; url=/"
    response.set_cookie(
        key=keys.cookie,
        value=keys.new_session(subject),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        path="/",
        secure=request.scope["scheme"] == "https",
    )
    return response


def _answer(page: Page, status: int) -> Response[bytes]:
    headers = {"content-security-policy": page.policy.decode()}
    return Response(page.body, status_code=status, media_type="text/html", headers=headers)


def _page(content: str) -> Page:
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    body = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Dure: sign in</title><style>{_STYLE}</style><main>{content}</main></html>"
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return Page(body.encode(), policy.encode())
