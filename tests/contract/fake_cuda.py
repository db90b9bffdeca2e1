"""A fake CUDA driver: the functions of the binding that the adapters call, over contexts and their objects.

It refuses what the documentation forbids: an event on a stream of another context, SM groups of two splits in one
green context, a stream of a green context that may block, use after destruction. `calls` has every call in order,
`alive` what was made and not destroyed. `fail(name, nth)` makes one call fail.
"""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_NOT_SUPPORTED = 801


OK = CUresult.CUDA_SUCCESS
WRONG = CUresult.CUDA_ERROR_INVALID_HANDLE


class Thing:
    """What a handle stands for; its number is the handle."""

    def __init__(self, number: int, kind: str, **more: Any) -> None:
        self.number, self.kind = number, kind
        self.__dict__.update(more)

    def __int__(self) -> int:
        return self.number


class FakeCuda:
    CUresult = CUresult
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75
    )
    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)

    def __init__(self, sms: int = 132, *, major: int = 9, tells: bool = True, green: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.alive: dict[int, Thing] = {}
        self.broken = False
        self.now_ms = 0.0
        self._sms, self._major, self._tells, self._green = sms, major, tells, green
        self._next = 1000
        self._retained = 0
        self._current: list[Any] = [None]
        self._fails: dict[str, int] = {}

    def fail(self, name: str, nth: int = 1) -> None:
        self._fails[name] = nth

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("cu"):
            return found

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in self._fails:
                self._fails[name] -= 1
                if self._fails[name] == 0:
                    del self._fails[name]
                    return (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
            answer: tuple[Any, ...] = found(*args)
            return answer

        return call

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (OK,)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return (OK, 1)

    def cuDeviceGet(self, index: int) -> tuple[Any, ...]:
        return (OK, index) if index == 0 else (CUresult.CUDA_ERROR_INVALID_DEVICE, None)

    def cuDeviceGetName(self, size: int, device: int) -> tuple[Any, ...]:
        return (OK, b"Fake H100".ljust(size, b"\0"))

    def cuDeviceTotalMem(self, device: int) -> tuple[Any, ...]:
        return (OK, 80 * 1024**3)

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        return (OK, {16: self._sms, 75: self._major}[attribute])

    def cuDeviceGetDevResource(self, device: int, kind: int) -> tuple[Any, ...]:
        if not self._green:
            return (CUresult.CUDA_ERROR_NOT_SUPPORTED, None)
        least, step = (8, 8) if self._tells else (0, 0)
        sm = SimpleNamespace(smCount=self._sms, minSmPartitionSize=least, smCoscheduledAlignment=step)
        return (OK, SimpleNamespace(sm=sm))

    def cuDevSmResourceSplitByCount(self, wanted: int, resource: Any, flags: int, least: int) -> tuple[Any, ...]:
        made = min(wanted, resource.sm.smCount // least)
        split = object()
        groups = [
            SimpleNamespace(split=split, sms=range(i * least, (i + 1) * least), sm=SimpleNamespace(smCount=least))
            for i in range(made)
        ]
        return (OK, groups, made, SimpleNamespace(split=split, sms=range(made * least, self._sms)))

    def cuDevResourceGenerateDesc(self, resources: list[Any], count: int) -> tuple[Any, ...]:
        if not resources or count != len(resources) or len({id(one.split) for one in resources}) != 1:
            return (CUresult.CUDA_ERROR_INVALID_VALUE, None)
        return (OK, SimpleNamespace(sms=frozenset(sm for one in resources for sm in one.sms)))

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        self._retained += 1
        return (OK, "primary")

    def cuDevicePrimaryCtxRelease(self, device: int) -> tuple[Any, ...]:
        self._retained -= 1
        return (OK,)

    def cuCtxSetCurrent(self, context: Any) -> tuple[Any, ...]:
        self._current[-1] = context
        return (OK,)

    def cuCtxPushCurrent(self, context: Any) -> tuple[Any, ...]:
        self._current.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        return (OK, self._current.pop())

    def cuCtxFromGreenCtx(self, green: Thing) -> tuple[Any, ...]:
        return (OK, green)

    def cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        return (OK, 0, -5)

    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        return (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,) if self.broken else (OK,)

    def cuGreenCtxCreate(self, described: Any, device: int, flags: int) -> tuple[Any, ...]:
        return (OK, self._make("green", sms=described.sms))

    def cuGreenCtxDestroy(self, green: Thing) -> tuple[Any, ...]:
        return self._end(green)

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[Any, ...]:
        return (OK, self._make("stream", context=self._current[-1], priority=priority, sms=None))

    def cuGreenCtxStreamCreate(self, green: Thing, flags: int, priority: int) -> tuple[Any, ...]:
        if flags != 1 or green.number not in self.alive:
            return (CUresult.CUDA_ERROR_INVALID_VALUE, None)
        return (OK, self._make("stream", context=green, priority=priority, sms=self.alive[green.number].sms))  # type: ignore[attr-defined]

    def cuStreamDestroy(self, stream: Thing) -> tuple[Any, ...]:
        return self._end(stream)

    def cuStreamSynchronize(self, stream: Thing) -> tuple[Any, ...]:
        return (OK,) if stream.number in self.alive else (WRONG,)

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return (OK, self._make("event", context=self._current[-1], at_ms=None))

    def cuEventDestroy(self, event: Thing) -> tuple[Any, ...]:
        return self._end(event)

    def cuEventRecord(self, event: Any, stream: Any) -> tuple[Any, ...]:
        if not {event.number, stream.number} <= self.alive.keys() or event.context is not stream.context:
            return (WRONG,)
        event.at_ms = self.now_ms
        return (OK,)

    def cuEventSynchronize(self, event: Any) -> tuple[Any, ...]:
        return (OK,) if event.number in self.alive else (WRONG,)

    def cuEventElapsedTime(self, began: Any, ended: Any) -> tuple[Any, ...]:
        if began.at_ms is None or ended.at_ms is None:
            return (WRONG, None)
        return (OK, ended.at_ms - began.at_ms)

    def left(self) -> list[str]:
        """What is not given back."""
        return [thing.kind for thing in self.alive.values()] + ["primary"] * self._retained

    def stream(self, handle: int) -> Any:
        return self.alive[handle]

    @property
    def depth(self) -> int:
        """How many contexts are pushed."""
        return len(self._current)

    def _make(self, kind: str, **more: Any) -> Thing:
        self._next += 1
        self.alive[self._next] = Thing(self._next, kind, **more)
        return self.alive[self._next]

    def _end(self, thing: Thing) -> tuple[Any, ...]:
        return (OK,) if self.alive.pop(thing.number, None) is not None else (WRONG,)
