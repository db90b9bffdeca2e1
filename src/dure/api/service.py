"""Everything the handlers share, and how a handler reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from litestar import Request

from dure.api.auth import Keys
from dure.api.backend import Backend, Shares
from dure.api.board import Maps
from dure.api.insight import Insight
from dure.api.metrics import Metrics
from dure.api.past import Past
from dure.api.pulse import Pulse
from dure.api.stream import Stream

STATE_KEY = "service"


@dataclass(frozen=True)
class Service:
    backend: Backend
    keys: Keys
    pulse: Pulse
    stream: Stream
    metrics: Metrics
    insight: Insight
    past: Past
    maps: Maps
    shares: Shares | None = None


def service_of(request: Request[Any, Any, Any]) -> Service:
    service = request.app.state[STATE_KEY]
    assert isinstance(service, Service)
    return service
