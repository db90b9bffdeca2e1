"""ONNX Runtime's CUDA provider as a place for segments: one stream of the tenant's own, tensors stay on the device.

A session belongs to its stream for life, and sessions for a second stream would hold the weights twice, so a tenant
has one stream whose priority is its standing; which SMs it may use at most is said by MPS at its start. Runs do not
wait for the device: the next segment follows on the same stream, and the end of the piece is waited for once
(`Streams.lap`). All sessions allocate from one arena, so the memory limit is the tenant's and not each segment's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import onnxruntime as ort

from dure.adapters.nvidia.cuda import MIB, Gpu
from dure.adapters.nvidia.streams import Streams
from dure.adapters.onnx.cut import Segment
from dure.adapters.onnx.runner import arena_of, session_options
from dure.adapters.pieces import Lap, Share, Spot
from dure.model.errors import Permanent

PROVIDER = "CUDAExecutionProvider"
REMEDY = "Install onnxruntime-gpu for the CUDA of this driver, with cuDNN; see docs/share.md."


class OnCuda:
    """Same calls as `OnCpu`."""

    def __init__(self, segments: Sequence[Segment], streams: Streams, *, rank: int = 0, memory_mib: int = 0) -> None:
        if PROVIDER not in ort.get_available_providers():
            raise Permanent("this onnxruntime has no CUDA provider", remedy=REMEDY)
        # Finds CUDA's libraries among the installed packages; the system's are found without it.
        ort.preload_dlls()
        gpu = streams.gpu
        self._segments = segments
        self._index = gpu.index
        self._streams = streams
        self._spot = Spot(0, max(gpu.groups, 1), rank)
        if memory_mib > 0:
            _share_arena(gpu, memory_mib)
        options = provider_options(gpu, streams.handle(self._spot), memory_mib)
        self._sessions = [_session(one.model, options, shared=memory_mib > 0) for one in segments]

    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        return self._streams.lap(self._spot)

    def run(self, tensors: dict[str, Any], index: int, share: Share) -> None:
        run_bound(self._sessions[index], self._segments[index], tensors, "cuda", self._index)

    def fetch(self, tensor: Any) -> Any:
        return fetched(tensor)


def provider_options(gpu: Gpu, stream: int, memory_mib: int) -> dict[str, str]:
    options = {
        "device_id": str(gpu.index),
        "user_compute_stream": str(stream),
        "do_copy_in_default_stream": "1",
        "arena_extend_strategy": "kSameAsRequested",
        # A search by trying would take memory beyond the share and measure the neighbours.
        "cudnn_conv_algo_search": "HEURISTIC",
    }
    if memory_mib > 0:
        options["gpu_mem_limit"] = str(memory_mib * MIB)
    return options


def run_bound(session: Any, segment: Segment, tensors: dict[str, Any], device: str, index: int) -> None:
    """One segment whose results stay on the device and join `tensors`; arrays of the host are copied there."""
    bound = session.io_binding()
    for name in segment.takes:
        value = tensors[name]
        if isinstance(value, ort.OrtValue):
            bound.bind_ortvalue_input(name, value)
        else:
            bound.bind_cpu_input(name, np.ascontiguousarray(value))
    for name in segment.gives:
        bound.bind_output(name, device, index)
    bound.synchronize_inputs()
    session.run_with_iobinding(bound, _without_waiting())
    tensors.update(zip(segment.gives, bound.get_outputs(), strict=True))


def fetched(tensor: Any) -> Any:
    """Of a result on the device, its array; a model may also hand an input on as it came."""
    return tensor.numpy() if isinstance(tensor, ort.OrtValue) else tensor


def _without_waiting() -> Any:
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return options


def _share_arena(gpu: Gpu, memory_mib: int) -> None:
    where = ort.OrtMemoryInfo("Cuda", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, gpu.index, ort.OrtMemType.DEFAULT)
    try:
        ort.create_and_register_allocator_v2(PROVIDER, where, {}, arena_of(memory_mib))
    except RuntimeError as error:
        # Also where the provider's libraries cannot be loaded, which this call is the first to need.
        raise Permanent(f"onnxruntime cannot use the GPU: {error}", remedy=REMEDY) from error


def _session(model: bytes, options: Mapping[str, str], *, shared: bool) -> Any:
    settings = session_options(threads=1, shared=shared)
    session = ort.InferenceSession(model, settings, providers=[(PROVIDER, dict(options)), "CPUExecutionProvider"])
    if PROVIDER not in session.get_providers():
        # The runtime only warns and takes the CPU, which nobody asked for.
        raise Permanent("onnxruntime cannot use the GPU; its warning above says why", remedy=REMEDY)
    session.disable_fallback()
    return session
