"""Spans: nothing without a tracer, the real library's where it is asked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dure.adapters import tracing


@pytest.fixture
def switched_off_after() -> Iterator[None]:
    yield
    tracing.install(None)


def test_without_a_tracer_all_spans_are_one_object_and_the_library_is_not_imported() -> None:
    assert tracing.span("a") is tracing.span("b", workloads=3)
    code = "import sys, dure.api.gate, dure.plane.loop; print('opentelemetry' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_spans_reach_the_librarys_exporter_nested_and_with_attributes(switched_off_after: None) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.install(provider.get_tracer("test"))
    with tracing.span("plane.turn", at_s=1.5), tracing.span("plane.decide", workloads=3):
        pass
    inner, outer = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("plane.decide", "plane.turn")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id
    assert dict(inner.attributes or {}) == {"workloads": 3}
    provider.shutdown()


class Taker(BaseHTTPRequestHandler):
    taken: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.taken.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Tests are quiet."""


def test_an_endpoint_in_the_environment_gets_the_spans_of_the_process() -> None:
    server = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    code = (
        "from dure.adapters import tracing; tracing.from_environment('dure-test')\n"
        "with tracing.span('plane.turn', at_s=1.0): pass\n"
    )
    env = {tracing.ENDPOINT: f"http://127.0.0.1:{server.server_port}", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    server.shutdown()
    thread.join()
    server.server_close()
    ((path, body),) = Taker.taken
    assert path == "/v1/traces"
    assert b"plane.turn" in body
    assert b"dure-test" in body
