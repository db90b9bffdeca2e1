"""What Dure did: decisions with their reasons, and events as a list or as a live stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, QueryParameter
from litestar.types import ASGIApp, Receive, Scope, Send

from dure.api.answers import Limit, NameFilter, Page, plain
from dure.api.caller import who_of
from dure.api.seen import entries_for
from dure.api.service import service_of
from dure.model.decision import JournalEntry
from dure.model.event import Event

EVENT_STREAM = "text/event-stream"
# A reader that takes nothing for this long is gone, whatever its connection says.
SEND_S = 20.0
LARGEST_SEQ = 2**63 - 1

Sequence = Annotated[int, QueryParameter(ge=0, le=LARGEST_SEQ, description="Only what follows this number (`seq`).")]


@get("/v1/decisions", tags=["journal"])
async def list_decisions(
    request: Request[Any, Any, Any],
    limit: Limit = 100,
    after: Sequence = 0,
    workload: NameFilter = None,
    tenant: NameFilter = None,
    newest: FromQuery[bool] = False,
) -> Response[Page[JournalEntry]]:
    """The journal, oldest first. With `newest` the last `limit` entries instead of the first."""
    store = service_of(request).backend.store
    entries = await asyncio.to_thread(store.list_journal, workload=workload, after=after, limit=limit, newest=newest)
    following = str(entries[-1].seq) if len(entries) == limit else None
    seen = entries_for(entries, who_of(request))
    return plain(Page(tuple(entry for entry in seen if tenant in (None, entry.tenant)), following))


@get(
    "/v1/events",
    tags=["journal"],
    responses={
        200: ResponseSpec(
            Page[Event],
            media_type="application/json",
            description="A page of events; with `Accept: text/event-stream` a stream that never ends.",
        )
    },
)
async def list_events(
    request: Request[Any, Any, Any],
    limit: Limit = 100,
    after: Annotated[int | None, QueryParameter(ge=0, le=LARGEST_SEQ)] = None,
    tenant: NameFilter = None,
    newest: FromQuery[bool] = False,
) -> Response[Page[Event]]:
    """Events, oldest first. As a stream they begin after `Last-Event-ID` or `after`, else with the next one."""
    service, who = service_of(request), who_of(request)
    if EVENT_STREAM in request.headers.get("accept", ""):
        return EventStream(service.stream.frames(_resume(request, after), who))
    events = await asyncio.to_thread(service.backend.store.list_events, after=after or 0, limit=limit, newest=newest)
    following = str(events[-1].seq) if len(events) == limit else None
    return plain(
        Page(tuple(event for event in events if who.sees(event.tenant) and tenant in (None, event.tenant)), following)
    )


HANDLERS: list[HTTPRouteHandler] = [list_decisions, list_events]


def _resume(request: Request[Any, Any, Any], after: int | None) -> int | None:
    last = request.headers.get("last-event-id", "")
    return int(last) if last.isascii() and last.isdigit() and int(last) <= LARGEST_SEQ else after


class EventStream(Response[Any]):
    """An answer that goes on until the reader leaves, stops reading, or the server stops."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(None, media_type=EVENT_STREAM)
        self._frames = frames

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIApp:  # type: ignore[override]  # it never has a body
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", EVENT_STREAM.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sending = asyncio.create_task(self._send_frames(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, TimeoutError):
                    await task

    async def _send_frames(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:  # type: ignore[type-var]
            async for frame in frames:
                async with asyncio.timeout(SEND_S):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
