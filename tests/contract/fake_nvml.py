"""A fake NVML library: the functions of the binding that the adapter calls, over a model of an A100's MIG.

Placements follow the published table: 1g anywhere, 2g on even slices, 3g at 0 or 4, 4g at 0, 7g alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

PLACES = {1: tuple(range(7)), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}
SPAN = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
PROFILE = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


class FakeNvml:
    """Each device: MIG mode and instances (id -> slices, start, compute instances)."""

    NVMLError = NVMLError
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_IN_USE = 19
    NVML_ERROR_INSUFFICIENT_RESOURCES = 22

    def nvmlInit(self) -> None:
        """A driver that answers."""

    def __init__(self, devices: int = 2, *, mig_capable: bool = True) -> None:
        self._devices = [
            SimpleNamespace(uuid=f"GPU-{i}", mig=False, instances={}, lost=False) for i in range(devices)
        ]
        self._mig_capable = mig_capable
        self._next = 1

    def lose(self, index: int) -> None:
        self._devices[index].lost = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self._devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self._devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        for device in self._devices:
            if device.uuid == uuid:
                if device.lost:
                    raise NVMLError(self.NVML_ERROR_GPU_IS_LOST)
                return device
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, device: Any) -> str:
        return str(device.uuid)

    def nvmlDeviceGetName(self, device: Any) -> bytes:
        return b"NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetMemoryInfo(self, device: Any) -> Any:
        return SimpleNamespace(total=40960 * 2**20, used=512 * 2**20)

    def nvmlDeviceGetMinorNumber(self, device: Any) -> int:
        return self._devices.index(device)

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        return 7 if self._mig_capable else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        """One for each compute instance, as the driver has it; numbers without one are not found."""
        made = [SimpleNamespace(uuid=f"MIG-{i.id}", owner=i) for i in device.instances.values() if i.compute]
        if index >= len(made):
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        return made[index]

    def nvmlDeviceGetGpuInstanceId(self, part: Any) -> int:
        return int(part.owner.id)

    def nvmlDeviceGetUtilizationRates(self, device: Any) -> Any:
        if device.mig:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=37, memory=10)

    def nvmlDeviceGetMigMode(self, device: Any) -> tuple[int, int]:
        if not self._mig_capable:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return int(device.mig), int(device.mig)

    def nvmlDeviceSetMigMode(self, device: Any, mode: int) -> int:
        if not self._mig_capable:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        device.mig = bool(mode)
        return 0

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, number: int) -> Any:
        if number not in PROFILE:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(id=number, sliceCount=PROFILE[number], memorySizeMB=4864 * SPAN[PROFILE[number]])

    def nvmlDeviceGetGpuInstances(self, device: Any, profile: int) -> list[Any]:
        return [i for i in device.instances.values() if i.slices == PROFILE[profile]]

    def nvmlGpuInstanceGetInfo(self, instance: Any) -> Any:
        return SimpleNamespace(
            id=instance.id, placement=SimpleNamespace(start=instance.start, size=SPAN[instance.slices])
        )

    def nvmlDeviceGetGpuInstanceById(self, device: Any, number: int) -> Any:
        return device.instances[number]

    def nvmlDeviceGetGpuInstanceRemainingCapacity(self, device: Any, profile: int) -> int:
        return len(self._free(device, PROFILE[profile]))

    def nvmlDeviceCreateGpuInstance(self, device: Any, profile: int) -> Any:
        free = self._free(device, PROFILE[profile])
        if not free:
            raise NVMLError(self.NVML_ERROR_INSUFFICIENT_RESOURCES)
        instance = SimpleNamespace(id=self._next, slices=PROFILE[profile], start=free[0], compute=[], device=device)
        device.instances[self._next] = instance
        self._next += 1
        return instance

    def nvmlGpuInstanceCreateComputeInstance(self, instance: Any, profile: int) -> Any:
        compute = SimpleNamespace(profile=profile, owner=instance)
        instance.compute.append(compute)
        return compute

    def nvmlGpuInstanceGetComputeInstances(self, instance: Any, profile: int) -> list[Any]:
        return [c for c in instance.compute if c.profile == profile]

    def nvmlComputeInstanceDestroy(self, compute: Any) -> None:
        compute.owner.compute.remove(compute)

    def nvmlGpuInstanceDestroy(self, instance: Any) -> None:
        if instance.compute:
            raise NVMLError(self.NVML_ERROR_IN_USE)
        del instance.device.instances[instance.id]

    def _free(self, device: Any, slices: int) -> list[int]:
        taken = {s for i in device.instances.values() for s in range(i.start, i.start + SPAN[i.slices])}
        return [p for p in PLACES[slices] if not taken & set(range(p, p + SPAN[slices]))]
