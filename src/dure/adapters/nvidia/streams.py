"""Streams of one tenant's process on a GPU: a squad's share of SMs, its rank, and the time a piece took.

A spot of some groups is a green context of these SMs: spots that do not overlap never meet on an SM. A spot of the
whole device, or on a device without green contexts, is a plain stream whose priority is its rank. Streams are made
when first needed and kept; libraries get them by their handle (`user_compute_stream` of ONNX Runtime,
`ExternalStream` of PyTorch). Everything happens in the device's primary context, which is the one these libraries
use. One thread calls it; nothing is left behind when a call fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from dure.adapters.nvidia.cuda import Gpu, done, groups_of
from dure.adapters.pieces import Lap, Spot
from dure.model.errors import DureError


class Streams(Protocol):
    @property
    def gpu(self) -> Gpu: ...

    def handle(self, spot: Spot) -> int:
        """The stream of this spot, for libraries that take one."""
        ...

    def lap(self, spot: Spot) -> AbstractContextManager[Lap]:
        """The device's own time from here until everything that was put on the stream inside is done."""
        ...

    def sound(self) -> bool:
        """Whether the context still works; after a fault of a kernel it never does again."""
        ...

    def close(self) -> None: ...


class _Open(NamedTuple):
    stream: Any
    began: Any
    ended: Any


class CudaStreams:
    """`Streams` on the CUDA driver's own functions."""

    def __init__(self, driver: Any, gpu: Gpu) -> None:
        self._driver = driver
        self.gpu = gpu
        self._open: dict[tuple[int, ...], _Open] = {}
        self._device = self._call("cuDeviceGet", gpu.index)
        with ExitStack() as undo:
            primary = self._call("cuDevicePrimaryCtxRetain", self._device)
            undo.callback(self._call, "cuDevicePrimaryCtxRelease", self._device)
            self._call("cuCtxSetCurrent", primary)
            self._least, self._greatest = self._call("cuCtxGetStreamPriorityRange")
            self._groups = groups_of(driver, self._device, gpu.group_sms) if gpu.groups else []
            self._undo = undo.pop_all()

    def handle(self, spot: Spot) -> int:
        return int(self._at(spot).stream)

    @contextmanager
    def lap(self, spot: Spot) -> Iterator[Lap]:
        at, lap = self._at(spot), Lap()
        try:
            self._call("cuEventRecord", at.began, at.stream)
            yield lap
            self._call("cuEventRecord", at.ended, at.stream)
            self._call("cuEventSynchronize", at.ended)
        except BaseException:
            # What was put on the stream before the failure must not run on beside the next piece.
            with suppress(DureError):
                self._call("cuStreamSynchronize", at.stream)
            raise
        lap.ms = float(self._call("cuEventElapsedTime", at.began, at.ended))

    def sound(self) -> bool:
        try:
            self._call("cuCtxSynchronize")
        except DureError:
            return False
        return True

    def close(self) -> None:
        self._open.clear()
        self._undo.close()

    def _at(self, spot: Spot) -> _Open:
        parts = range(len(self._groups))[spot.first : spot.first + spot.parts]
        whole = len(parts) in (0, len(self._groups))
        # On SMs of its own nobody is in the way, so a rank would only multiply the streams.
        key = (self._priority(spot.rank),) if whole else (parts.start, parts.stop)
        if key not in self._open:
            with ExitStack() as undo:
                made = self._plain(undo, *key) if whole else self._green(undo, parts)
                self._undo.push(undo.pop_all())
            self._open[key] = made
        return self._open[key]

    def _priority(self, rank: int) -> int:
        """Lower numbers go first."""
        return int(min(self._greatest + rank, self._least))

    def _plain(self, undo: ExitStack, priority: int) -> _Open:
        flags = int(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = self._call("cuStreamCreateWithPriority", flags, priority)
        undo.callback(self._call, "cuStreamDestroy", stream)
        return self._timed(undo, stream)

    def _green(self, undo: ExitStack, parts: range) -> _Open:
        resources = [self._groups[i] for i in parts]
        described = self._call("cuDevResourceGenerateDesc", resources, len(resources))
        kind = int(self._driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
        context = self._call("cuGreenCtxCreate", described, self._device, kind)
        undo.callback(self._call, "cuGreenCtxDestroy", context)
        flags = int(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = self._call("cuGreenCtxStreamCreate", context, flags, self._greatest)
        undo.callback(self._call, "cuStreamDestroy", stream)
        # An event belongs to the context that is current when it is made, and must be of the stream's.
        self._call("cuCtxPushCurrent", self._call("cuCtxFromGreenCtx", context))
        try:
            return self._timed(undo, stream)
        finally:
            self._call("cuCtxPopCurrent")

    def _timed(self, undo: ExitStack, stream: Any) -> _Open:
        events = []
        for _ in range(2):
            events.append(self._call("cuEventCreate", int(self._driver.CUevent_flags.CU_EVENT_DEFAULT)))
            undo.callback(self._call, "cuEventDestroy", events[-1])
        return _Open(stream, *events)

    def _call(self, name: str, *args: Any) -> Any:
        return done(self._driver, getattr(self._driver, name)(*args))
