"""A submission from its body to its answer: read, checked, handed to the desk; or what went wrong, in words.

Called by the application (`app`) and by the short way (`door`); both answer the same.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

import msgspec
import structlog
import yaml
from litestar.exceptions import HTTPException

from dure.gateway.desk import Answer, Desk
from dure.gateway.who import Doorman
from dure.model.errors import DureError, InvalidInput, Temporary

MOST_DOCUMENTS = 1000
MOST_PARTS = 1_000_000
_log = structlog.get_logger("dure.gateway")


class Asked(NamedTuple):
    """One request for Jobs. `authorization` and `key` are the headers of these names; `policy` as for the desk."""

    body: bytes
    authorization: str = ""
    key: str = ""
    policy: str = ""
    dry_run: bool = False


class Submitted(msgspec.Struct, frozen=True):
    jobs: tuple[Answer, ...]


class Reply(NamedTuple):
    """An answer over HTTP that is not bound to any server."""

    status: int
    body: bytes
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def take_in(desk: Desk, doorman: Doorman, asked: Asked) -> tuple[Answer, ...]:
    """All documents are checked before the first is created, so that a mistake in the last creates nothing."""
    began = time.perf_counter()
    caller = doorman.caller(asked.authorization)
    found = documents(asked.body)
    if not 1 <= len(found) <= MOST_DOCUMENTS:
        raise InvalidInput(f"the body holds {len(found)} documents; 1 to {MOST_DOCUMENTS} are taken")
    places = [f"document {number}" if len(found) > 1 else "job" for number in range(1, len(found) + 1)]
    if len(found) > 1 and not asked.dry_run:
        for where, one in zip(places, found, strict=True):
            desk.submit(one, caller, where=where, name=asked.policy, dry_run=True)
    answers = tuple(
        desk.submit(
            one,
            caller,
            where=where,
            key=f"{asked.key}/{where}" if asked.key else "",
            name=asked.policy,
            dry_run=asked.dry_run,
        )
        for where, one in zip(places, found, strict=True)
    )
    desk.metrics.took.observe(time.perf_counter() - began)
    return answers


def answered(desk: Desk, doorman: Doorman, asked: Asked) -> Reply:
    """What `POST /v1/jobs` says, whatever happens."""
    try:
        answers = take_in(desk, doorman, asked)
    except Exception as error:
        return problem(error, "/v1/jobs")
    return Reply(200 if asked.dry_run else 201, msgspec.json.encode(Submitted(answers)))


def problem(error: Exception, path: str) -> Reply:
    """problem+json (RFC 9457), like Dure's other API."""
    fields: dict[str, Any]
    if isinstance(error, DureError):
        fields = {"title": error.title, "status": error.status, "detail": error.message}
        fields |= {name: getattr(error, name) for name in ("where", "reason", "remedy") if getattr(error, name)}
    elif isinstance(error, HTTPException):
        fields = {"title": "Invalid request", "status": error.status_code, "detail": error.detail}
    else:
        _log.error("request failed", path=path, exc_info=error)
        fields = {
            "title": "Failed",
            "status": 500,
            "detail": "The gateway failed to answer; its log has the details.",
        }
    headers = [("retry-after", "2")] if isinstance(error, Temporary) else []
    if fields["status"] == 401:
        headers.append(("www-authenticate", 'Bearer realm="dure"'))
    body = msgspec.json.encode({"type": "about:blank", **fields})
    return Reply(fields["status"], body, "application/problem+json", tuple(headers))


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
