"""Exporters for a real Prometheus: pages of metrics on loopback, and who is to be scraped, as monitors say it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.rest import Json


class Pages:
    """Serves `texts` by path while the block lasts; a path nobody shows is not found."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.texts))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def target(self, path: str, labels: Mapping[str, str]) -> Json:
        """One page as a target of Prometheus' file discovery."""
        return {"targets": [self.address], "labels": {"__metrics_path__": path, **labels}}


def write_targets(path: Path, targets: list[Json]) -> None:
    """In one step: Prometheus reads the file whenever it changes."""
    text = json.dumps(targets)
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def scraped_by(file: Path, *, job: str, honor_labels: bool = False) -> Json:
    """A scrape configuration that finds its targets in a file."""
    return {
        "job_name": job,
        "honor_labels": honor_labels,
        "scrape_interval": "2s",
        "scrape_timeout": "2s",
        "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}],
    }


def _handler(texts: Mapping[str, str]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = texts.get(self.path)
            # Prometheus hangs up when it has waited too long; it comes again.
            with contextlib.suppress(ConnectionError):
                self.send_response(404 if text is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            return

    return Handler
