"""One tenant in a process of its own: it holds the tenant's segments and runs those it is told to.

Isolation by the operating system: memory beyond the tenant's share fails here and nowhere else, a crash or a hang
ends this process only. Intermediate tensors stay here; the daemon sends a request's inputs once and gets its outputs
once. Messages are tuples over a pipe; `serve` is the process's main function.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from dure.adapters.onnx.cut import Segment, cut

_SCHEDULED = Path("/proc/thread-self/schedstat")
_PR_SET_PDEATHSIG = 1
RUNTIME_MIB = 2048
"""Address space of the interpreter and the runtime themselves, before any tensor."""


def serve(pipe: Connection, path: str, pieces: int, cores: int, memory_mib: int) -> None:
    """Load the model, say ("ready", times, time with one thread), then answer every ("run", request, inputs, first,
    last, threads); what is done is told with the time that other programs took meanwhile and what this thread ran."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    _limit(memory_mib)
    try:
        runner = runner_of(Path(path), pieces)
        alone = runner.profile(cores)
        pipe.send(("ready", alone, sum(runner.profile(1)) if cores > 1 else sum(alone)))
    except Exception as error:
        pipe.send(("broken", f"{type(error).__name__}: {error}"))
        return
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        before_ms, ran_s = _kept_waiting_ms(), time.thread_time()
        wrong = misfit(runner.names, message[2])
        answer = ("refused", message[1], wrong) if wrong else runner.answer(message)
        if answer[0] == "done":
            answer = (*answer, _kept_waiting_ms() - before_ms, (time.thread_time() - ran_s) * 1000.0)
        pipe.send(answer)


def misfit(wanted: Sequence[str], inputs: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the names of a request's inputs; they come with its first piece only."""
    if inputs is None:
        return None
    missing = [name for name in wanted if name not in inputs]
    unknown = sorted(set(inputs) - set(wanted))
    if not missing and not unknown:
        return None
    found = [f"{word} {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
    return f"inputs do not fit the model: {'; '.join(found)}; it takes {', '.join(wanted)}"


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


def runner_of(path: Path, pieces: int) -> Any:
    """The backend that reads this file: PyTorch for an exported program (`.pt2`), else ONNX Runtime."""
    if path.suffix == ".pt2":
        from dure.adapters.torch.runner import TorchRunner

        return TorchRunner(path, pieces)
    return Runner(path, pieces)


class Runner:
    """Sessions of one model's segments, one set for each number of threads, made when first needed."""

    def __init__(self, path: Path, pieces: int) -> None:
        self._model = onnx.load(str(path))
        self._segments = cut(self._model, pieces)
        self._sessions: dict[int, list[Any]] = {}
        self._open: dict[int, dict[str, Any]] = {}

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    @property
    def names(self) -> list[str]:
        """What a request has to bring."""
        weights = {w.name for w in self._model.graph.initializer}
        return [value.name for value in self._model.graph.input if value.name not in weights]

    def sessions(self, threads: int) -> list[Any]:
        if threads not in self._sessions:
            self._sessions[threads] = [_session(segment.model, threads) for segment in self._segments]
        return self._sessions[threads]

    def profile(self, threads: int) -> list[float]:
        """Milliseconds of each segment alone with so many threads: the least of three runs on zeros."""
        wanted = set(self.names)
        given = {value.name: _zeros(value) for value in self._model.graph.input if value.name in wanted}
        times = []
        for _ in range(3):
            tensors: dict[str, Any] = dict(given)
            times.append([self.run_one(tensors, index, threads) for index in range(len(self._segments))])
        return [min(column) for column in zip(*times, strict=True)]

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked; an error of the model is an answer, not the end of the worker."""
        _, request, inputs, first, last, threads = message
        try:
            tensors = self._open.setdefault(request, {})
            tensors.update(inputs or {})
            started = time.perf_counter()
            for index in range(first, last):
                self.run_one(tensors, index, threads)
            spent = (time.perf_counter() - started) * 1000.0
            if last < len(self._segments):
                return ("done", request, last, spent, None)
            outputs = {o.name: tensors[o.name] for o in self._model.graph.output}
            del self._open[request]
            return ("done", request, last, spent, outputs)
        except Exception as error:
            self._open.pop(request, None)
            # The runtime's word for a tensor of another shape or type than the model takes.
            if first == 0 and type(error).__name__ == "InvalidArgument":
                return ("refused", request, f"inputs do not fit the model: {error}")
            return ("failed", request, f"{type(error).__name__}: {error}")

    def run_one(self, tensors: dict[str, Any], index: int, threads: int) -> float:
        """Run one segment on the tensors so far; its results join them. Answers its time in ms."""
        segment = self._segments[index]
        started = time.perf_counter()
        results = self.sessions(threads)[index].run(list(segment.gives), {n: tensors[n] for n in segment.takes})
        spent = (time.perf_counter() - started) * 1000.0
        tensors.update(zip(segment.gives, results, strict=True))
        return spent


def whole_model(path: Path, inputs: dict[str, Any], threads: int = 1) -> dict[str, Any]:
    """The model's outputs in one piece: what segmented runs must equal."""
    session = _session(path.read_bytes(), threads)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def _session(model: bytes, threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Fusions across a cut would change the last bits of a result, so none are made at all.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model, options, providers=_providers())


def _providers() -> list[str]:
    """CUDA where the runtime has it, else the CPU."""
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    return [name for name in wanted if name in ort.get_available_providers()]


def _zeros(value: onnx.ValueInfoProto) -> Any:
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    return np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _limit(memory_mib: int) -> None:
    if memory_mib > 0:
        size = (RUNTIME_MIB + memory_mib) * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
