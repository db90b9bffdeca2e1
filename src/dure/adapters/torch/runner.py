"""One tenant's PyTorch program in its process: operators of an exported program, grouped into segments.

A `.pt2` file holds the operators in the order in which they run, so running some of them now and the rest later gives
the very same bits as running the whole. Same calls as the ONNX `Runner`; `adapters.onnx.worker.loaded` picks one by
the file's name. Operators run with threads of this machine (`OnCpu`) or on a GPU (`adapters.torch.gpu`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import fx

from dure.adapters.pieces import HostLap, Lap, Share, Wanted, misfit, threads_of


class Place(Protocol):
    def load(self, program: Any) -> Any:
        """The exported program with its weights where they are needed."""
        ...

    def put(self, array: Any) -> Any:
        """An array of this machine as a tensor of the place."""
        ...

    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        """Operators inside run with this share; the time until they are done."""
        ...

    def settle(self, module: Any) -> Any:
        """A module with its weights where they are needed."""
        ...

    def enter_thread(self) -> None:
        """This thread will run operators."""
        ...

    def wait(self) -> None:
        """Until all operators so far are done."""
        ...


class OnCpu:
    """`exact`: one thread whatever the share. Sums and products of matrices come out in other last bits with another
    number of threads, and a share depends on who else is there."""

    def __init__(self, *, exact: bool = True) -> None:
        self._exact = exact

    def load(self, program: Any) -> Any:
        return program

    def put(self, array: Any) -> Any:
        return torch.from_numpy(np.array(array))

    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        torch.set_num_threads(1 if self._exact else threads_of(share))
        return HostLap()

    def settle(self, module: Any) -> Any:
        return module

    def enter_thread(self) -> None:
        """Any thread will do."""

    def wait(self) -> None:
        """They were done when their calls came back."""


class TorchRunner:
    """Values between operators stay here until the last operator that takes them, in one environment for each
    request that is under way."""

    def __init__(self, path: Path, pieces: int, place: Place) -> None:
        self._place = place
        self._program: Any = place.load(torch.export.load(str(path))).module()
        nodes = list(self._program.graph.nodes)
        self._given = [node for node in nodes if node.op == "placeholder"]
        self._wanted = [_wanted(node) for node in self._given]
        self._result = next(node for node in nodes if node.op == "output")
        work = [node for node in nodes if node.op not in ("placeholder", "output")]
        count = max(1, min(pieces, len(work)))
        borders = [round(i * len(work) / count) for i in range(count + 1)]
        self.segments = tuple(tuple(work[a:b]) for a, b in pairwise(borders))
        self._spent = _spent(nodes)
        self._open: dict[int, fx.Interpreter] = {}

    @property
    def names(self) -> list[str]:
        """What a request has to bring."""
        return [node.target for node in self._given]

    def profile(self, share: Share) -> list[float]:
        """Milliseconds of each segment alone with this share: the least of three runs on zeros."""
        shown = {node.target: node.meta["val"] for node in self._given}
        given = {name: torch.zeros(tuple(val.shape), dtype=val.dtype).numpy() for name, val in shown.items()}
        times = []
        for _ in range(3):
            under_way = self._begin(given)
            times.append([self._run(under_way, (segment,), share).ms for segment in self.segments])
        return [min(column) for column in zip(*times, strict=True)]

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked; an error of the program is an answer, not the end of the worker."""
        _, request, inputs, first, last, share = message
        try:
            if inputs is not None:
                if wrong := misfit(self._wanted, inputs):
                    return ("refused", request, wrong)
                self._open[request] = self._begin(inputs)
            under_way = self._open[request]
            lap = self._run(under_way, self.segments[first:last], share)
            if last < len(self.segments):
                return ("done", request, last, lap, None)
            del self._open[request]
            return ("done", request, last, lap, self._outputs(under_way))
        except Exception as error:
            self._open.pop(request, None)
            return ("failed", request, f"{type(error).__name__}: {error}")

    def revised(self) -> None:
        """A program has the same operators in every request."""

    def _begin(self, inputs: dict[str, Any]) -> fx.Interpreter:
        under_way = fx.Interpreter(self._program, garbage_collect_values=False)
        for node in self._given:
            under_way.env[node] = self._place.put(inputs[node.target])
        return under_way

    def _run(self, under_way: fx.Interpreter, segments: tuple[tuple[Any, ...], ...], share: Share) -> Lap:
        with torch.no_grad(), self._place.lap(share) as lap:
            for node in (node for segment in segments for node in segment):
                under_way.env[node] = under_way.run_node(node)
                for spent in self._spent.get(node, ()):
                    del under_way.env[spent]
        return lap

    def _outputs(self, under_way: fx.Interpreter) -> dict[str, Any]:
        values = under_way.map_nodes_to_values(self._result.args[0], self._result)
        listed = values if isinstance(values, (tuple, list)) else (values,)
        return {f"output{i or ''}": value.cpu().numpy() for i, value in enumerate(listed)}


def _wanted(node: fx.Node) -> Wanted:
    value = node.meta["val"]
    sizes = tuple(size if isinstance(size, int) else None for size in value.shape)
    return Wanted(str(node.target), str(value.dtype).removeprefix("torch."), sizes)


def _spent(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """By operator, the values that no later one takes; those that nobody takes at all end with their own."""
    last: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        last[node] = node
        for taken in node.all_input_nodes:
            last[taken] = node
    found: dict[fx.Node, list[fx.Node]] = {}
    for value, user in last.items():
        if user.op not in ("placeholder", "output"):
            found.setdefault(user, []).append(value)
    return found
