"""One tenant's PyTorch program in its process: operators of an exported program, grouped into segments.

A `.pt2` file holds the operators in the order in which they run, so running some of them now and the rest later gives
the very same bits as running the whole. Same calls as the ONNX `Runner`; `adapters.onnx.worker.serve` picks one by
the file's name. CPU only: streams, priorities and green contexts of a GPU are not used.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx


class TorchRunner:
    """Values between operators stay here, one environment for each request that is under way."""

    def __init__(self, path: Path, pieces: int) -> None:
        self._program: Any = torch.export.load(str(path)).module()
        nodes = list(self._program.graph.nodes)
        self._given = [node for node in nodes if node.op == "placeholder"]
        self._result = next(node for node in nodes if node.op == "output")
        self._work = [node for node in nodes if node.op not in ("placeholder", "output")]
        count = max(1, min(pieces, len(self._work)))
        borders = [round(i * len(self._work) / count) for i in range(count + 1)]
        self.segments = tuple(tuple(self._work[a:b]) for a, b in pairwise(borders))
        self._open: dict[int, fx.Interpreter] = {}

    @property
    def names(self) -> list[str]:
        """What a request has to bring."""
        return [node.target for node in self._given]

    def profile(self, threads: int) -> list[float]:
        """Milliseconds of each segment alone with so many threads: the least of three runs on zeros."""
        shown = {node.target: node.meta["val"] for node in self._given}
        given = {name: torch.zeros(tuple(val.shape), dtype=val.dtype).numpy() for name, val in shown.items()}
        times = []
        for _ in range(3):
            under_way = self._begin(given)
            times.append([self._run(under_way, index, threads) for index in range(len(self.segments))])
        return [min(column) for column in zip(*times, strict=True)]

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked; an error of the program is an answer, not the end of the worker."""
        _, request, inputs, first, last, threads = message
        try:
            if inputs is not None:
                self._open[request] = self._begin(inputs)
            under_way = self._open[request]
            spent = sum(self._run(under_way, index, threads) for index in range(first, last))
            if last < len(self.segments):
                return ("done", request, last, spent, None)
            del self._open[request]
            return ("done", request, last, spent, self._outputs(under_way))
        except Exception as error:
            self._open.pop(request, None)
            return ("failed", request, f"{type(error).__name__}: {error}")

    def _begin(self, inputs: dict[str, Any]) -> fx.Interpreter:
        under_way = fx.Interpreter(self._program, garbage_collect_values=False)
        for node in self._given:
            under_way.env[node] = torch.from_numpy(np.array(inputs[node.target]))
        return under_way

    def _run(self, under_way: fx.Interpreter, index: int, threads: int) -> float:
        torch.set_num_threads(threads)
        began = time.perf_counter()
        with torch.no_grad():
            for node in self.segments[index]:
                under_way.env[node] = under_way.run_node(node)
        return (time.perf_counter() - began) * 1000.0

    def _outputs(self, under_way: fx.Interpreter) -> dict[str, Any]:
        values = under_way.map_nodes_to_values(self._result.args[0], self._result)
        listed = values if isinstance(values, (tuple, list)) else (values,)
        return {f"output{i or ''}": value.numpy() for i, value in enumerate(listed)}
