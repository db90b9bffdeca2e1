"""An HTTP server on loopback in a thread of this process, for as long as a block lasts."""

import http.server
import ssl
import threading
from types import TracebackType
from typing import Self

from lab.components import LOOPBACK


class Loopback:
    """Answers by `handler`, over TLS where a context is given; takes any free port."""

    def __init__(
        self, handler: type[http.server.BaseHTTPRequestHandler], name: str, tls: ssl.SSLContext | None = None
    ) -> None:
        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True
        if tls is not None:
            plain = self._server.socket
            self._server.socket = tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self.port = int(self._server.server_address[1])
        self.address = f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that says in `get` what a GET is answered, and writes no line for each request."""

    def get(self) -> None:
        self.reply(404, b"{}")

    def do_GET(self) -> None:
        self.get()

    def reply(self, status: int, body: bytes, media_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return
