"""One tenant's eager PyTorch module in its process, made to stand still between operators.

The second way in beside exported programs (`runner`), for modules whose control flow depends on values. A request
has a thread; a dispatch mode counts the operators it calls and makes it wait at the borders of pieces until told
to go on. Borders come from runs of the module's own example and part it by time. Another request may call fewer
operators, then it ends in an earlier piece; or more, then all beyond the profile is one more piece, whose usual time
is learnt and told (`revised`). Operators and their order are the module's own, so the bits are too. Same calls as the
other backends; `adapters.onnx.worker` makes it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import accumulate
from queue import SimpleQueue
from threading import Thread
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dure.adapters.pieces import Lap, Share, Wanted, misfit
from dure.adapters.torch.code import ANSWERS, Made
from dure.adapters.torch.runner import Place
from dure.model.errors import InvalidInput

WARM_UPS = 3
LEARNT = 0.2
"""Weight of the newest request in the time beyond the profile."""
TOLD = 0.1
"""A change of the profile is told when it is this part of a whole request."""
TO_THE_END = 1 << 62


class HookRunner:
    """`segments` are the operators of each piece by number; the last piece is what no example called."""

    def __init__(self, model: Made, pieces: int, parts: int, place: Place) -> None:
        self._place = place
        self._module = place.settle(model.module)
        self._wanted = [_wanted(name, value, model.free.get(name, ())) for name, value in model.example.items()]
        self._example = {name: value.numpy() for name, value in model.example.items()}
        ends = _borders(self._operator_times(parts), pieces)
        self.segments = (*(range(a, b) for a, b in zip((0, *ends), ends, strict=False)), range(ends[-1], TO_THE_END))
        self._open: dict[int, Forward] = {}
        self._profile: list[float] = []
        self._beyond_ms = self._told_ms = 0.0

    @property
    def names(self) -> list[str]:
        return [one.name for one in self._wanted]

    def profile(self, share: Share) -> list[float]:
        """Milliseconds of each segment alone with this share, the least of some runs of the example; nothing yet for
        what lies beyond it."""
        times = []
        for _ in range(WARM_UPS):
            forward = self._begin(self._example)
            times.append([forward.run_until(one.stop, share).ms for one in self.segments])
            forward.outputs()
        found = [min(column) for column in zip(*times, strict=True)][:-1]
        self._profile = self._profile or found
        return [*found, 0.0]

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked; an error of the module is an answer, not the end of the worker."""
        _, request, inputs, _, last, share = message
        try:
            if inputs is not None:
                if wrong := misfit(self._wanted, inputs):
                    return ("refused", request, wrong)
                self._open[request] = self._begin(inputs)
            forward = self._open[request]
            before = forward.called
            lap = forward.run_until(self.segments[last - 1].stop, share)
            if not forward.ended:
                return ("done", request, last, lap, None)
            del self._open[request]
            outputs = forward.outputs()
            self._learn(forward.called, before, lap.ms)
            return ("done", request, min(last, self._reached(forward.called)), lap, outputs)
        except Exception as error:
            self._open.pop(request, None)
            return ("failed", request, f"{type(error).__name__}: {error}")

    def revised(self) -> list[float] | None:
        if abs(self._beyond_ms - self._told_ms) <= TOLD * sum(self._profile):
            return None
        self._told_ms = self._beyond_ms
        return [*self._profile, self._beyond_ms]

    def _learn(self, called: int, before: int, ms: float) -> None:
        """How long requests go on beyond the profile, most of them perhaps not at all."""
        beyond = max(0, called - max(before, self.segments[-1].start))
        self._beyond_ms += LEARNT * (ms * beyond / max(called - before, 1) - self._beyond_ms)

    def _reached(self, called: int) -> int:
        """Segments that a request of so many operators needs."""
        return 1 + bisect_left([one.stop for one in self.segments], called)

    def _operator_times(self, share: Share) -> list[float]:
        """Seconds of each operator and of the code before it, in the fastest of some runs of the example."""
        runs = []
        for _ in range(WARM_UPS):
            timing = _Timing(self._place.wait)
            with torch.no_grad(), self._place.lap(share), timing:
                self._module(**{name: self._place.put(value) for name, value in self._example.items()})
            runs.append(timing.times)
        return min(runs, key=sum)

    def _begin(self, inputs: Mapping[str, Any]) -> Forward:
        tensors = {name: self._place.put(inputs[name]) for name in self.names}
        return Forward(self._module, tensors, self._place)


class Forward:
    """One request: a thread inside the module that stands at a gate unless it was told how far to go. `called` counts
    its operators. One other thread speaks to it."""

    def __init__(self, module: Callable[..., Any], tensors: Mapping[str, Any], place: Place) -> None:
        self.ended = False
        self.called = 0
        self._module = module
        self._tensors = tensors
        self._place = place
        self._go: SimpleQueue[tuple[int, Share]] = SimpleQueue()
        self._told: SimpleQueue[Lap] = SimpleQueue()
        self._stop = 0
        self._value: Any = None
        self._error: BaseException | None = None
        self._lap = Lap()
        self._around: AbstractContextManager[Lap] = nullcontext(self._lap)
        Thread(target=self._run, name="dure-forward", daemon=True).start()

    def run_until(self, stop: int, share: Share) -> Lap:
        """Go on until so many operators were called, or to the end. Answers the time of this piece."""
        if self.ended:
            return Lap()
        self._go.put((stop, share))
        return self._told.get()

    def outputs(self) -> dict[str, Any]:
        """What the module answered, by name; or what it raised."""
        if self._error is not None:
            raise self._error if isinstance(self._error, Exception) else RuntimeError(repr(self._error))
        if isinstance(self._value, Mapping):
            return {str(name): _array(value) for name, value in self._value.items()}
        listed = self._value if isinstance(self._value, (tuple, list)) else (self._value,)
        return {f"output{i or ''}": _array(value) for i, value in enumerate(listed)}

    def _run(self) -> None:
        try:
            self._place.enter_thread()
            self._await_word()
            with torch.no_grad(), _Gate(self._step):
                self._value = self._module(**self._tensors)
            self._leave()
        except BaseException as error:
            # Also where the module wants the whole program to end: it is one request that has failed.
            self._error = error
            with suppress(BaseException):
                self._around.__exit__(type(error), error, error.__traceback__)
        self.ended = True
        self._told.put(self._lap)

    def _step(self) -> None:
        """Before every operator."""
        if self.called >= self._stop:
            self._leave()
            self._told.put(self._lap)
            self._await_word()
        self.called += 1

    def _await_word(self) -> None:
        self._stop, share = self._go.get()
        self._around = self._place.lap(share)
        self._lap = self._around.__enter__()

    def _leave(self) -> None:
        self._around.__exit__(None, None, None)


class _Gate(TorchDispatchMode):  # type: ignore[misc]  # torch has no types where it is not installed
    """Every operator of the thread that enters it passes here, below autograd: what the kernels are asked for."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__()
        self._step = step

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._step()
        return func(*args, **(kwargs or {}))


class _Timing(TorchDispatchMode):  # type: ignore[misc]  # torch has no types where it is not installed
    """The time from the end of one operator to the end of the next."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__()
        self.times: list[float] = []
        self._wait = wait
        self._last = time.perf_counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._wait()
        now = time.perf_counter()
        self.times.append(now - self._last)
        self._last = now
        return result


def _borders(times: Sequence[float], pieces: int) -> tuple[int, ...]:
    """After which operators a piece ends, so that all take about as long; the last is after all of them."""
    if not times:
        raise InvalidInput("the module calls no operator on its example", remedy=ANSWERS)
    passed = list(accumulate(times))
    inner = {1 + bisect_left(passed, passed[-1] * i / pieces) for i in range(1, pieces)}
    return tuple(sorted(border for border in inner | {len(times)} if border <= len(times)))


def _wanted(name: str, value: Any, free: Sequence[int]) -> Wanted:
    if not isinstance(value, torch.Tensor):
        raise InvalidInput(f"the example of input '{name}' is no tensor", remedy=ANSWERS)
    sizes = tuple(None if i in free else size for i, size in enumerate(value.shape))
    return Wanted(name, str(value.dtype).removeprefix("torch."), sizes)


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        raise InvalidInput(f"the module answers a {type(value).__name__} where a tensor is wanted")
    return value.detach().cpu().numpy()
