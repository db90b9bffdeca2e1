"""The daemon's door: the same JSON API over a unix socket and over HTTP on loopback.

Requests of tenants (`POST /v1/tenants/NAME/infer`), what the CLI and the dashboard ask (`/v1/share/...`). Every
answer is JSON; errors are problem+json with the status of the error's kind.
"""

from __future__ import annotations

import base64
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np

from dure.adapters.shapes import settle
from dure.device import board
from dure.device.executor import Executor
from dure.model.errors import DureError, InvalidInput, NotFound

DTYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")


class Tensor(msgspec.Struct, frozen=True):
    """`data` is base64 of the raw little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: str


class Infer(msgspec.Struct, frozen=True):
    inputs: dict[str, Tensor]


class Door:
    """Both listeners of one executor; `address` is where HTTP answers."""

    def __init__(self, executor: Executor, socket_path: Path | None, port: int = 0) -> None:
        settle()
        handler = type("Handler", (_Handler,), {"executor": executor})
        self._servers: list[Any] = [ThreadingHTTPServer(("127.0.0.1", port), handler)]
        self.address = f"http://127.0.0.1:{self._servers[0].server_address[1]}"
        if socket_path is not None:
            socket_path.unlink(missing_ok=True)
            self._servers.append(_UnixServer(str(socket_path), handler))
            socket_path.chmod(0o600)
        self._threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in self._servers]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[Any, Any]:
        connection, _ = super().get_request()
        return connection, ("local", 0)


class _Handler(BaseHTTPRequestHandler):
    executor: Executor
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, *args: Any) -> None:
        """Requests are counted, not logged line by line."""

    def _answer(self) -> None:
        try:
            size = int(self.headers.get("Content-Length") or 0)
            body = msgspec.json.decode(self.rfile.read(size)) if size else {}
            self._write(200, route(self.executor, self.command, self.path, body))
        except DureError as error:
            self._write(error.status, {"title": error.title, "status": error.status, "detail": str(error)})
        except (msgspec.DecodeError, ValueError) as error:
            self._write(400, {"title": "Invalid input", "status": 400, "detail": str(error)})

    def _write(self, status: int, value: Any) -> None:
        data = msgspec.json.encode(value)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def route(executor: Executor, method: str, target: str, body: Any) -> Any:
    """What one request asks for, as a value."""
    url = urlsplit(target)
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    match method, url.path.strip("/").split("/"):
        case "POST", ["v1", "tenants", tenant, "infer"]:
            inputs = {name: to_array(t) for name, t in msgspec.convert(body, Infer).inputs.items()}
            outputs = executor.submit(tenant, inputs).result()
            return {"outputs": {name: to_tensor(value) for name, value in outputs.items()}}
        case "GET", ["v1", "share", "status"]:
            return board.status(executor, pairs=True)
        case "PUT", ["v1", "share", "policy"]:
            executor.set_policy(msgspec.convert(body, board.PolicyChange).policy)
            return board.status(executor, pairs=True)
        case "GET", ["v1", "share", "squads"]:
            return board.squads(executor, int(query.get("after", "0")))
        case "GET", ["v1", "share", "timeline"]:
            return board.timeline(executor, float(query.get("window", "5000")))
        case "POST", ["v1", "share", "feedback"]:
            return board.say(executor, msgspec.convert(body, board.Feedback))
    raise NotFound(f"nothing at {method} {url.path}", remedy="See docs/share.md for the daemon's API.")


def to_array(tensor: Tensor) -> Any:
    """A numpy array from its JSON form; `InvalidInput` when bytes and shape disagree."""
    if tensor.dtype not in DTYPES:
        raise InvalidInput(f"dtype '{tensor.dtype}' is not supported", remedy=f"Use one of: {', '.join(DTYPES)}.")
    try:
        return np.frombuffer(base64.b64decode(tensor.data, validate=True), tensor.dtype).reshape(tensor.shape)
    except ValueError as error:
        raise InvalidInput(f"tensor data does not fit its shape: {error}") from error


def to_tensor(array: Any) -> Tensor:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return Tensor(str(array.dtype), tuple(int(d) for d in array.shape), data)
