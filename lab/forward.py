"""Names of cluster services that lead to loopback servers, for controllers that run outside of any cluster network.

A controller is started with `HTTP_PROXY` set to this forwarder (`lab.keda`); a manifest may then keep the address it
would have in production. A name nobody has given a server, or one whose server is gone, answers 502. Every answer is
kept, so that a test knows what a controller was told instead of guessing it.
"""

import contextlib
import http.client
import http.server
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from lab.components import LOOPBACK


@dataclass(frozen=True)
class Exchange:
    """One question that was forwarded and what was answered; `at_s` is the monotonic clock before the answer left."""

    at_s: float
    name: str
    path: str
    status: int
    body: bytes


class Forwarder:
    """Runs while the block lasts. `routes` maps `host:port` to the URL of a loopback server; it may be changed."""

    def __init__(self, routes: Mapping[str, str]) -> None:
        self.routes = dict(routes)
        self.exchanges: list[Exchange] = []
        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), _handler(self.routes, self.exchanges))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="lab-forward", daemon=True)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(routes: Mapping[str, str], exchanges: list[Exchange]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urllib.parse.urlsplit(self.path)
            target = routes.get(asked.netloc)
            path = urllib.parse.urlunsplit(("", "", asked.path, asked.query, ""))
            try:
                status, raw = _fetch(target, path) if target else (502, f"no server for {asked.netloc}".encode())
            except (OSError, http.client.HTTPException) as error:
                status, raw = 502, str(error).encode()
            exchanges.append(Exchange(time.monotonic(), asked.netloc, path, status, raw))
            # Who asked may have hung up meanwhile.
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            return

    return Handler


def _fetch(target: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(target).netloc, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
