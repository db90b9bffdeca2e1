"""One tenant in a process of its own: it holds the tenant's segments and runs those it is told to.

Isolation by the operating system: memory beyond the tenant's share fails here and nowhere else, a crash or a hang
ends this process only. Intermediate tensors stay here; the daemon sends a request's inputs once and gets its outputs
once. Messages are tuples over a pipe; `serve` is the process's main function.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from dure.adapters.nvidia.cuda import Gpu, open_driver
from dure.adapters.nvidia.mps import client_environment
from dure.adapters.nvidia.streams import CudaStreams, Streams
from dure.adapters.onnx.cut import Segment
from dure.adapters.onnx.runner import OnCpu, Place, Runner

_SCHEDULED = Path("/proc/thread-self/schedstat")
_MAPPED = Path("/proc/self/statm")
_PR_SET_PDEATHSIG = 1
RUNTIME_MIB = 2048
"""Address space that the runtime takes while it works, before any tensor: threads and their arenas."""


class Work(msgspec.Struct, frozen=True):
    """What a tenant's process is for. `parts` are threads, or groups of SMs of `gpu`."""

    path: str
    pieces: int
    parts: int = 1
    memory_mib: int = 0
    gpu: Gpu | None = None
    rank: int = 0
    """Its standing among the tenants of a GPU, where squads cannot say it anew for every piece."""
    most: float | None = None
    """The most of the SMs it may use, where that is said once and for all; None where green contexts say it."""
    batch: bool = False


def serve(pipe: Connection, work: Work) -> None:
    """Load the model, say ("ready", times, time with one part), then answer every ("run", request, inputs, first,
    last, share); what is done is told with the time that other programs took meanwhile and what was used at least."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    try:
        _prepare(work)
        runner, streams = loaded(work)
        alone = runner.profile(work.parts)
        pipe.send(("ready", alone, sum(runner.profile(1)) if work.parts > 1 else sum(alone)))
    except Exception as error:
        pipe.send(("broken", f"{type(error).__name__}: {error}"))
        return
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(reply(runner, streams, message))


def reply(runner: Any, streams: Streams | None, message: tuple[Any, ...]) -> tuple[Any, ...]:
    """The answer to one message. Ends the process where a fault has taken its context on the GPU: the daemon hears of
    it by the pipe and starts another one."""
    before_ms, ran_s = _kept_waiting_ms(), time.thread_time()
    wrong = misnamed(runner.names, message[2])
    answer: tuple[Any, ...] = ("refused", message[1], wrong) if wrong else runner.answer(message)
    if answer[0] == "failed" and streams is not None and not streams.sound():
        sys.exit(f"the context on the GPU is lost: {answer[2]}")
    if answer[0] != "done":
        return answer
    if streams is not None:
        # The device's own time; what the host did meanwhile is no part of it.
        return (*answer, 0.0, answer[3])
    return (*answer, _kept_waiting_ms() - before_ms, (time.thread_time() - ran_s) * 1000.0)


def misnamed(wanted: Sequence[str], inputs: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the names of a request's inputs; they come with its first piece only."""
    if inputs is None:
        return None
    missing = [name for name in wanted if name not in inputs]
    unknown = sorted(set(inputs) - set(wanted))
    if not missing and not unknown:
        return None
    found = [f"{word} {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
    return f"inputs do not fit the model: {'; '.join(found)}; it takes {', '.join(wanted)}"


def loaded(work: Work) -> tuple[Any, Streams | None]:
    """The backend that reads this file, PyTorch for an exported program (`.pt2`), else ONNX Runtime; and on a GPU
    the streams it runs on."""
    path = Path(work.path)
    streams = CudaStreams(open_driver(), work.gpu) if work.gpu is not None else None
    if path.suffix == ".pt2":
        return _torch_runner(path, work, streams), streams
    return Runner(path, work.pieces, lambda segments: _place(segments, work, streams)), streams


def _place(segments: Sequence[Segment], work: Work, streams: Streams | None) -> Place:
    if streams is None:
        return OnCpu(segments, limited=work.memory_mib > 0)
    from dure.adapters.onnx.gpu import OnCuda

    return OnCuda(segments, streams, rank=work.rank, memory_mib=work.memory_mib)


def _torch_runner(path: Path, work: Work, streams: Streams | None) -> Any:
    from dure.adapters.torch.runner import OnCpu, TorchRunner

    if streams is None:
        return TorchRunner(path, work.pieces, OnCpu())
    from dure.adapters.torch.gpu import OnCuda

    return TorchRunner(path, work.pieces, OnCuda(streams, memory_mib=work.memory_mib))


def _prepare(work: Work) -> None:
    """Limits that hold before a model is loaded and before a GPU is first used. On a GPU the address space says
    nothing: the driver maps all memory of host and devices into it."""
    if work.gpu is None:
        _limit(work)
    elif work.gpu.mps:
        client_environment(
            os.environ, device=work.gpu.index, share=work.most, memory_mib=work.memory_mib, batch=work.batch
        )


def _end_with_parent() -> None:
    """A stopped process does not see its pipe close; without this one it would outlive a daemon that is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kept_waiting_ms() -> float:
    """How long this thread could have run while its processor ran something else, ever; 0 where nobody counts it."""
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0


def _limit(work: Work) -> None:
    """Beyond what the runtime has mapped by itself, which is gigabytes where PyTorch brings CUDA's libraries."""
    if work.memory_mib <= 0:
        return
    if Path(work.path).suffix == ".pt2":
        import_module("dure.adapters.torch.runner")
    mapped = int(_MAPPED.read_text().split()[0]) * resource.getpagesize()
    size = mapped + (RUNTIME_MIB + work.memory_mib) * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
