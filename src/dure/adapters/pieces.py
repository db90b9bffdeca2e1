"""A piece of a tenant's request: whether its inputs fit, where on a GPU it runs, and how long it took.

Spoken between the device daemon, which decides, and the tenants' processes, which run (`adapters.onnx`,
`adapters.torch`). On a CPU a piece runs with a number of threads and is timed by the host's clock; on a GPU it has a
`Spot` and is timed by the device itself (`adapters.nvidia.streams`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

_SCHEDULED = Path("/proc/thread-self/schedstat")


class Spot(NamedTuple):
    """Groups `first` up to `first + parts` of a GPU, for a member of this rank in its squad (0 goes first)."""

    first: int
    parts: int
    rank: int = 0


Share = int | Spot
"""What a piece may use: threads of a CPU, or a spot on a GPU."""


def spot_of(share: Share) -> Spot:
    """A mere number of parts is the first of them, which is how a model is measured alone."""
    return share if isinstance(share, Spot) else Spot(0, share)


def threads_of(share: Share) -> int:
    return share.parts if isinstance(share, Spot) else share


class Wanted(NamedTuple):
    """An input of a model; a size of None may be any."""

    name: str
    dtype: str
    sizes: tuple[int | None, ...]


def misfit(wanted: Sequence[Wanted], inputs: Mapping[str, Any]) -> str:
    """Which array is of another type, rank or size than the model takes; empty when all fit."""
    for one in wanted:
        array = np.asarray(inputs[one.name])
        if array.dtype == one.dtype and (array.shape == one.sizes or _allowed(one.sizes, array.shape)):
            continue
        sizes = ["any" if size is None else size for size in one.sizes]
        return (
            f"inputs do not fit the model: {one.name} is {array.dtype} of {list(array.shape)}, "
            f"it takes {one.dtype} of {sizes}"
        )
    return ""


def _allowed(sizes: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(sizes) == len(shape) and all(a in (None, b) for a, b in zip(sizes, shape, strict=True))


class Lap:
    """Its times are known when the lap is over: all of it, what other programs had of that, and what the thread that
    ran it computed itself."""

    ms: float = 0.0
    waited_ms: float = 0.0
    ran_ms: float = 0.0


class HostLap(Lap):
    """By the host's clock, from when it is entered until it is left, by the same thread."""

    def __enter__(self) -> Lap:
        self._waited_ms = _kept_waiting_ms()
        self._ran_s = time.thread_time()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.ms = (time.perf_counter() - self._began) * 1000.0
        self.ran_ms = (time.thread_time() - self._ran_s) * 1000.0
        self.waited_ms = _kept_waiting_ms() - self._waited_ms


class Backend(Protocol):
    """A tenant's model in its process, cut into segments."""

    @property
    def names(self) -> list[str]:
        """What a request has to bring."""
        ...

    def profile(self, share: Share) -> list[float]:
        """Milliseconds of each segment alone with this share."""
        ...

    def answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run what was asked: ("run", request, inputs or None, first, last, share). An error of the model is an
        answer: ("done", request, last, lap, outputs or None), ("refused", request, why), ("failed", request, why)."""
        ...

    def revised(self) -> list[float] | None:
        """The profile again, where requests have shown that it is another one; once for each such change."""
        ...


def _kept_waiting_ms() -> float:
    """How long this thread could have run while its processor ran something else, ever; 0 where nobody counts it."""
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0
