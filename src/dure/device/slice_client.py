"""A container's side of its slice: open it with a model, ask, close. Used by the model server and by tests.

with SliceClient.from_environment(Path("model.onnx")) as device:
    outputs = device.infer({"input": array})
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from dure.adapters.shapes import settle
from dure.device.slice_wire import Answer, Ask, FromDaemon, Open, Opened, Problem, packed, receive, send, unpacked
from dure.model.errors import InvalidInput, NotAllowed, Temporary

OPEN_S = 120.0
"""Loading and measuring a model takes its time."""


class SliceClient:
    """One slice. Safe to call from many threads; answers may come in another order than questions."""

    def __init__(self, path: Path, model: Path, *, segments: int = 8, latency_ms: float | None = None) -> None:
        settle()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(OPEN_S)
        try:
            self._connection.connect(str(path))
            send(self._connection, Open(model.read_bytes(), model.suffix, segments, latency_ms))
            self.opened = self._welcome()
        except OSError as error:
            self._connection.close()
            raise Temporary(f"the device daemon does not answer on {path}: {error}") from error
        except BaseException:
            self._connection.close()
            raise
        self._connection.settimeout(None)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lost: str = ""
        self._reader = threading.Thread(target=self._read, name="slice", daemon=True)
        self._reader.start()

    @classmethod
    def from_environment(cls, model: Path, **more: Any) -> SliceClient:
        """The slice that the device plugin gave this container."""
        path = os.environ.get("DURE_DEVICE")
        if not path:
            raise InvalidInput(
                "this container was given no slice", remedy="Ask for dure.dev/virtual: 1 in its limits."
            )
        return cls(Path(path), model, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return not self._lost

    def infer(self, inputs: dict[str, Any], timeout_s: float = 60.0) -> dict[str, Any]:
        return self.submit(inputs).result(timeout_s)

    def submit(self, inputs: dict[str, Any]) -> Future[dict[str, Any]]:
        """A future of the outputs; `Temporary` when the daemon or the tenant's process failed."""
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._lost:
                raise Temporary(self._lost)
            number = next(self._numbers)
            self._waiting[number] = answer
            try:
                send(self._connection, Ask(number, packed(inputs)))
            except OSError as error:
                del self._waiting[number]
                raise Temporary(f"the slice is gone: {error}") from error
        return answer

    def close(self) -> None:
        self._lost = self._lost or "the slice was closed"
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join(5.0)
        self._connection.close()

    def _welcome(self) -> Opened:
        message = receive(self._connection, FromDaemon)
        match message:
            case Opened():
                return message
            case Problem(status=503):
                raise Temporary(message.detail)
            case Problem():
                raise NotAllowed(message.detail)
        raise Temporary("the device daemon closed the slice")

    def _read(self) -> None:
        try:
            while (message := receive(self._connection, FromDaemon)) is not None:
                self._take(message)
        except (OSError, InvalidInput) as error:
            self._lost = str(error)
        with self._lock:
            self._lost = self._lost or "the device daemon closed the slice"
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(Temporary(self._lost))

    def _take(self, message: Any) -> None:
        with self._lock:
            future = self._waiting.pop(message.number, None)
        if future is None:
            return
        if isinstance(message, Answer):
            future.set_result(unpacked(message.outputs))
        else:
            future.set_exception(Temporary(message.detail))
