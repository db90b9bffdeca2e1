"""The gateway over HTTP: the published endpoints (`/quota`, `/workloads`, `/job-submit`), ours under `/v1`, health.

Errors are problem+json with a reason and a remedy, except on the published endpoints' own 404, whose clients expect
an `error` key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State, UploadFile
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.params import FromPath, FromQuery, QueryParameter

import dure
from dure.adapters.kueue.figures import QueueView, view
from dure.gateway.desk import Answer, Desk
from dure.gateway.intake import Asked, Submitted, problem, take_in
from dure.gateway.journal import Entry
from dure.gateway.who import Doorman
from dure.model.errors import InvalidInput, NotFound, Temporary

MAX_BODY = 8 * 1024 * 1024
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
    answers = await _taken(request, text, False, policy, "")
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
    answers = await _taken(request, await request.body(), dry_run, policy, key)
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


def _desk(request: Req) -> Desk:
    desk: Desk = request.app.state["desk"]
    return desk


def _problem(request: Req, error: Exception) -> Response[bytes]:
    found = problem(error, request.scope["path"])
    return Response(found.body, status_code=found.status, media_type=found.media, headers=dict(found.headers))


async def _taken(request: Req, text: bytes, dry_run: bool, policy: str, key: str) -> tuple[Answer, ...]:
    doorman: Doorman = request.app.state["doorman"]
    asked = Asked(text, request.headers.get("authorization", ""), key, policy, dry_run)
    return await asyncio.to_thread(take_in, _desk(request), doorman, asked)
