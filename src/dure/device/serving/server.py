"""The server's door: `POST /v1/infer`, `GET /health`, `GET /metrics`, `POST /drain`.

Ready only after the model was warmed up. Draining: no longer ready, but whoever still comes is answered; the end
waits for `linger_s` (whoever routes needs a moment to notice) and then for the last request inside.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import structlog

from dure.adapters.shapes import settle
from dure.device.serving.backend import Backend
from dure.device.serving.figures import Figures
from dure.device.slice_wire import Array, packed, unpacked
from dure.model.errors import DureError

log = structlog.get_logger()
WARM_UP = 3
LOOK_S = 0.05


class Question(msgspec.Struct, frozen=True):
    """`data` of an array is base64 in JSON."""

    inputs: dict[str, Array]


class ModelServer:
    """Serves until `drain` has ended and `close` is called."""

    def __init__(self, backend: Backend, name: str, sample: dict[str, Any], address: tuple[str, int]) -> None:
        settle()
        self.backend = backend
        self.figures = Figures(name)
        self._sample = sample
        self._lock = threading.Lock()
        self._warm = False
        self._draining = threading.Event()
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._http = _Http(address, handler)
        self.port = int(self._http.server_address[1])
        self._threads = [
            threading.Thread(target=self._http.serve_forever, args=(LOOK_S,), name="http", daemon=True),
            threading.Thread(target=self._warm_up, name="warm-up", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ready(self) -> bool:
        return self._warm and self.backend.ready and not self._draining.is_set()

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        request = self.figures.request()
        with self._lock:
            request.__enter__()
        try:
            outputs = self.backend.infer(inputs)
        except BaseException as error:
            with self._lock:
                request.__exit__(type(error), error, error.__traceback__)
            raise
        with self._lock:
            request.__exit__(None, None, None)
        return outputs

    def metrics(self) -> bytes:
        with self._lock:
            self.figures.set_memory(self.backend.memory_mib)
            return self.figures.text()

    def drain(self, linger_s: float = 0.0, patience_s: float = 60.0) -> bool:
        """No longer ready; answers whether nobody is inside any more."""
        self._draining.set()
        quiet = threading.Event()
        quiet.wait(linger_s)
        left_s = patience_s
        while self.figures.inside and left_s > 0.0:
            quiet.wait(LOOK_S)
            left_s -= LOOK_S
        return not self.figures.inside

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.backend.close()

    def _warm_up(self) -> None:
        """Once: a daemon that loads the model again measures it, which warms it too."""
        done = 0
        pause = threading.Event()
        while done < WARM_UP and not self._draining.is_set():
            try:
                self.backend.infer(self._sample)
                done += 1
            except DureError:
                pause.wait(LOOK_S)
        self._warm = done == WARM_UP
        log.info("warm", ready=self.ready)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # A surge opens many connections at once; one that finds no place is tried again by its kernel a second later.
    request_queue_size = 512


class _Handler(BaseHTTPRequestHandler):
    server_of: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        match self.path:
            case "/health":
                ready = self.server_of.ready
                self._write(200 if ready else 503, {"ready": ready})
            case "/metrics":
                self._send(200, "text/plain; version=0.0.4", self.server_of.metrics())
            case _:
                self._write(404, {"detail": f"nothing at {self.path}"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.path:
            case "/v1/infer":
                self._infer(body)
            case "/drain":
                self._write(200, {"drained": self.server_of.drain()})
            case _:
                self._write(404, {"detail": f"nothing at {self.path}"})

    def log_message(self, *_: object) -> None:
        """Requests are counted, not logged line by line."""

    def _infer(self, body: bytes) -> None:
        try:
            question = msgspec.json.decode(body, type=Question)
            outputs = self.server_of.infer(unpacked(question.inputs))
            self._write(200, {"outputs": packed(outputs)})
        except DureError as error:
            self._write(error.status, {"title": error.title, "detail": str(error)})
        except (msgspec.MsgspecError, ValueError) as error:
            self._write(400, {"title": "Invalid input", "detail": str(error)})
        except TimeoutError:
            self._write(504, {"title": "Too late", "detail": "the device did not answer in time"})

    def _write(self, status: int, value: object) -> None:
        self._send(status, "application/json", msgspec.json.encode(value))

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if self.server_of._draining.is_set():
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
