"""What agents elsewhere ask of the plane: join, what is desired, here is my report.

The gate lets these paths through; each handler checks the caller by itself. A join token works once and only for its
cluster; a credential only for the cluster it was given to. Both are kept as digests.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import Parameter

from dure.adapters.plane_http import Credential, Membership
from dure.api.answers import Name, one, plain
from dure.api.service import service_of
from dure.model.errors import InvalidInput, NotAllowed, NotFound
from dure.model.fleet import ClusterSpec
from dure.model.report import Report
from dure.plane.members import LocalPlane
from dure.ports import StorePort

TOKEN_S = 24 * 3600
LONGEST_WAIT_S = 60.0
LOOK_S = 0.5
_REDEEM = threading.Lock()

Wait = Annotated[float, Parameter(ge=0, le=LONGEST_WAIT_S, description="How long to wait for something new.")]


class JoinToken(msgspec.Struct, frozen=True):
    """Shown once; nobody can read it again."""

    cluster: str
    token: str
    expires_s: float


@post("/v1/clusters/{name:str}/join-tokens", tags=["agents"])
async def new_join_token(request: Request[Any, Any, Any], name: Name) -> Response[JoinToken]:
    """A token with which the agent of this cluster can join, once, within a day."""
    backend = service_of(request).backend
    _member(backend.fleet().cluster(name), name)
    token, expires_s = secrets.token_urlsafe(32), time.time() + TOKEN_S
    await asyncio.to_thread(backend.store.write_setting, _join_key(name), f"{_digest(token)} {expires_s:.0f}")
    return plain(JoinToken(name, token, expires_s), status=201)


@post("/v1/agents/{name:str}/join", tags=["agents"])
async def join(request: Request[Any, Any, Any], name: Name) -> Response[Credential]:
    """Exchange the one-time token for the agent's own credential."""
    store = service_of(request).backend.store
    return plain(await asyncio.to_thread(_redeem, store, name, _bearer(request)), status=201)


@get("/v1/agents/{name:str}/membership", tags=["agents"])
async def fetch_membership(request: Request[Any, Any, Any], name: Name) -> Response[Membership]:
    """What the fleet file says of this cluster, with the catalogue."""
    backend = service_of(request).backend
    await asyncio.to_thread(_check, backend.store, name, _bearer(request))
    spec = _member(backend.fleet().cluster(name), name)
    return plain(Membership(spec, msgspec.structs.replace(backend.catalogue(), templates={})))


@get("/v1/agents/{name:str}/desired", tags=["agents"])
async def fetch_desired(request: Request[Any, Any, Any], name: Name, wait: Wait = 0.0) -> Response[Any]:
    """Everything that should exist on this cluster. With `wait` and If-None-Match it answers when that changes."""
    store = service_of(request).backend.store
    await asyncio.to_thread(_check, store, name, _bearer(request))
    plane = LocalPlane(store)
    deadline = time.monotonic() + wait
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(changed.set)

    unsubscribe = store.subscribe(wake) if wait else None
    try:
        while True:
            wanted = await asyncio.to_thread(plane.fetch_desired, name)
            tag = hashlib.blake2b(msgspec.json.encode(wanted), digest_size=9).hexdigest()
            left_s = deadline - time.monotonic()
            if request.headers.get("if-none-match") != f'"{tag}"' or left_s <= 0:
                return one(request, wanted, tag)
            changed.clear()
            try:
                await asyncio.wait_for(changed.wait(), min(LOOK_S, left_s))
            except TimeoutError:
                continue
    finally:
        if unsubscribe is not None:
            unsubscribe()


@post("/v1/agents/{name:str}/report", tags=["agents"], status_code=204)
async def write_report(request: Request[Any, Any, Any], name: Name) -> None:
    """The agent's whole view of its cluster; an older one than the one there is ignored."""
    store = service_of(request).backend.store
    await asyncio.to_thread(_check, store, name, _bearer(request))
    try:
        report = msgspec.json.decode(await request.body(), type=Report)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"this is not a report: {error}") from error
    if report.cluster != name:
        raise NotAllowed(f"the agent of '{name}' cannot report for '{report.cluster}'")
    await asyncio.to_thread(LocalPlane(store).write_report, report)


def _member(spec: ClusterSpec | None, name: str) -> ClusterSpec:
    if spec is None:
        raise NotFound(f"no cluster '{name}' in the fleet", remedy="Add it to the fleet file, then join.")
    return spec


def _bearer(request: Request[Any, Any, Any]) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _redeem(store: StorePort, name: str, token: str) -> Credential:
    with _REDEEM:
        digest, _, expires = (store.fetch_setting(_join_key(name)) or "").partition(" ")
        if not digest or not hmac.compare_digest(digest, _digest(token)) or float(expires) < time.time():
            raise NotAllowed(
                f"the join token for '{name}' is wrong, used or too old", remedy=f"Make one: dure cluster join {name}"
            )
        credential = secrets.token_urlsafe(32)
        store.write_setting(_agent_key(name), _digest(credential))
        store.write_setting(_join_key(name), "")
    return Credential(name, credential)


def _check(store: StorePort, name: str, credential: str) -> None:
    known = store.fetch_setting(_agent_key(name)) or ""
    if not known or not hmac.compare_digest(known, _digest(credential)):
        raise NotAllowed(f"this is not the credential of the agent of '{name}'", remedy=f"dure cluster join {name}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _join_key(name: str) -> str:
    return f"agent-join/{name}"


def _agent_key(name: str) -> str:
    return f"agent/{name}"


HANDLERS: list[HTTPRouteHandler] = [new_join_token, join, fetch_membership, fetch_desired, write_report]
