"""A webhook and a mail server on loopback that do what the test tells them."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook(ThreadingHTTPServer):
    """Answers `answers` in order, then 200; keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _HookHandler)
        self.answers: list[int] = []
        self.taken: list[tuple[dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"local+http://127.0.0.1:{self.server_port}/hook"


class _HookHandler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.taken.append(({key.lower(): value for key, value in self.headers.items()}, body))
        self.send_response(status)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Tests are quiet."""


class Post(socketserver.ThreadingTCPServer):
    """As much of SMTP as a client without extensions needs; `refuse` is the answer to a recipient, if any."""

    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _PostHandler)
        self.refuse: list[str] = []
        self.letters: list[str] = []

    @property
    def address(self) -> str:
        return f"local+smtp://127.0.0.1:{self.server_address[1]}/ops@example.org?from=dure@example.org"


class _PostHandler(socketserver.StreamRequestHandler):
    server: Post

    def handle(self) -> None:
        self._say("220 post")
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word == "RCPT" and self.server.refuse:
                self._say(self.server.refuse.pop(0))
            elif word == "DATA":
                self._say("354 go on")
                self.server.letters.append("".join(iter(self._line, ".\r\n")))
                self._say("250 kept")
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _line(self) -> str:
        return self.rfile.readline().decode()

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
