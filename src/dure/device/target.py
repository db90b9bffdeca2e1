"""What the daemon's tenants run on: threads of this machine, or a GPU. Chosen once, when the daemon starts.

`chosen` finds the device that was asked for; `Shape` is how squads may divide it. Every tenant has a process of its
own, and without MPS the driver runs one process at a time: then the GPU is one part, and squads take turns by
segments in the policy's order. With MPS and green contexts it has as many parts as the driver makes groups of SMs.
Where some tenant cannot have green contexts (ONNX Runtime's sessions belong to one stream), nobody's SMs can be its
own: all run side by side, ordered by priority.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import msgspec

from dure.adapters.nvidia.cuda import ABOUT, Gpu, look, open_driver
from dure.adapters.nvidia.mps import is_on
from dure.adapters.onnx.worker import Work
from dure.adapters.torch.code import by_torch
from dure.device.config import AUTO, CPU, DeviceConfig, TenantConfig, gpu_index
from dure.model.errors import DureError, NotFound, Permanent

Fetch = Callable[[int], Gpu]


class Chosen(NamedTuple):
    """No GPU means the CPU; `why` says in a few words what it is."""

    gpu: Gpu | None
    why: str


class Shape(NamedTuple):
    """`exclusive`: a member's parts are its own, like threads."""

    parts: int
    exclusive: bool
    unit: str


def fetch_gpu(index: int) -> Gpu:
    """The real one; `NotFound` where there is none."""
    return look(open_driver(), index, mps=is_on())


def chosen(config: DeviceConfig, fetch: Fetch = fetch_gpu) -> Chosen:
    """`Permanent` when a GPU was asked for and cannot be used; `auto` takes the CPU then, and says why."""
    if config.device == CPU:
        return Chosen(None, "the CPU")
    try:
        for tenant in config.tenants:
            _check_backend(tenant)
        gpu = fetch(0 if config.device == AUTO else gpu_index(config.device))
    except DureError as error:
        if config.device == AUTO:
            return Chosen(None, f"the CPU ({error.message})")
        raise Permanent(
            f"device '{config.device}' was asked for and cannot be used: {error.message}",
            remedy=f"{error.remedy} See docs/share.md for what a GPU needs, or give `device: cpu`.".strip(),
        ) from error
    usable = divided(config, gpu)
    return Chosen(usable, f"GPU {gpu.index}, {gpu.name}: {_in_words(shape_of(config, usable), usable)}")


def divided(config: DeviceConfig, gpu: Gpu) -> Gpu:
    """The GPU with its groups only where every tenant can keep to them and others run meanwhile."""
    if gpu.mps and all(by_torch(tenant.model) for tenant in config.tenants):
        return gpu
    return msgspec.structs.replace(gpu, groups=0, group_sms=0)


def shape_of(config: DeviceConfig, gpu: Gpu | None) -> Shape:
    """How squads divide it; of a GPU as `divided` answered it."""
    if gpu is None:
        return Shape(config.cores or os.cpu_count() or 1, True, "threads")
    if not gpu.mps:
        return Shape(1, True, "GPUs")
    if gpu.groups:
        return Shape(gpu.groups, True, f"groups of {gpu.group_sms} SMs")
    return Shape(ABOUT, False, "parts")


def work_of(tenant: TenantConfig, parts: int, gpu: Gpu | None) -> Work:
    """What the tenant's process is told at its start."""
    standing = 0 if tenant.reserved > 0.0 else 2 if tenant.batch else 1
    fixed = gpu is not None and not gpu.groups and tenant.limit > 0.0
    return Work(
        tenant.model,
        tenant.segments,
        parts,
        tenant.memory_mib,
        gpu,
        rank=standing,
        most=tenant.limit if fixed else None,
        batch=tenant.batch,
        exact=tenant.exact,
        code=tenant.code,
    )


def widest(tenant: TenantConfig, gpu: Gpu | None) -> int:
    """The most parts that its work can use, where that is known beforehand; 0 where it is not."""
    return 1 if gpu is None and tenant.exact and by_torch(tenant.model) else 0


def _check_backend(tenant: TenantConfig) -> None:
    if by_torch(tenant.model):
        if find_spec("torch") is None:
            raise NotFound("PyTorch is not installed", remedy="Install the extra: pip install 'dure[torch]'.")
        return
    import onnxruntime as ort

    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise NotFound("this onnxruntime has no CUDA provider", remedy="Install onnxruntime-gpu in its place.")


def _in_words(shape: Shape, gpu: Gpu) -> str:
    if not gpu.mps:
        return "one tenant at a time, as MPS is off"
    return f"{shape.parts} {shape.unit} by green contexts" if shape.exclusive else "shared by priority under MPS"
