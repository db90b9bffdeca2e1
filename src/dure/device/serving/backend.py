"""Where the server's model runs: on the slice that the container was given, or in this process.

A slice whose daemon went away is opened again for as long as the server lives; requests in between fail as temporary.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol

import structlog

from dure.device.slice_client import SliceClient
from dure.model.errors import DureError, Temporary

log = structlog.get_logger()
RETRY_S = 0.5


class Backend(Protocol):
    @property
    def ready(self) -> bool: ...
    @property
    def memory_mib(self) -> int: ...
    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]: ...
    def close(self) -> None: ...


class SliceBackend:
    """Keeps one slice open."""

    def __init__(self, path: Path, model: Path, latency_ms: float | None = None) -> None:
        self._path = path
        self._model = model
        self._latency_ms = latency_ms
        self._client: SliceClient | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="slice-keeper", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        return self._client is not None and self._client.alive

    @property
    def memory_mib(self) -> int:
        return self._client.opened.memory_mib if self._client is not None else 0

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        client = self._client
        if client is None:
            raise Temporary("the slice is not open yet")
        return client.infer(inputs)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5.0)
        if self._client is not None:
            self._client.close()

    def _keep(self) -> None:
        while not self._stop.is_set():
            if not self.ready:
                self._open()
            self._stop.wait(RETRY_S)

    def _open(self) -> None:
        if self._client is not None:
            self._client.close()
        try:
            self._client = SliceClient(self._path, self._model, latency_ms=self._latency_ms)
        except DureError as error:
            self._client = None
            log.warning("the slice cannot be opened", why=str(error))


class DirectBackend:
    """The whole model in this process, with the threads of this container."""

    ready = True
    memory_mib = 0

    def __init__(self, model: Path, threads: int = 1) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(self._names, self._session.run(self._names, inputs), strict=True))

    def close(self) -> None:
        return
