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
from dure.adapters.pieces import Backend
from dure.adapters.torch.code import by_torch, code_of, made
from dure.model.errors import Permanent

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
    exact: bool = True
    """The same bits whatever its share."""
    code: bool = False
    """`path` may name code, which is then run here."""


def serve(pipe: Connection, work: Work) -> None:
    """Load the model, say ("ready", times, time with one part), then answer every ("run", request, inputs, first,
    last, share); what is done is told with the time that other programs took meanwhile and what was used at least. A
    profile that has changed since is said again."""
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
        if (again := runner.revised()) is not None:
            pipe.send(("profile", again))


def reply(runner: Backend, streams: Streams | None, message: tuple[Any, ...]) -> tuple[Any, ...]:
    """The answer to one message. Ends the process where a fault has taken its context on the GPU: the daemon hears of
    it by the pipe and starts another one."""
    wrong = misnamed(runner.names, message[2])
    answer: tuple[Any, ...] = ("refused", message[1], wrong) if wrong else runner.answer(message)
    if answer[0] == "failed" and streams is not None and not streams.sound():
        sys.exit(f"the context on the GPU is lost: {answer[2]}")
    if answer[0] != "done":
        return answer
    _, request, last, lap, outputs = answer
    # On a GPU it is the device's own time; what the host did meanwhile is no part of it.
    own = (0.0, lap.ms) if streams is not None else (lap.waited_ms, lap.ran_ms)
    return ("done", request, last, lap.ms, outputs, *own)


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


def loaded(work: Work) -> tuple[Backend, Streams | None]:
    """The backend for this model: PyTorch for an exported program (`.pt2`) or for code that makes a module, else ONNX
    Runtime; and on a GPU the streams it runs on."""
    path = Path(work.path)
    streams = CudaStreams(open_driver(), work.gpu) if work.gpu is not None else None
    if by_torch(work.path):
        return _torch_runner(work, streams), streams
    return Runner(path, work.pieces, lambda segments: _place(segments, work, streams)), streams


def _place(segments: Sequence[Segment], work: Work, streams: Streams | None) -> Place:
    if streams is None:
        return OnCpu(segments, limited=work.memory_mib > 0)
    from dure.adapters.onnx.gpu import OnCuda

    return OnCuda(segments, streams, rank=work.rank, memory_mib=work.memory_mib)


def _torch_runner(work: Work, streams: Streams | None) -> Backend:
    from dure.adapters.torch.hook import HookRunner
    from dure.adapters.torch.runner import OnCpu, TorchRunner

    place: Any = OnCpu(exact=work.exact)
    if streams is not None:
        from dure.adapters.torch.gpu import OnCuda

        place = OnCuda(streams, memory_mib=work.memory_mib)
    code = code_of(work.path)
    if code is not None and not work.code:
        raise Permanent(f"model '{work.path}' is code, and this tenant is not to run any")
    if code is not None:
        return HookRunner(made(code), work.pieces, work.parts, place)
    return TorchRunner(Path(work.path), work.pieces, place)


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


def _limit(work: Work) -> None:
    """Beyond what the runtime has mapped by itself, which is gigabytes where PyTorch brings CUDA's libraries."""
    if work.memory_mib <= 0:
        return
    if by_torch(work.path):
        import_module("dure.adapters.torch.runner")
    mapped = int(_MAPPED.read_text().split()[0]) * resource.getpagesize()
    size = mapped + (RUNTIME_MIB + work.memory_mib) * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
