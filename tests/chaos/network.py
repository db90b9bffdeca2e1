"""A bad network between agents and plane: loses, delays, repeats and reorders what they say, cuts whole clusters off.

A proxy on loopback that knows requests but not what they mean. A request that is lost, or whose answer is, looks to
the agent like a broken connection. One that is late reaches the plane after its sender has given up and said newer
things; one that is doubled reaches it again after those.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

# Per request, in this order; the rest goes through untouched.
CHANCES = {"lost": 0.06, "deaf": 0.06, "late": 0.05, "doubled": 0.08, "slow": 0.15}
LATE_S = (0.3, 6.0)
SLOW_S = (0.05, 1.5)
# Now and then a cluster hears nothing for a while.
CUT = 0.01
CUT_S = (0.5, 5.0)
HOP = ("connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length", "date", "server")


class Network:
    def __init__(self, port: int, chance: random.Random) -> None:
        self.port, self.healed = port, False
        self._chance, self._lock = chance, threading.Lock()
        self._counts: Counter[str] = Counter()
        self._cut_until: dict[str, float] = {}
        self._server = _Server(("127.0.0.1", 0), type("Hop", (_Hop,), {"network": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="network", daemon=True).start()

    def heal(self) -> None:
        self.healed = True

    def told(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fate(self, path: str) -> tuple[str, float]:
        """What becomes of a request, and after how many seconds."""
        with self._lock:
            fate, delay_s = self._draw(path.split("/")[3])
            self._counts[fate] += 1
        return fate, delay_s

    def _draw(self, cluster: str) -> tuple[str, float]:
        if self.healed:
            return "through", 0.0
        if time.monotonic() < self._cut_until.get(cluster, 0.0):
            return "cut", 0.0
        if self._chance.random() < CUT:
            self._cut_until[cluster] = time.monotonic() + self._chance.uniform(*CUT_S)
            return "cut", 0.0
        drawn = self._chance.random()
        for fate, share in CHANCES.items():
            if drawn < share:
                return fate, self._chance.uniform(*(SLOW_S if fate == "slow" else LATE_S))
            drawn -= share
        return "through", 0.0


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever is killed hangs up in the middle; that is what this is for."""


class _Hop(BaseHTTPRequestHandler):
    network: ClassVar[Network]
    protocol_version = "HTTP/1.1"

    def _carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate, delay_s = self.network.fate(self.path)
        if fate in ("lost", "cut"):
            self.close_connection = True
            return
        if fate == "late":
            self._later(delay_s, body)
            self.close_connection = True
            return
        if fate == "slow":
            time.sleep(delay_s)
        try:
            status, headers, content = self._forward(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        if fate == "doubled":
            self._later(delay_s, body)
        if fate == "deaf":
            self.close_connection = True
            return
        self._answer(status, headers, content)

    do_GET = do_POST = _carry  # noqa: N815 - the names that the library calls

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in HOP:
                    self.send_header(name, value)
            if status not in (204, 304):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def _later(self, delay_s: float, body: bytes) -> None:
        def forward() -> None:
            try:
                self._forward(body)
            except (OSError, http.client.HTTPException):
                return

        timer = threading.Timer(delay_s, forward)
        timer.daemon = True
        timer.start()

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        there = http.client.HTTPConnection("127.0.0.1", self.network.port, timeout=60.0)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            there.request(self.command, self.path, body=body or None, headers=headers)
            answer = there.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            there.close()

    def log_message(self, *_: object) -> None:
        """Counted, not told."""
