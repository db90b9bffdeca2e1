"""Slices of virtual accelerators: a socket for each, and behind it the executor that forms squads across containers.

The process of `dure device serve`. Whoever holds a slice's socket is that slice: the device plugin mounts it into one
container. A container brings its model; its connection is its lease, so a container that is killed frees memory,
threads and the slice at that moment. Compute is limited to the slice's part of the accelerator, memory by the
tenant's process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import structlog

from dure.adapters.shapes import settle
from dure.device.config import AUTO, DeviceConfig, TenantConfig
from dure.device.cores import own, shared_out
from dure.device.executor import Executor
from dure.device.plugin.inject import SOCKET
from dure.device.plugin.node import Accelerator, Mode, NodeConfig, Unit, units
from dure.device.slice_wire import Answer, Ask, FromContainer, Open, Opened, Problem, packed, receive, send, unpacked
from dure.model.errors import Conflict, DureError, InvalidInput
from dure.share.promise import Promise

log = structlog.get_logger()
SUFFIXES = (".onnx", ".pt2")
SWITCH_S = 0.0005
"""How long one thread of the daemon may keep the others waiting: a tenth of what Python grants it."""
COLLECT_AFTER = 50_000
"""New objects until the interpreter looks for circles among them."""


class Slices:
    """All virtual accelerators of one node, from here until `close`; `processors` are those of each one's own."""

    def __init__(
        self, config: NodeConfig, policy: str = AUTO, processors: tuple[frozenset[int], ...] | None = None
    ) -> None:
        settle()
        virtual, cores = _virtual(config)
        self.executors = {
            device.name: _executor(device, cores, policy, theirs)
            for device, theirs in zip(virtual, processors or (frozenset(),) * len(virtual), strict=True)
        }
        self._folder = tempfile.TemporaryDirectory(prefix="dure-slices-")
        self.doors = {
            unit.id: _Door(unit, self.executors[unit.device.name], Path(config.sockets), Path(self._folder.name))
            for unit in units(config)
            if unit.device.mode is Mode.VIRTUAL
        }

    def open(self) -> dict[str, str]:
        """Which slices somebody uses now, and how."""
        return {name: door.state for name, door in self.doors.items() if door.state}

    def close(self) -> None:
        for door in self.doors.values():
            door.close()
        for executor in self.executors.values():
            executor.close()
        self._folder.cleanup()


def quicken() -> None:
    """For the process of a daemon whose answers should take equally long: threads give way to each other soon, and
    what is there by now is never again searched for circles, nor what comes after every 700 objects."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def own_processors(config: NodeConfig) -> tuple[frozenset[int], ...]:
    """Of each virtual accelerator of the node, the processors that are its own."""
    virtual, cores = _virtual(config)
    return own(os.sched_getaffinity(0), cores, len(virtual))


def _virtual(config: NodeConfig) -> tuple[list[Accelerator], int]:
    """The virtual accelerators and how many cores each has."""
    virtual = [device for device in config.devices if device.mode is Mode.VIRTUAL]
    if not virtual:
        raise InvalidInput("this node has no virtual accelerator", remedy="Add a device with `mode: virtual`.")
    return virtual, max(1, shared_out(config.cores, os.cpu_count() or 1) // len(virtual))


def _executor(device: Accelerator, cores: int, policy: str, processors: frozenset[int]) -> Executor:
    config = DeviceConfig((), name=device.name, policy=policy, cores=cores, memory_mib=device.memory_mib)
    return Executor(config, processors=processors)


class _Door:
    """One slice's socket: one container at a time."""

    def __init__(self, unit: Unit, executor: Executor, sockets: Path, models: Path) -> None:
        self.unit = unit
        self.state = ""
        self._executor = executor
        self._models = models
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._closing = False
        folder = sockets / unit.id
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / SOCKET
        self._path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        # Whoever has the folder mounted may use it, whichever user its container runs as.
        self._path.chmod(0o666)
        self._server.listen(16)
        self._thread = threading.Thread(target=self._accept, name=f"slice-{unit.id}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closing = True
            found = [self._server, *self._connections]
        for one in found:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join(5.0)
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Until the container closes or dies; a probe that only connects leaves no trace."""
        try:
            first = receive(connection, FromContainer)
            if first is not None:
                self._lease(connection, first)
        except DureError as error:
            _tell(connection, Problem(0, error.status, str(error)))
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _lease(self, connection: socket.socket, first: FromContainer) -> None:
        if not isinstance(first, Open) or first.suffix not in SUFFIXES:
            raise InvalidInput("a slice is opened with a model", remedy=f"Send a file of {', '.join(SUFFIXES)}.")
        with self._lock:
            if self.state:
                raise Conflict(f"slice {self.unit.id} is in use", remedy="A slice is one container's at a time.")
            self.state = "loading"
        model = self._models / f"{self.unit.id}{first.suffix}"
        try:
            model.write_bytes(first.model)
            self._executor.come(self._tenant(first, model)).result()
            self.state = "open"
            log.info("a slice is open", slice=self.unit.id)
            send(connection, Opened(self.unit.id, self.unit.compute_milli, self.unit.memory_mib))
            self._answer_all(connection)
        finally:
            self._executor.go(self.unit.id).result()
            model.unlink(missing_ok=True)
            self.state = ""
            log.info("a slice is free", slice=self.unit.id)

    def _tenant(self, asked: Open, model: Path) -> TenantConfig:
        return TenantConfig(
            self.unit.id,
            str(model),
            segments=asked.segments,
            promise=Promise(latency_ms=asked.latency_ms),
            memory_mib=self.unit.memory_mib,
            limit=self.unit.compute_milli / 1000.0,
        )

    def _answer_all(self, connection: socket.socket) -> None:
        writing = threading.Lock()
        while (message := receive(connection, FromContainer)) is not None:
            if not isinstance(message, Ask):
                raise InvalidInput("this slice is open already")
            number = message.number

            def done(future: Future[dict[str, Any]], number: int = number) -> None:
                error = future.exception()
                answer = Answer(number, packed(future.result())) if error is None else _problem(number, error)
                with writing:
                    _tell(connection, answer)

            try:
                self._executor.submit(self.unit.id, unpacked(message.inputs)).add_done_callback(done)
            except DureError as error:
                with writing:
                    _tell(connection, _problem(number, error))


def _problem(number: int, error: BaseException) -> Problem:
    return Problem(number, error.status if isinstance(error, DureError) else 500, str(error))


def _tell(connection: socket.socket, message: Answer | Problem) -> None:
    """Somebody who is gone hears nothing, and that is no error of ours."""
    try:
        send(connection, message)
    except OSError:
        return
