"""The door in front of every route, as plain ASGI: right host, known caller, no foreign page, safe headers, counted.

It stands outside of Litestar so that even a path that does not exist is not told to strangers. It reads the
request's headers once and adds a fixed list to the answer; nothing here awaits anything of its own.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from litestar.exceptions import ClientException

from dure.adapters.acting import acting
from dure.adapters.tracing import span
from dure.api import problems
from dure.api.auth import ROOT, Keys
from dure.api.caller import NOBODY, SCOPE_KEY
from dure.api.limits import Buckets, Limits
from dure.api.login import sign_in_page
from dure.api.metrics import Metrics
from dure.model.who import Who

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = frozenset({"localhost"})
# Agents have credentials of their own, which their routes check.
AGENTS = "/v1/agents/"
PUBLIC = frozenset({"/healthz", "/readyz", "/login", "/login/sso", "/login/sso/back"})
# Of a path in the audit log; names are shorter, and nobody should fill the log with what they make up.
_SHOWN = 300
_TOO_LARGE = "the body is larger than this caller may send"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
]


class Gate:
    """`hosts` are the names under which the server may be addressed, besides localhost and plain IP addresses."""

    def __init__(
        self,
        app: App,
        keys: Keys,
        metrics: Metrics,
        hosts: Iterable[str] = (),
        limits: Limits | None = None,
        *,
        sso: bool = False,
    ) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._cookie = f"{keys.cookie}=".encode()
        self._limits = limits or Limits()
        self._sso = sso
        self._calls = Buckets(self._limits.rate_per_s, self._limits.burst)
        self._wrong = Buckets(self._limits.wrong_per_s, self._limits.wrong_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        began = time.perf_counter()
        status = 500

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_safe_headers(message["headers"], scope["scheme"])
            await send(message)

        try:
            found = self._within_limits(scope)
            if isinstance(found, Who):
                scope[SCOPE_KEY] = found
                doing = f"{scope['method']} {scope['path'][:_SHOWN]}"
                with acting(found, doing), span("api.request", method=scope["method"]):
                    await self._app(scope, _bounded(receive, self._most_bytes(scope, found)), send_safely)
            else:
                await _refuse(scope, send_safely, found, self._sso)
        finally:
            route = scope.get("path_template") or "unknown"
            self._metrics.count(scope["method"], route, status, time.perf_counter() - began)

    def _within_limits(self, scope: Scope) -> Who | problems.Problem:
        """Who it is, if they have not asked too much lately, nor guessed at secrets too often."""
        if _ambiguous(scope):
            return problems.of_status(400, "the request says in two ways how long it is, or for whom")
        address = (scope.get("client") or ("",))[0]
        wait_s = self._wrong.empty(address)
        if wait_s:
            return _slower(wait_s)
        found = self._admit(scope)
        if isinstance(found, problems.Problem):
            if found.status == 401 and _has_secret(scope):
                self._wrong.take(address)
            return found
        wait_s = self._calls.take(found.via) if found.via not in ("", ROOT) else 0.0
        if wait_s:
            return _slower(wait_s)
        return problems.of_status(413, _TOO_LARGE) if _length(scope) > self._most_bytes(scope, found) else found

    def _most_bytes(self, scope: Scope, who: Who) -> int:
        trusted = who.via == ROOT or scope["path"].startswith(AGENTS)
        return self._limits.owner_body if trusted else self._limits.body

    def _admit(self, scope: Scope) -> Who | problems.Problem:
        """Who it is, or why nobody is let in."""
        host = authorization = cookie = origin = site = b""
        for name, value in scope["headers"]:
            match name:
                case b"host":
                    host = value
                case b"authorization":
                    authorization = value
                case b"cookie":
                    cookie = cookie + b"; " + value if cookie else value
                case b"origin":
                    origin = value
                case b"sec-fetch-site":
                    site = value
        if not self._knows_host(host):
            return problems.of_status(
                421,
                f"this server is not '{host.decode('latin-1')}'",
                remedy="Use its IP address or localhost, or start it with --host NAME.",
            )
        if scope["path"].startswith(AGENTS) and authorization:
            return NOBODY
        if authorization:
            return self._bearer(authorization) or _unauthorised("the bearer token is wrong")
        who = NOBODY if scope["path"] in PUBLIC else self._session(cookie)
        if who is None:
            return _unauthorised("no token and no session")
        foreign = None if scope["method"] in _SAFE_METHODS else _cross_site(scope, host, origin, site)
        return foreign or who

    def _knows_host(self, host: bytes) -> bool:
        """A page that rebinds its name to this address still sends that name; a plain address cannot be rebound."""
        name = host.decode("latin-1").lower()
        name = name[: name.index("]") + 1] if name.startswith("[") and "]" in name else name.partition(":")[0]
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        self._hosts |= {name}
        return True

    def _bearer(self, authorization: bytes) -> Who | None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        return self._keys.check_token(token.strip()) if scheme.lower() == "bearer" else None

    def _session(self, cookie: bytes) -> Who | None:
        for part in cookie.split(b";"):
            pair = part.strip()
            if pair.startswith(self._cookie):
                return self._keys.check_session(pair[len(self._cookie) :].decode("latin-1"))
        return None


def _cross_site(scope: Scope, host: bytes, origin: bytes, site: bytes) -> problems.Problem | None:
    """A browser names the page that asks; only our own pages may change anything."""
    if origin == scope["scheme"].encode() + b"://" + host or (not origin and site == b"same-origin"):
        return None
    return problems.of_status(
        403, "this request comes from another site", remedy="Send the token as 'Authorization: Bearer TOKEN'."
    )


def _unauthorised(detail: str) -> problems.Problem:
    return problems.of_status(
        401, detail, remedy="Send 'Authorization: Bearer TOKEN', or open the address that 'dure up' printed."
    )


async def _refuse(scope: Scope, send: Send, problem: problems.Problem, sso: bool) -> None:
    body, media_type = problems.encode(problem), problems.MEDIA_TYPE.encode()
    headers: list[tuple[bytes, bytes]] = []
    if problem.status == 400:
        # What follows may be a second request or the rest of this one; nobody should have to guess.
        headers.append((b"connection", b"close"))
    if problem.status == 429:
        headers.append((b"retry-after", b"1"))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="dure"'))
        if _wants_page(scope):
            page = sign_in_page(sso=sso)
            body, media_type = page.body, b"text/html; charset=utf-8"
            headers.append((b"content-security-policy", page.policy))
    headers += [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _slower(wait_s: float) -> problems.Problem:
    return problems.of_status(429, "too many requests", remedy=f"Try again in {math.ceil(wait_s)} s.")


def _has_secret(scope: Scope) -> bool:
    """Who comes with nothing is a visitor; who comes with something wrong may be guessing."""
    return any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])


def _ambiguous(scope: Scope) -> bool:
    """A proxy in front may go by the length where this server goes by the chunks, and see other requests than it; or
    by the other of two names."""
    names = [name for name, _ in scope["headers"]]
    return (b"content-length" in names and b"transfer-encoding" in names) or names.count(b"host") > 1


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _bounded(receive: Receive, most: int) -> Receive:
    """A body that does not say its length is counted as it comes in; the rest of one too long is not read."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > most:
                raise ClientException(_TOO_LARGE, status_code=413)
        return message

    return bounded


def _wants_page(scope: Scope) -> bool:
    return scope["method"] == "GET" and any(
        name == b"accept" and b"text/html" in value for name, value in scope["headers"]
    )


def _with_safe_headers(headers: Iterable[tuple[bytes, bytes]], scheme: str) -> list[tuple[bytes, bytes]]:
    merged = [*headers, *_HEADERS]
    if scheme == "https":
        merged.append((b"strict-transport-security", b"max-age=31536000"))
    names = {name for name, _ in merged}
    if b"content-security-policy" not in names:
        merged.append((b"content-security-policy", _POLICY))
    if b"cache-control" not in names:
        merged.append((b"cache-control", b"no-store"))
    return merged
