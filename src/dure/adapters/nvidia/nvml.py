"""`DevicePort` on NVML: inventory, MIG mode, GPU instances with their compute instance.

The binding (the `pynvml` module of nvidia-ml-py, or a fake with the same functions) is handed in; `open_library`
finds the real one. Errors of the library become the errors of `dure.model.errors`: busy and lost devices are
`Temporary` or `Conflict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dure.model.errors import Conflict, DureError, NotAllowed, NotFound, Permanent, Temporary
from dure.ports import DeviceFacts, SliceFacts

MIB = 1024 * 1024
GPU_INSTANCE_PROFILES = 16
"""Profile numbers to try; unknown ones are reported as not supported and skipped."""
WHOLE_COMPUTE_PROFILE = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""Compute-instance profile that fills a GPU instance of so many slices."""


def open_library() -> Any:
    """The real NVML, initialised; `NotFound` where there is no driver or no binding."""
    try:
        import pynvml
    except ImportError as error:
        raise NotFound(
            "nvidia-ml-py is not installed", remedy="Install the extra: pip install 'dure[nvidia]'."
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NotFound(f"no NVIDIA driver answers: {error}", remedy="Run on a node with an NVIDIA driver.") from error
    return pynvml


class NvmlDevices:
    """All NVIDIA devices of one node."""

    def __init__(self, library: Any) -> None:
        self._nvml = library

    def fetch_devices(self) -> tuple[DeviceFacts, ...]:
        count = self._call(self._nvml.nvmlDeviceGetCount)
        return tuple(self._facts(index) for index in range(count))

    def set_mig(self, device: str, enabled: bool) -> None:
        handle = self._handle(device)
        if self.fetch_slices(device):
            raise Conflict(
                f"device {device} still has slices", remedy="Destroy them first; MIG mode needs an idle device."
            )
        self._call(self._nvml.nvmlDeviceSetMigMode, handle, int(enabled))

    def fetch_slices(self, device: str) -> tuple[SliceFacts, ...]:
        handle = self._handle(device)
        if not self._mig_on(handle):
            return ()
        uuids = self._uuids(handle)
        found = []
        for number in range(GPU_INSTANCE_PROFILES):
            profile = self._profile(handle, number)
            if profile is None:
                continue
            for instance in self._call(self._nvml.nvmlDeviceGetGpuInstances, handle, profile.id):
                info = self._call(self._nvml.nvmlGpuInstanceGetInfo, instance)
                found.append(_slice(info, profile, uuids))
        return tuple(sorted(set(found), key=lambda s: (s.start, s.id)))

    def create_slice(self, device: str, slices: int) -> SliceFacts:
        handle = self._handle(device)
        if not self._mig_on(handle):
            raise Conflict(f"MIG is off on device {device}", remedy="Turn it on first; the device must be idle.")
        profile = self._of_size(handle, slices)
        if profile is None:
            raise NotFound(f"device {device} has no profile of {slices} slices", remedy="Sizes are 1, 2, 3, 4 and 7.")
        if self._call(self._nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, handle, profile.id) < 1:
            raise Conflict(
                f"no room for {slices} slices on device {device}", remedy="Destroy a slice, or ask for less."
            )
        instance = self._call(self._nvml.nvmlDeviceCreateGpuInstance, handle, profile.id)
        try:
            self._call(self._nvml.nvmlGpuInstanceCreateComputeInstance, instance, WHOLE_COMPUTE_PROFILE[slices])
        except DureError:
            self._call(self._nvml.nvmlGpuInstanceDestroy, instance)
            raise
        info = self._call(self._nvml.nvmlGpuInstanceGetInfo, instance)
        return _slice(info, profile, self._uuids(handle))

    def destroy_slice(self, device: str, slice_id: int) -> None:
        handle = self._handle(device)
        if slice_id not in {s.id for s in self.fetch_slices(device)}:
            return
        instance = self._call(self._nvml.nvmlDeviceGetGpuInstanceById, handle, slice_id)
        for number in WHOLE_COMPUTE_PROFILE.values():
            for compute in self._compute_instances(instance, number):
                self._call(self._nvml.nvmlComputeInstanceDestroy, compute)
        self._call(self._nvml.nvmlGpuInstanceDestroy, instance)

    def _compute_instances(self, instance: Any, number: int) -> list[Any]:
        try:
            return list(self._call(self._nvml.nvmlGpuInstanceGetComputeInstances, instance, number))
        except NotFound:
            return []

    def _facts(self, index: int) -> DeviceFacts:
        handle = self._call(self._nvml.nvmlDeviceGetHandleByIndex, index)
        memory = self._call(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        return DeviceFacts(
            id=_text(self._call(self._nvml.nvmlDeviceGetUUID, handle)),
            name=_text(self._call(self._nvml.nvmlDeviceGetName, handle)),
            memory_mib=int(memory.total // MIB),
            used_mib=int(memory.used // MIB),
            busy=self._busy(handle),
            mig=self._mig_on(handle),
            minor=int(self._call(self._nvml.nvmlDeviceGetMinorNumber, handle)),
        )

    def _busy(self, handle: Any) -> float | None:
        """Nothing where MIG is on: the driver has no such figure for the whole then."""
        try:
            return int(self._call(self._nvml.nvmlDeviceGetUtilizationRates, handle).gpu) / 100.0
        except NotFound:
            return None

    def _uuids(self, handle: Any) -> dict[int, str]:
        """By GPU instance: the name under which a container is given it."""
        found = {}
        for index in range(self._call(self._nvml.nvmlDeviceGetMaxMigDeviceCount, handle)):
            try:
                part = self._call(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            except NotFound:
                continue
            owner = int(self._call(self._nvml.nvmlDeviceGetGpuInstanceId, part))
            found[owner] = _text(self._call(self._nvml.nvmlDeviceGetUUID, part))
        return found

    def _handle(self, device: str) -> Any:
        return self._call(self._nvml.nvmlDeviceGetHandleByUUID, device)

    def _mig_on(self, handle: Any) -> bool:
        try:
            current, _ = self._call(self._nvml.nvmlDeviceGetMigMode, handle)
        except NotFound:
            return False
        return bool(current)

    def _of_size(self, handle: Any, slices: int) -> Any:
        profiles = [self._profile(handle, number) for number in range(GPU_INSTANCE_PROFILES)]
        sized = [p for p in profiles if p is not None and p.sliceCount == slices]
        return sized[0] if sized else None

    def _profile(self, handle: Any, number: int) -> Any:
        try:
            return self._call(self._nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number)
        except NotFound:
            return None

    def _call(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except self._nvml.NVMLError as error:
            raise self._translated(error) from error

    def _translated(self, error: Any) -> DureError:
        n = self._nvml
        kinds: dict[int, type[DureError]] = {
            n.NVML_ERROR_NOT_FOUND: NotFound,
            n.NVML_ERROR_NOT_SUPPORTED: NotFound,
            n.NVML_ERROR_INVALID_ARGUMENT: NotFound,
            n.NVML_ERROR_NO_PERMISSION: NotAllowed,
            n.NVML_ERROR_IN_USE: Conflict,
            n.NVML_ERROR_INSUFFICIENT_RESOURCES: Conflict,
            n.NVML_ERROR_GPU_IS_LOST: Temporary,
            n.NVML_ERROR_TIMEOUT: Temporary,
        }
        return kinds.get(error.value, Permanent)(f"NVML: {error}")


def _slice(info: Any, profile: Any, uuids: Mapping[int, str]) -> SliceFacts:
    id_ = int(info.id)
    start, memory_mib = int(info.placement.start), int(profile.memorySizeMB)
    return SliceFacts(id_, int(profile.sliceCount), start, memory_mib, uuids.get(id_, ""))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
