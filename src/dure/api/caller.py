"""Who makes this request, as the gate has found out; how every handler learns it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection

from dure.model.who import Who

# Of the ASGI scope; the gate writes it before any handler runs.
SCOPE_KEY = "dure.who"
# Those whom the gate lets through unknown: readiness probes, the sign-in page, agents with their own credential.
NOBODY = Who("nobody")


def who_of(request: Request[Any, Any, Any] | ASGIConnection[Any, Any, Any, Any]) -> Who:
    scope: MutableMapping[str, Any] = request.scope  # type: ignore[assignment]  # Litestar types its keys one by one
    who = scope.get(SCOPE_KEY, NOBODY)
    assert isinstance(who, Who)
    return who
