"""What agents elsewhere ask of the plane over HTTP: join, what is desired, here is my report.

The gate lets these paths through; each handler asks `plane.admission` about the caller by itself.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, Parameter

from dure.adapters.acting import acting
from dure.api.answers import Name, one, plain
from dure.api.service import service_of
from dure.model.defrag import DefragWish
from dure.model.errors import InvalidInput, NotFound
from dure.model.membership import AgentCertificate, Credential, JoinToken, Membership, Proposal, SigningRequest
from dure.model.report import Report
from dure.model.who import agent
from dure.plane import admission
from dure.plane.members import LOOK_S, LocalPlane, tag_of

LONGEST_WAIT_S = 60.0

Wait = Annotated[float, Parameter(ge=0, le=LONGEST_WAIT_S, description="How long to wait for something new.")]


@post("/v1/clusters/{name:str}/join-tokens", tags=["agents"])
async def new_join_token(request: Request[Any, Any, Any], name: Name) -> Response[JoinToken]:
    """A token with which the agent of this cluster can join, once, within a day."""
    backend = service_of(request).backend
    return plain(await asyncio.to_thread(admission.new_join_token, backend.store, backend.fleet(), name), status=201)


@post("/v1/clusters/{name:str}/certificates", tags=["agents"])
async def sign_certificate(
    request: Request[Any, Any, Any], name: Name, data: JSONBody[SigningRequest]
) -> Response[AgentCertificate]:
    """Sign the key of this cluster's agent for the gRPC port; its own name in the request does not count."""
    service = service_of(request)
    if service.authority is None:
        raise NotFound("this Dure has no authority of its own", remedy="Start it with --tls.")
    admission.check_member(service.backend.fleet(), name)
    made = await asyncio.to_thread(service.authority.sign_agent, data.request, name)
    return plain(AgentCertificate(name, made, service.authority.bundle.read_text()), status=201)


@post("/v1/agents/{name:str}/join", tags=["agents"])
async def join(
    request: Request[Any, Any, Any], name: Name, data: JSONBody[Proposal | None] = None
) -> Response[Credential]:
    """Use the one-time token to make the proposed credential this agent's own; the same again is answered the same.

    Without a body the plane makes the credential and tells it once.
    """
    store, proposed = service_of(request).backend.store, data.digest if data is not None else ""
    with acting(agent(name), "Join"):
        made = await asyncio.to_thread(admission.redeem, store, name, _secret(request), proposed)
    return plain(made, status=201)


@get("/v1/agents/{name:str}/membership", tags=["agents"])
async def fetch_membership(request: Request[Any, Any, Any], name: Name) -> Response[Membership]:
    """What the fleet file says of this cluster, with the catalogue."""
    backend = service_of(request).backend
    await asyncio.to_thread(admission.check, backend.store, name, _secret(request))
    return plain(admission.membership_of(backend.fleet(), backend.catalogue(), name))


@get("/v1/agents/{name:str}/desired", tags=["agents"])
async def fetch_desired(request: Request[Any, Any, Any], name: Name, wait: Wait = 0.0) -> Response[Any]:
    """Everything that should exist on this cluster. With `wait` and If-None-Match it answers when that changes."""
    store = service_of(request).backend.store
    await asyncio.to_thread(admission.check, store, name, _secret(request))
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
            tag = tag_of(wanted)
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


@get("/v1/agents/{name:str}/wish", tags=["agents"])
async def fetch_wish(request: Request[Any, Any, Any], name: Name) -> Response[DefragWish | None]:
    """A person's wish for defragmentation that stands for this cluster, or null."""
    store = service_of(request).backend.store
    await asyncio.to_thread(admission.check, store, name, _secret(request))
    return plain(await asyncio.to_thread(LocalPlane(store).fetch_wish, name))


@post("/v1/agents/{name:str}/report", tags=["agents"], status_code=204)
async def write_report(request: Request[Any, Any, Any], name: Name) -> None:
    """The agent's whole view of its cluster; an older one than the one there is ignored."""
    backend = service_of(request).backend
    store = backend.store
    await asyncio.to_thread(admission.check, store, name, _secret(request))
    try:
        report = msgspec.json.decode(await request.body(), type=Report)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"this is not a report: {error}") from error
    admission.check_report(report, name)
    with acting(agent(name), "Report"):
        await asyncio.to_thread(LocalPlane(store).write_report, admission.timely(report, backend.now()))


def _secret(request: Request[Any, Any, Any]) -> str:
    return admission.bearer(request.headers.get("authorization", ""))


HANDLERS: list[HTTPRouteHandler] = [
    new_join_token,
    sign_certificate,
    join,
    fetch_membership,
    fetch_desired,
    fetch_wish,
    write_report,
]
