"""The gateway over HTTP: the published endpoints (`/quota`, `/workloads`, `/job-submit`), ours under `/v1`, health.

Errors are problem+json with a reason and a remedy, except on the published endpoints' own 404, whose clients expect
an `error` key.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import structlog
import yaml
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State, UploadFile
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.params import FromPath, FromQuery, QueryParameter

import dure
from dure.adapters.kueue.figures import QueueView, view
from dure.gateway.desk import Answer, Caller, Desk
from dure.gateway.journal import Entry
from dure.gateway.who import Doorman
from dure.model.errors import DureError, InvalidInput, NotFound, Temporary

MAX_BODY = 8 * 1024 * 1024
MOST_DOCUMENTS = 1000
MOST_PARTS = 1_000_000
_log = structlog.get_logger("dure.gateway")
Req = Request[Any, Any, State]


class LocalView(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    cluster_queue: str
    pending: int
    reserving: int
    admitted: int


class Queues(msgspec.Struct, frozen=True):
    """`stale_s` is the age of the figures: 0 while all watches are open, -1 before the first."""

    stale_s: float
    api_version: str
    cluster_queues: tuple[QueueView, ...]
    local_queues: tuple[LocalView, ...]
    cohorts: tuple[dict[str, Any], ...]
    flavors: tuple[dict[str, Any], ...]
    multikueue_clusters: tuple[dict[str, Any], ...]


class Submitted(msgspec.Struct, frozen=True):
    jobs: tuple[Answer, ...]


class Why(msgspec.Struct, frozen=True):
    namespace: str
    job: str
    journal: tuple[Entry, ...]


def create_app(desk: Desk, doorman: Doorman, pages: Sequence[HTTPRouteHandler] = ()) -> Litestar:
    """`pages` are those of the dashboard; without them the gateway speaks JSON only."""
    published = [quota, workloads, job_submit, job_submit_static]
    own = [queues, submit, why, decisions, moves, healthz, readyz, metrics]
    return Litestar(
        [*published, *own, *pages],
        exception_handlers={Exception: _problem},
        state=State({"desk": desk, "doorman": doorman}),
        request_max_body_size=MAX_BODY,
        logging_config=None,
        openapi_config=OpenAPIConfig(title="Dure gateway", version=dure.__version__, path="/schema"),
    )


@get("/quota", sync_to_thread=False)
def quota(
    request: Req,
    clusterqueue: FromQuery[str] = "gpu-cluster-queue",
    flavor: FromQuery[str] = "gpu-flavor",
    resource: FromQuery[str] = "gpu",
) -> Response[dict[str, Any]]:
    """Quota of one resource of one flavor, in the published form."""
    name = "nvidia.com/gpu" if resource == "gpu" else resource
    found = _desk(request).board.queues.get(clusterqueue)
    amounts = view(found).amounts if found is not None else ()
    for amount in amounts:
        if (amount.flavor, amount.resource) == (flavor, name):
            return Response(
                {
                    "clusterqueue": clusterqueue,
                    "flavor": flavor,
                    "resource": name,
                    "quota": amount.nominal,
                    "reserved": amount.reserved,
                    "used": amount.used,
                    "available": amount.available,
                }
            )
    return Response({"error": f"no {name} of flavor {flavor} in ClusterQueue {clusterqueue}"}, status_code=404)


@get(["/workloads", "/pending"], sync_to_thread=False)
def workloads(request: Req, clusterqueue: FromQuery[str] = "gpu-cluster-queue") -> Response[dict[str, Any]]:
    """Counters of one ClusterQueue, in the published form."""
    found = _desk(request).board.queues.get(clusterqueue)
    if found is None:
        return Response({"error": f"no ClusterQueue {clusterqueue}"}, status_code=404)
    return Response(
        {
            "clusterqueue": clusterqueue,
            "pendingWorkloads": found.status.pending_workloads,
            "reservingWorkloads": found.status.reserving_workloads,
            "admittedWorkloads": found.status.admitted_workloads,
        }
    )


@post("/job-submit", status_code=200)
async def job_submit(request: Req) -> Response[dict[str, str]]:
    """The published endpoint: one Job as the form's `job_file`."""
    return await _published(request, "")


@post("/job-submit-no-eval", status_code=200)
async def job_submit_static(request: Req) -> Response[dict[str, str]]:
    """The published baseline: never routed elsewhere."""
    return await _published(request, "static")


async def _published(request: Req, policy: str) -> Response[dict[str, str]]:
    sent = (await request.form()).get("job_file")
    if not isinstance(sent, UploadFile):
        raise InvalidInput("the form has no 'job_file'", remedy="Send the Job as multipart field job_file.")
    text = await sent.read()
    answers = await asyncio.to_thread(_take_in, request, text, False, policy, "")
    first = answers[0]
    return Response({"message": f"Job {first.name} submitted: {first.because}", "queued": first.queue})


@get("/v1/queues", sync_to_thread=False)
def queues(request: Req) -> Queues:
    """Everything the queues show, from watches; the age of the figures is in the answer."""
    board = _desk(request).board
    stale_s = board.stale_s
    return Queues(
        -1.0 if stale_s == float("inf") else round(stale_s, 3),
        board.version,
        tuple(view(one) for _, one in sorted(board.queues.objects().items())),
        tuple(
            LocalView(
                one.metadata.namespace,
                one.metadata.name,
                one.spec.cluster_queue,
                one.status.pending_workloads,
                one.status.reserving_workloads,
                one.status.admitted_workloads,
            )
            for _, one in sorted(board.locals.objects().items())
        ),
        *(
            tuple(
                {"name": key, "spec": one.spec, "status": one.status} for key, one in sorted(mirror.objects().items())
            )
            for mirror in board.others.values()
        ),
    )


@post("/v1/jobs", status_code=201)
async def submit(
    request: Req,
    dry_run: Annotated[bool, QueryParameter(name="dryRun", description="Do everything but create.")] = False,
    policy: FromQuery[str] = "",
) -> Response[Submitted]:
    """Take in one Job or several, as YAML or JSON. With `dryRun=true` everything is done but the creation."""
    key = request.headers.get("idempotency-key", "")
    answers = await asyncio.to_thread(_take_in, request, await request.body(), dry_run, policy, key)
    return Response(Submitted(answers), status_code=200 if dry_run else 201)


@get("/v1/jobs/{namespace:str}/{name:str}/why", sync_to_thread=False)
def why(request: Req, namespace: FromPath[str], name: FromPath[str]) -> Why:
    """Every choice and move of one job, with what was seen."""
    entries = _desk(request).journal.of(namespace, name)
    if not entries:
        raise NotFound(f"this gateway knows no job '{name}' in namespace '{namespace}'")
    return Why(namespace, name, entries)


@get("/v1/decisions", sync_to_thread=False)
def decisions(request: Req, limit: FromQuery[int] = 100) -> tuple[Entry, ...]:
    """The latest decision of each job, newest first."""
    return _desk(request).journal.latest(max(1, min(limit, 1000)))


@get("/v1/moves", sync_to_thread=False)
def moves(request: Req, limit: FromQuery[int] = 100) -> tuple[Entry, ...]:
    """Jobs that changed queues while they waited, newest first."""
    return _desk(request).journal.moves(max(1, min(limit, 1000)))


@get("/healthz", sync_to_thread=False)
def healthz() -> dict[str, str]:
    return {"status": "ok", "version": dure.__version__}


@get("/readyz", sync_to_thread=False)
def readyz(request: Req) -> dict[str, str]:
    desk = _desk(request)
    if desk.board.stale_s > desk.settings.stale_s:
        raise Temporary("the figures are too old", reason="StaleFigures")
    return {"status": "ready"}


@get("/metrics", media_type=MediaType.TEXT, sync_to_thread=False)
def metrics(request: Req) -> bytes:
    desk = _desk(request)
    desk.metrics.stale.set(min(desk.board.stale_s, 1e9))
    return desk.metrics.page()


def documents(text: bytes) -> list[Any]:
    """One or many documents. JSON is YAML, but read as JSON it is many times faster."""
    try:
        if text.lstrip()[:1] in (b"{", b"["):
            # What begins like JSON may still be YAML in one line.
            with contextlib.suppress(msgspec.DecodeError):
                found = msgspec.json.decode(text)
                return found if isinstance(found, list) else _items(found)
        read = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one is not None]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(f"the body is neither YAML nor JSON: {str(error)[:300]}") from error
    _check_size(read)
    return [item for one in read for item in _items(one)]


def _check_size(found: list[Any]) -> None:
    """YAML's aliases can make a few lines into more than any memory holds; nothing is written out before this."""
    left, parts = MOST_PARTS, list(found)
    while parts:
        one = parts.pop()
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else ()
        left -= 1 + len(inner)
        if left < 0:
            raise InvalidInput(f"the body has more than {MOST_PARTS} parts once its aliases are written out")
        parts += inner


def _items(document: Any) -> list[Any]:
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        return list(document["items"])
    return [document]


def _take_in(request: Req, text: bytes, dry_run: bool, policy: str, key: str) -> tuple[Answer, ...]:
    """All documents are checked before the first is created, so that a mistake in the last creates nothing."""
    desk, began = _desk(request), time.perf_counter()
    caller = _caller(request)
    found = documents(text)
    if not 1 <= len(found) <= MOST_DOCUMENTS:
        raise InvalidInput(f"the body holds {len(found)} documents; 1 to {MOST_DOCUMENTS} are taken")
    places = [f"document {number}" if len(found) > 1 else "job" for number in range(1, len(found) + 1)]
    if len(found) > 1 and not dry_run:
        for where, one in zip(places, found, strict=True):
            desk.submit(one, caller, where=where, name=policy, dry_run=True)
    answers = tuple(
        desk.submit(one, caller, where=where, key=f"{key}/{where}" if key else "", name=policy, dry_run=dry_run)
        for where, one in zip(places, found, strict=True)
    )
    desk.metrics.took.observe(time.perf_counter() - began)
    return answers


def _caller(request: Req) -> Caller:
    doorman: Doorman = request.app.state["doorman"]
    return doorman.caller(request.headers.get("authorization", ""))


def _desk(request: Req) -> Desk:
    desk: Desk = request.app.state["desk"]
    return desk


def _problem(request: Req, error: Exception) -> Response[bytes]:
    """problem+json (RFC 9457), like Dure's other API."""
    fields: dict[str, Any]
    if isinstance(error, DureError):
        fields = {"title": error.title, "status": error.status, "detail": error.message}
        fields |= {name: getattr(error, name) for name in ("where", "reason", "remedy") if getattr(error, name)}
    elif isinstance(error, HTTPException):
        fields = {"title": "Invalid request", "status": error.status_code, "detail": error.detail}
    else:
        _log.error("request failed", path=request.scope["path"], exc_info=error)
        fields = {
            "title": "Failed",
            "status": 500,
            "detail": "The gateway failed to answer; its log has the details.",
        }
    headers = {"retry-after": "2"} if isinstance(error, Temporary) else {}
    if fields["status"] == 401:
        headers["www-authenticate"] = 'Bearer realm="dure"'
    body = msgspec.json.encode({"type": "about:blank", **fields})
    return Response(body, status_code=fields["status"], media_type="application/problem+json", headers=headers)
