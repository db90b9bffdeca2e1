"""Spans for OpenTelemetry, or nothing at all: the extra `otel` brings the library, an endpoint switches it on.

`dure up` calls `install` once, when `OTEL_EXPORTER_OTLP_ENDPOINT` is set; processes wrap their turns in `span`.
Without a tracer `span` hands out one shared object that does nothing, so that the library is neither imported nor
paid for.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from dure.model.errors import InvalidInput

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
Attribute = str | int | float | bool


class Tracer(Protocol):
    """As much of OpenTelemetry's tracer as is used here."""

    def start_as_current_span(self, name: str, *, attributes: Any = None) -> AbstractContextManager[Any]: ...


_NOTHING: AbstractContextManager[Any] = nullcontext()
_tracer: Tracer | None = None


def span(name: str, **attributes: Attribute) -> AbstractContextManager[Any]:
    """A span around a block; attributes are figures known at its beginning."""
    return _NOTHING if _tracer is None else _tracer.start_as_current_span(name, attributes=attributes)


def install(tracer: Tracer | None) -> None:
    """From now on spans go to this tracer; None switches them off."""
    global _tracer  # one process has one tracer, as the library has it too
    _tracer = tracer


def from_environment(service: str) -> None:
    """Export spans when the usual variable names an endpoint; says what to install when the library is missing."""
    if not os.environ.get(ENDPOINT):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise InvalidInput(
            f"{ENDPOINT} is set, but OpenTelemetry is not installed", remedy="Install it: pip install 'dure[otel]'"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    install(provider.get_tracer("dure"))
