"""Workloads may name classes that only the server's fleet has; a mistake is told with or without a server."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dure.cli.documents import read_workloads
from dure.files import InvalidFile
from dure.files.builtin import catalogue

JOB = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: job, tenant: lab}
spec: {type: batch, classes: [CLASS], demand: {devices: 1, memory: 4GiB}, duration: 1h}
"""


class _Fleet(http.server.BaseHTTPRequestHandler):
    """A server whose fleet has one class of its own."""

    def do_GET(self) -> None:
        own = msgspec.structs.replace(catalogue().classes["l4"], name="house-npu")
        body = json.dumps({"items": [json.loads(msgspec.json.encode(own))]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Fleet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("DURE_URL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("DURE_TOKEN", "x" * 32)
        yield
        server.shutdown()
        thread.join()


def file_of(folder: Path, class_name: str) -> str:
    path = folder / "job.yaml"
    path.write_text(JOB.replace("CLASS", class_name))
    return str(path)


@pytest.mark.usefixtures("served")
def test_a_class_of_the_fleets_own_is_taken(tmp_path: Path) -> None:
    [(name, text)] = read_workloads(file_of(tmp_path, "house-npu"), tmp_path)
    assert name == "job"
    assert "house-npu" in text


@pytest.mark.usefixtures("served")
def test_a_class_that_nobody_has_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="Did you mean 'house-npu'"):
        read_workloads(file_of(tmp_path, "house-npv"), tmp_path)


def test_without_a_server_the_mistake_in_the_file_is_what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("DURE_TOKEN", "x" * 32)
    with pytest.raises(InvalidFile, match="unknown accelerator class 'house-npu'"):
        read_workloads(file_of(tmp_path, "house-npu"), tmp_path)
