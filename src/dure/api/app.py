"""Puts the API together: routes, errors, OpenAPI, background tasks, and the gate in front of it all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litestar import Litestar
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from dure.adapters.memory.metrics import MemoryMetrics
from dure.api import login, openapi, problems, sso
from dure.api.auth import Keys
from dure.api.backend import Backend, Shares
from dure.api.board import Maps
from dure.api.gate import Gate
from dure.api.insight import Insight
from dure.api.intake import Intake
from dure.api.limits import Limits
from dure.api.metrics import Metrics
from dure.api.past import Past
from dure.api.people import Directory
from dure.api.pulse import Pulse
from dure.api.routes import (
    agents,
    audit,
    board,
    charges,
    defrag,
    documents,
    finops,
    fleet,
    health,
    insight,
    journal,
    ledger,
    past,
    policies,
    shadow,
    share,
    tokens,
    workloads,
)
from dure.api.rules import check
from dure.api.service import STATE_KEY, Service
from dure.api.stream import Stream
from dure.ports import MetricsPort

if TYPE_CHECKING:
    from dure.adapters.oidc import Relying
    from dure.adapters.pki import Authority

MAX_BODY = 8 * 1024 * 1024


@dataclass(frozen=True)
class App:
    """`asgi` is what a server runs; `litestar` is the application inside the gate."""

    asgi: Gate
    litestar: Litestar
    service: Service


def create_app(
    backend: Backend,
    keys: Keys,
    *,
    pages: Sequence[HTTPRouteHandler] = (),
    hosts: Iterable[str] = (),
    samples: MetricsPort | None = None,
    shares: Shares | None = None,
    limits: Limits | None = None,
    authority: Authority | None = None,
    relying: Relying | None = None,
    admins: Iterable[str] = (),
) -> App:
    """`pages` are further routes behind the same gate (the dashboard); `hosts` further names of this server.

    `samples` keeps the past for the charts; without one it is kept in memory.
    """
    pulse = Pulse(backend, samples or MemoryMetrics())
    people = Directory(backend.store, admins)
    keys.introduce(people)
    service = Service(
        backend=backend,
        keys=keys,
        pulse=pulse,
        stream=Stream(backend),
        metrics=Metrics(pulse, backend.store, shares),
        intake=Intake(backend),
        people=people,
        insight=Insight(backend, pulse, shares),
        past=Past(backend),
        maps=Maps(backend.store),
        shares=shares,
        authority=authority,
        relying=relying,
    )
    litestar = Litestar(
        [
            *workloads.HANDLERS,
            *fleet.HANDLERS,
            *board.HANDLERS,
            *charges.HANDLERS,
            *ledger.HANDLERS,
            *finops.HANDLERS,
            *insight.HANDLERS,
            *past.HANDLERS,
            *journal.HANDLERS,
            *shadow.HANDLERS,
            *policies.HANDLERS,
            *defrag.HANDLERS,
            *share.HANDLERS,
            *documents.HANDLERS,
            *health.HANDLERS,
            *audit.HANDLERS,
            *tokens.HANDLERS,
            *agents.HANDLERS,
            *login.HANDLERS,
            *sso.HANDLERS,
            *pages,
        ],
        before_request=check,
        exception_handlers={Exception: problems.handle},
        lifespan=[_background],
        logging_config=None,
        openapi_config=openapi.config(),
        request_max_body_size=MAX_BODY,
        state=State({STATE_KEY: service}),
    )
    openapi.document_problems(litestar)
    return App(Gate(litestar, keys, service.metrics, hosts, limits, sso=relying is not None), litestar, service)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def _background(app: Litestar) -> AsyncIterator[None]:
    service: Service = app.state[STATE_KEY]
    lasting = (service.pulse.run(), service.stream.run(), service.insight.run())
    tasks = [asyncio.create_task(one) for one in lasting]
    try:
        yield
    finally:
        service.stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
