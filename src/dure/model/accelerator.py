"""Classes of accelerators and how one device of a class may be cut into slices.

MIG geometry is a table of legal placements on the memory axis: a profile takes `slots` neighbouring memory
slots and may begin only at `starts`; compute slices are counted apart (3g takes four slots and three
compute slices). vNPU templates are the same table with starts at every multiple of their size.
"""

from __future__ import annotations

import enum
import functools

import msgspec

from dure.model.units import MiB, Milli


class Kind(enum.StrEnum):
    GPU = "gpu"
    NPU = "npu"
    CPU = "cpu"


class ShareMode(enum.StrEnum):
    EXCLUSIVE = "exclusive"
    MIG = "mig"
    MPS = "mps"
    TIMESLICE = "timeslice"
    VNPU = "vnpu"


class DataType(enum.StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"


class SliceProfile(msgspec.Struct, frozen=True, cache_hash=True):
    """One legal kind of slice. `compute_milli` is its share of the device's compute (SMs or cores)."""

    name: str
    slots: int
    starts: tuple[int, ...]
    compute_slices: int
    memory_mib: MiB
    compute_milli: Milli
    max_instances: int
    resource: str = ""

    def masks(self) -> tuple[int, ...]:
        """The slot bitmask of each legal start, lowest start first."""
        return _masks(self.slots, self.starts)


@functools.lru_cache(maxsize=256)
def _masks(slots: int, starts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(((1 << slots) - 1) << start for start in starts)


class Geometry(msgspec.Struct, frozen=True, cache_hash=True):
    """`slots` is the width of the memory axis (8 on A100 and H100, 4 on A30)."""

    slots: int
    compute_slices: int
    profiles: tuple[SliceProfile, ...]

    def profile(self, name: str) -> SliceProfile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)


_BEST = (DataType.BF16, DataType.FP16, DataType.INT8, DataType.FP32, DataType.FP8)


class AcceleratorProfile(msgspec.Struct, frozen=True):
    """Dense figures of one accelerator class; `None` where the vendor publishes nothing."""

    name: str
    vendor: str
    kind: Kind
    memory_mib: MiB
    bandwidth_gbs: float
    tops: dict[DataType, float]
    peak_w: float
    idle_w: float
    share: tuple[ShareMode, ...] = (ShareMode.EXCLUSIVE,)
    resource: str = ""
    slice_resource: str = ""
    mig: Geometry | None = None
    vnpu: Geometry | None = None
    mps_clients: int = 0
    timeslice_clients: int = 0
    confidence: str = "datasheet"
    note: str = ""

    @property
    def best_tops(self) -> float:
        """Dense 16-bit throughput where there is one, else the best the device has."""
        for data_type in _BEST:
            if data_type in self.tops:
                return self.tops[data_type]
        return 0.0

    def geometry(self, mode: ShareMode) -> Geometry | None:
        if mode is ShareMode.MIG:
            return self.mig
        return self.vnpu if mode is ShareMode.VNPU else None

    def clients(self, mode: ShareMode) -> int:
        """How many tenants may hold a share of one device in this mode."""
        if mode is ShareMode.MPS:
            return self.mps_clients
        return self.timeslice_clients if mode is ShareMode.TIMESLICE else 1
