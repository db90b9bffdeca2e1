"""The CUDA driver: is there a GPU, what does it have, and into how many groups of SMs can it be divided.

The binding (the `cuda.bindings.driver` module of cuda-bindings, or a fake with the same functions) is handed in;
`open_driver` finds the real one. Every function of it answers a code first: `done` turns that into the errors of
`dure.model.errors`. Looking at a GPU makes no context on it, so the daemon may look and only tenants' processes run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dure.model.errors import DureError, NotFound, Permanent, Temporary

MIB = 1024 * 1024
ABOUT = 8
"""Groups to aim at. Each run of neighbouring groups is a green context with a workspace of its own in the math
libraries, so twice as many groups would cost four times the memory."""
PARTITIONS = {6: (1, 1), 7: (2, 2), 8: (4, 2)}
"""Least SMs of a partition and its step by compute capability, for drivers that do not tell; newer ones 8 and 8."""
INSTALL = "Install the extra: pip install 'dure[cuda]'."


class Gpu(msgspec.Struct, frozen=True):
    """What tenants' processes need to know of the device they run on."""

    index: int
    name: str
    memory_mib: int
    sms: int
    groups: int = 0
    """Equal, disjoint groups of SMs that green contexts can be made of; 0 where there are no green contexts."""
    group_sms: int = 0
    mps: bool = False
    """Processes run side by side; without MPS the driver lets one run at a time."""


def open_driver() -> Any:
    """The real driver, initialised; `NotFound` where there is none, or no binding."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NotFound("cuda-bindings is not installed", remedy=INSTALL) from error
    try:
        done(driver, driver.cuInit(0))
    except RuntimeError as error:
        # What the binding raises when it finds no driver library.
        raise NotFound(f"no CUDA driver: {error}", remedy="Install NVIDIA's driver, or use the CPU.") from error
    return driver


def look(driver: Any, index: int, *, mps: bool = False) -> Gpu:
    """One GPU; `NotFound` when there is none of this number."""
    count = done(driver, driver.cuDeviceGetCount())
    if not 0 <= index < count:
        raise NotFound(f"no CUDA device {index}: there are {count}", remedy="Count from 0.")
    device = done(driver, driver.cuDeviceGet(index))
    attribute = driver.CUdevice_attribute
    sms = done(driver, driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device))
    name = done(driver, driver.cuDeviceGetName(128, device))
    memory = done(driver, driver.cuDeviceTotalMem(device))
    try:
        size = _size(driver, device)
        groups = len(groups_of(driver, device, size))
    except (DureError, RuntimeError, AttributeError):
        # An old driver or an old binding; what else is wrong shows when a context is made.
        size, groups = 0, 0
    text = name.split(b"\0")[0].decode(errors="replace")
    whole = groups > 1
    return Gpu(index, text, memory // MIB, sms, groups if whole else 0, size if whole else 0, mps)


def groups_of(driver: Any, device: Any, size: int) -> list[Any]:
    """The device's SMs in disjoint groups of one size, as many as the driver makes; what is left over is in none."""
    resource = _sm_resource(driver, device)
    made, count, _ = done(driver, driver.cuDevSmResourceSplitByCount(resource.sm.smCount // size, resource, 0, size))
    return list(made[:count])


def group_size(sms: int, least: int, step: int) -> int:
    """SMs of a group: what leaves the fewest SMs over among the sizes that make about eight groups."""
    first = -(-least // step) * step
    sizes = [size for size in range(first, sms + 1, step) if ABOUT * 3 // 4 <= sms // size <= ABOUT * 3 // 2]
    if not sizes:
        return first
    return min(sizes, key=lambda size: (sms % size, abs(sms // size - ABOUT)))


def done(driver: Any, answer: tuple[Any, ...]) -> Any:
    """What a call answered besides its code: nothing, one value or a tuple."""
    code, *values = answer
    if code != driver.CUresult.CUDA_SUCCESS:
        raise _translated(driver, code)
    return values[0] if len(values) == 1 else (tuple(values) or None)


def _size(driver: Any, device: Any) -> int:
    sm = _sm_resource(driver, device).sm
    major = done(
        driver,
        driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
    )
    least, step = PARTITIONS.get(major, (8, 8))
    return group_size(
        sm.smCount, getattr(sm, "minSmPartitionSize", 0) or least, getattr(sm, "smCoscheduledAlignment", 0) or step
    )


def _sm_resource(driver: Any, device: Any) -> Any:
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    return done(driver, driver.cuDeviceGetDevResource(device, kind))


def _translated(driver: Any, code: Any) -> DureError:
    r = driver.CUresult
    kinds: dict[Any, type[DureError]] = {
        r.CUDA_ERROR_NO_DEVICE: NotFound,
        r.CUDA_ERROR_INVALID_DEVICE: NotFound,
        r.CUDA_ERROR_NOT_SUPPORTED: NotFound,
        r.CUDA_ERROR_OUT_OF_MEMORY: Temporary,
    }
    return kinds.get(code, Permanent)(f"CUDA: {code.name}")
