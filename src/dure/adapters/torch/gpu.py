"""PyTorch on a GPU as a place for operators: each piece on the stream of its spot, within the tenant's memory.

Streams are made by `adapters.nvidia.streams` and handed to PyTorch by their handle: its own green contexts
(`torch.cuda.green_contexts`) all begin at the same SMs, so two tenants with half of the device each would meet there.
A piece is waited for before the next one may begin on another stream, so values never need to wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from dure.adapters.nvidia.streams import Streams
from dure.adapters.pieces import Lap, Share, spot_of
from dure.model.errors import Permanent


class OnCuda:
    """Same calls as `OnCpu`. `cuda` is PyTorch's module of that name, or one with the same functions."""

    def __init__(self, streams: Streams, *, memory_mib: int = 0, cuda: Any = torch.cuda) -> None:
        if not cuda.is_available():
            raise Permanent(
                "PyTorch cannot use the GPU", remedy="Install a build of PyTorch for the CUDA of this driver."
            )
        gpu = streams.gpu
        self._streams = streams
        self._cuda = cuda
        self._index = gpu.index
        cuda.set_device(gpu.index)
        if memory_mib > 0:
            cuda.set_per_process_memory_fraction(min(1.0, memory_mib / gpu.memory_mib), gpu.index)

    def load(self, program: Any) -> Any:
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(program, self._device)

    def put(self, array: Any) -> Any:
        return torch.from_numpy(np.array(array)).to(self._device)

    @contextmanager
    def lap(self, share: Share) -> Iterator[Lap]:
        spot = spot_of(share)
        stream = self._cuda.ExternalStream(self._streams.handle(spot), device=self._index)
        with self._streams.lap(spot) as lap, self._cuda.stream(stream):
            yield lap

    def settle(self, module: Any) -> Any:
        return module.to(self._device)

    def enter_thread(self) -> None:
        # The driver's current context belongs to a thread.
        self._cuda.set_device(self._index)

    def wait(self) -> None:
        self._cuda.synchronize(self._index)

    @property
    def _device(self) -> str:
        return f"cuda:{self._index}"
