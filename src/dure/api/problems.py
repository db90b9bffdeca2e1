"""The one place where an error becomes an answer: problem+json (RFC 9457) with Dure's reason and remedy.

Used by Litestar for everything raised in a handler, and by the gate for what never reaches one.
"""

from __future__ import annotations

import http
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_TYPE = "https://dure.dev/problems/"
_log = structlog.get_logger("dure.api")


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several things wrong with a document."""

    where: str
    message: str
    path: str = ""
    remedy: str = ""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """`reason` is one of Dure's stable codes where there is one; `remedy` says what to do."""

    type: str
    title: str
    status: int
    detail: str = ""
    where: str = ""
    reason: str = ""
    remedy: str = ""
    errors: tuple[Detail, ...] = ()


def problem_of(error: Exception) -> Problem:
    """Any error as a problem; those nobody foresaw tell nothing of the inside."""
    if isinstance(error, DureError):
        return Problem(
            type=_type(type(error).title),
            title=error.title,
            status=error.status,
            detail=error.message,
            where=error.where,
            reason=error.reason,
            remedy=error.remedy,
            errors=tuple(
                Detail(problem.where, problem.message, problem.path, problem.remedy)
                for problem in getattr(error, "problems", ())
            ),
        )
    if isinstance(error, RecursionError):
        return of_status(400, "the body is nested too deeply")
    if isinstance(error, HTTPException):
        return of_status(error.status_code, error.detail, errors=_details(error))
    return of_status(500, "Dure failed to answer; the log of the server has the details.")


def of_status(status: int, detail: str = "", *, remedy: str = "", errors: tuple[Detail, ...] = ()) -> Problem:
    title = next((kind.title for kind in _KINDS if kind.status == status), "") or _phrase(status)
    return Problem(type=_type(title), title=title, status=status, detail=detail, remedy=remedy, errors=errors)


def encode(problem: Problem) -> bytes:
    return _ENCODER.encode(problem)


def handle(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's exception handler for everything."""
    problem = problem_of(error)
    if problem.status >= 500 and not isinstance(error, Temporary):
        _log.error("request failed", path=request.scope["path"], exc_info=error)
    headers = dict(getattr(error, "headers", None) or {})
    if isinstance(error, Temporary):
        headers["retry-after"] = str(RETRY_AFTER_S)
    return Response(encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


class PreconditionFailed(HTTPException):
    """`If-Match` names another version than the one that is there."""

    status_code = 412


class UnsupportedMediaType(HTTPException):
    status_code = 415


def _details(error: HTTPException) -> tuple[Detail, ...]:
    extra = error.extra if isinstance(error.extra, list) else []
    return tuple(
        Detail(where=_source(item.get("source")), path=str(item.get("key", "")), message=str(item.get("message", "")))
        for item in extra
        if isinstance(item, dict)
    )


def _source(source: Any) -> str:
    """Litestar names where a parameter stands by an enum."""
    return str(getattr(source, "value", source) or "")


def _type(title: str) -> str:
    return _TYPE + title.lower().replace(" ", "-")


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Failed"


_KINDS: tuple[type[DureError], ...] = (InvalidInput, NotAllowed, NotFound, Conflict, Temporary, Permanent)
_ENCODER = msgspec.json.Encoder()
