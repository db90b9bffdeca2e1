"""Answers in one shape: a record with its ETag, or a page of a list with the cursor of the next one.

Bodies are encoded here by one msgspec encoder, so a handler costs little more than the encoding itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar import Request, Response
from litestar.params import PathParameter, QueryParameter
from litestar.types import ASGIApp, Receive, Scope, Send

from dure.api.problems import PreconditionFailed
from dure.model.errors import InvalidInput

T = TypeVar("T")
MAX_LIMIT = 5000

Limit = Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT, description="How many items at most.")]
After = Annotated[str | None, QueryParameter(max_length=400, description="The `next` of the page before.")]
Name = Annotated[str, PathParameter(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
NameFilter = Annotated[
    str | None, QueryParameter(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]

_ENCODER = msgspec.json.Encoder()
_JSON = b"application/json"


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`next` is what to send as `after` for the following page; null at the end."""

    items: tuple[T, ...]
    next: str | None = None


class Encoded(Response[Any]):
    """Bytes that go out as they are. Litestar's own response would build, merge and encode headers known already.

    Its constructor is left out on purpose: nothing but `to_asgi_response` is ever asked of it, and GET of one
    workload is meant to cost little more than a handler that does nothing.
    """

    def __init__(self, body: bytes, status: int, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._body = body
        length = str(len(body)).encode()
        self._start = {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", _JSON), (b"content-length", length), *headers] if body else [*headers],
        }

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIApp:  # type: ignore[override]  # it is the application
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(self._start)  # type: ignore[arg-type]  # the type names its keys one by one
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def one(
    request: Request[Any, Any, Any], value: T, tag: str = "", *, status: int = 200, location: str = ""
) -> Response[T]:
    """A single record; 304 when the caller has it already."""
    body = _ENCODER.encode(value)
    etag = f'"{tag or hashlib.blake2b(body, digest_size=9).hexdigest()}"'
    headers = [(b"etag", etag.encode())]
    if location:
        headers.append((b"location", location.encode()))
    known = _if_none_match(request)
    if known is not None and names(known, etag):
        return Encoded(b"", 304, headers)
    return Encoded(body, status, headers)


def plain(value: T, *, status: int = 200) -> Response[T]:
    """An answer that has no identity of its own, such as a plan."""
    return Encoded(_ENCODER.encode(value), status)


def page(
    items: Sequence[T], limit: int, after: str | None, cursor: Callable[[T], str],
    filled: Callable[[Sequence[T]], Sequence[T]] = tuple,
) -> Response[Page[T]]:  # fmt: skip
    """The `limit` items that follow the one whose cursor is `after`; `filled` adds what is worked out for readers."""
    start = 0
    if after is not None:
        found = next((index for index, item in enumerate(items) if cursor(item) == after), None)
        if found is None:
            raise InvalidInput("'after' names no item of this list", remedy="Begin again without 'after'.")
        start = found + 1
    shown = tuple(filled(items[start : start + limit]))
    more = start + limit < len(items)
    return plain(Page(shown, cursor(shown[-1]) if more and shown else None))


def check_match(request: Request[Any, Any, Any], tag: str) -> None:
    """Refuse a change that was meant for another version."""
    wanted = request.headers.get("if-match")
    if wanted is not None and not names(wanted, f'"{tag}"'):
        raise PreconditionFailed(f'the record is at version "{tag}", not {wanted[:80]}; read it again')


def names(header: str, etag: str) -> bool:
    """Whether a list of entity tags holds this one; weak ones compare alike (RFC 9110, 8.8.3.2)."""
    return header.strip() == "*" or any(part.strip().removeprefix("W/") == etag for part in header.split(","))


def _if_none_match(request: Request[Any, Any, Any]) -> str | None:
    for name, value in request.scope["headers"]:
        if name == b"if-none-match":
            return value.decode("latin-1")
    return None
