"""Everything the handlers share, and how a handler reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litestar import Request

from dure.api.auth import Keys
from dure.api.backend import Backend, Shares
from dure.api.board import Maps
from dure.api.insight import Insight
from dure.api.intake import Intake
from dure.api.metrics import Metrics
from dure.api.past import Past
from dure.api.people import Directory
from dure.api.pulse import Pulse
from dure.api.stream import Stream

if TYPE_CHECKING:
    from dure.adapters.oidc import Relying
    from dure.adapters.pki import Authority

STATE_KEY = "service"


@dataclass(frozen=True)
class Service:
    backend: Backend
    keys: Keys
    pulse: Pulse
    stream: Stream
    metrics: Metrics
    intake: Intake
    people: Directory
    insight: Insight
    past: Past
    maps: Maps
    shares: Shares | None = None
    authority: Authority | None = None
    relying: Relying | None = None


def service_of(request: Request[Any, Any, Any]) -> Service:
    service = request.app.state[STATE_KEY]
    assert isinstance(service, Service)
    return service
