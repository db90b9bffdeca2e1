"""One tenant's ONNX model, cut into segments that run when they are told to.

`Runner` keeps the tensors of requests under way and says what came of each piece; a `Place` is where segments run:
threads of this machine (`OnCpu`), or a GPU (`adapters.onnx.gpu`). The worker of a tenant's process calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import onnxruntime as ort

from dure.adapters.onnx.cut import Segment, cut
from dure.adapters.pieces import HostLap, Lap, Share, Wanted, misfit, threads_of

MIB = 1024 * 1024
SAME_AS_REQUESTED = 1


class Place(Protocol):
    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        """The time from here until what runs inside is done."""
        ...

    def run(self, tensors: dict[str, Any], index: int, share: Share) -> None:
        """One segment on the tensors so far; its results join them."""
        ...

    def fetch(self, tensor: Any) -> Any:
        """A tensor as an array of this machine."""
        ...


class Runner:
    """Tensors that no later segment takes are dropped at once."""

    def __init__(self, path: Path, pieces: int, place: Callable[[Sequence[Segment]], Place] | None = None) -> None:
        self._model = onnx.load(str(path))
        self.segments = cut(self._model, pieces)
        self._place = (place or OnCpu)(self.segments)
        weights = {w.name for w in self._model.graph.initializer}
        self._wanted = [_wanted(value) for value in self._model.graph.input if value.name not in weights]
        self._results = [value.name for value in self._model.graph.output]
        self._spent = _spent(self.segments, self._results)
        self._open: dict[int, dict[str, Any]] = {}

    @property
    def names(self) -> list[str]:
        """What a request has to bring."""
        return [one.name for one in self._wanted]

    def profile(self, share: Share) -> list[float]:
        """Milliseconds of each segment alone with this share: the least of three runs on zeros."""
        given = {one.name: np.zeros([size or 1 for size in one.sizes], one.dtype) for one in self._wanted}
        times = []
        for _ in range(3):
            tensors: dict[str, Any] = dict(given)
            times.append([self.run_one(tensors, index, share) for index in range(len(self.segments))])
        return [min(column) for column in zip(*times, strict=True)]

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked; an error of the model is an answer, not the end of the worker."""
        _, request, inputs, first, last, share = message
        try:
            if inputs is not None and (wrong := misfit(self._wanted, inputs)):
                return ("refused", request, wrong)
            tensors = self._open.setdefault(request, {})
            tensors.update(inputs or {})
            with self._place.lap(share) as lap:
                for index in range(first, last):
                    self._step(tensors, index, share)
            if last < len(self.segments):
                return ("done", request, last, lap, None)
            outputs = {name: self._place.fetch(tensors[name]) for name in self._results}
            del self._open[request]
            return ("done", request, last, lap, outputs)
        except Exception as error:
            self._open.pop(request, None)
            return ("failed", request, f"{type(error).__name__}: {error}")

    def revised(self) -> None:
        """A graph has the same operators in every request."""

    def run_one(self, tensors: dict[str, Any], index: int, share: Share) -> float:
        """One segment by itself. Answers its time in ms."""
        with self._place.lap(share) as lap:
            self._step(tensors, index, share)
        return lap.ms

    def _step(self, tensors: dict[str, Any], index: int, share: Share) -> None:
        self._place.run(tensors, index, share)
        for name in self._spent[index]:
            tensors.pop(name, None)


class OnCpu:
    """Sessions of one model's segments, one set for each number of threads, made when first needed.

    Where memory is `limited` all of them share one arena that grows by what is asked for: an arena of its own
    doubles, and after one request too many it would take whatever address space is left.
    """

    def __init__(self, segments: Sequence[Segment], *, limited: bool = False) -> None:
        self._segments = segments
        self._sessions: dict[int, list[Any]] = {}
        self._limited = limited
        if limited:
            where = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
            ort.create_and_register_allocator(where, arena_of(0))

    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        return HostLap()

    def run(self, tensors: dict[str, Any], index: int, share: Share) -> None:
        segment = self._segments[index]
        session = self._of(threads_of(share))[index]
        results = session.run(list(segment.gives), {name: tensors[name] for name in segment.takes})
        tensors.update(zip(segment.gives, results, strict=True))

    def fetch(self, tensor: Any) -> Any:
        return tensor

    def _of(self, threads: int) -> list[Any]:
        if threads not in self._sessions:
            self._sessions[threads] = [
                ort.InferenceSession(
                    one.model, session_options(threads, shared=self._limited), providers=["CPUExecutionProvider"]
                )
                for one in self._segments
            ]
        return self._sessions[threads]


def whole_model(path: Path, inputs: dict[str, Any], threads: int = 1) -> dict[str, Any]:
    """The model's outputs in one piece: what segmented runs must equal."""
    session = ort.InferenceSession(path.read_bytes(), session_options(threads), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def arena_of(memory_mib: int) -> Any:
    """An arena of at most so much; 0 means that it has no limit of its own."""
    return ort.OrtArenaCfg({"max_mem": memory_mib * MIB, "arena_extend_strategy": SAME_AS_REQUESTED})


def session_options(threads: int, *, shared: bool = False) -> Any:
    """`shared`: take memory from the arena that was registered for the whole process."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Fusions across a cut would change the last bits of a result, so none are made at all.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if shared:
        options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def _spent(segments: Sequence[Segment], results: Sequence[str]) -> list[list[str]]:
    """For each segment the tensors that nobody wants after it."""
    wanted = set(results)
    spent: list[list[str]] = []
    for segment in reversed(segments):
        spent.append([name for name in (*segment.takes, *segment.gives) if name not in wanted])
        wanted.update(segment.takes)
    return spent[::-1]


def _wanted(value: onnx.ValueInfoProto) -> Wanted:
    kind = value.type.tensor_type
    sizes = tuple(d.dim_value or None for d in kind.shape.dim)
    return Wanted(value.name, str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)), sizes)
