"""Workloads: list, read, submit, plan, cancel, and why they are where they are."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, HeaderParameter

from dure.adapters.acting import act
from dure.api.answers import After, Limit, Name, NameFilter, Page, check_match, one, page, plain
from dure.api.caller import who_of
from dure.api.documents import WORKLOAD_BODY, documented, read_workload
from dure.api.seen import check_tenant, fetch_own, own_conflict, own_key, own_records, why_for
from dure.api.service import service_of
from dure.model.answer import Plan, Why
from dure.model.errors import Conflict
from dure.model.tenant import Role
from dure.model.workload import Phase, WorkloadRecord
from dure.ports import Wish

Key = Annotated[
    str,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=200,
        pattern=r"^[\x21-\x7e]*$",
        required=False,
        description="The same key answers the first result again, whatever happened to the connection.",
    ),
]


def tag_of(record: WorkloadRecord) -> str:
    return f"{record.uid}.{record.version}"


@get("/v1/workloads", tags=["workloads"])
async def list_workloads(
    request: Request[Any, Any, Any],
    limit: Limit = 100,
    after: After = None,
    tenant: NameFilter = None,
    ended: FromQuery[bool | None] = None,
    phase: FromQuery[Phase | None] = None,
) -> Response[Page[WorkloadRecord]]:
    """Workloads by submission, each that waits or runs with its `eta`; `ended=false` leaves out what is over."""
    backend = service_of(request).backend
    records = await asyncio.to_thread(own_records, backend.store, who_of(request), ended=ended)
    if tenant is not None:
        records = tuple(record for record in records if record.spec.tenant == tenant)
    if phase is not None:
        records = tuple(record for record in records if record.status.phase is phase)
    return await asyncio.to_thread(page, records, limit, after, lambda record: record.uid, backend.with_eta)


@get("/v1/workloads/{name:str}", tags=["workloads"])
async def fetch_workload(request: Request[Any, Any, Any], name: Name) -> Response[WorkloadRecord]:
    """One workload; the newest when a name was used again. Its `ETag` is that of the record, not of its `eta`."""
    backend = service_of(request).backend
    record = fetch_own(backend.store, who_of(request), name)
    shown = backend.with_kept_eta(record)
    if shown is None:
        (shown,) = await asyncio.to_thread(backend.with_eta, (record,))
    return one(request, shown, tag_of(record))


@get("/v1/workloads/{name:str}/why", tags=["workloads"])
async def explain_workload(request: Request[Any, Any, Any], name: Name) -> Response[Why]:
    """Why it waits or runs where it does, with the numbers that decided it."""
    backend, who = service_of(request).backend, who_of(request)
    await asyncio.to_thread(fetch_own, backend.store, who, name)
    return plain(why_for(await asyncio.to_thread(backend.why, name), who))


@post("/v1/workloads", tags=["workloads"], operation_class=documented(WORKLOAD_BODY))
async def submit_workload(request: Request[Any, Any, Any], key: Key = "") -> Response[WorkloadRecord]:
    """Submit a workload: a document of kind Workload, as JSON or YAML."""
    backend = service_of(request).backend
    workload, who = await read_workload(request, backend), who_of(request)
    check_tenant(who, workload.tenant, Role.SUBMITTER)
    try:
        wish = Wish(workload, own_key(who, workload, key), who, act().doing)
        record = await service_of(request).intake.submit(wish)
    except Conflict as error:
        raise await asyncio.to_thread(own_conflict, backend, workload, who, error) from error
    return one(request, record, tag_of(record), status=201, location=f"/v1/workloads/{record.name}")


@post("/v1/plan", tags=["workloads"], status_code=200, operation_class=documented(WORKLOAD_BODY))
async def plan_workload(request: Request[Any, Any, Any]) -> Response[Plan]:
    """What would happen if this workload were submitted now, and what it would cost. Nothing is changed."""
    backend = service_of(request).backend
    workload = await read_workload(request, backend)
    check_tenant(who_of(request), workload.tenant, Role.VIEWER)
    return plain(await asyncio.to_thread(backend.plan, workload))


@delete("/v1/workloads/{name:str}", tags=["workloads"], status_code=200)
async def cancel_workload(request: Request[Any, Any, Any], name: Name) -> Response[WorkloadRecord]:
    """Cancel a workload. With `If-Match` only if it is still at that version."""
    backend = service_of(request).backend
    known = await asyncio.to_thread(fetch_own, backend.store, who_of(request), name)
    check_tenant(who_of(request), known.spec.tenant, Role.SUBMITTER)
    if "if-match" in request.headers:
        check_match(request, tag_of(known))
    record = await asyncio.to_thread(backend.cancel, name)
    return one(request, record, tag_of(record))


HANDLERS: list[HTTPRouteHandler] = [
    list_workloads,
    fetch_workload,
    explain_workload,
    submit_workload,
    plan_workload,
    cancel_workload,
]
