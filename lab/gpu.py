"""What the NVIDIA operators publish about the GPUs of a node: labels and extended resources.

Used by `lab.nodes`; pure. Label names are those of GPU feature discovery with the mixed MIG strategy; slice memory
is the profile's nominal size, where the real operator reports a little less.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import LabError

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Gpu:
    """The devices of a node, all alike."""

    product: str = "NVIDIA-A100-SXM4-40GB"
    count: int = 8
    memory_mib: int = 40_960
    family: str = "ampere"
    compute: str = "8.0"
    machine: str = "lab"
    mig_capable: bool = True


@dataclass(frozen=True)
class Sharing:
    """How the device plugin multiplies devices: `none`, `time-slicing` or `mps`."""

    mode: str = "none"
    replicas: int = 1

    def __post_init__(self) -> None:
        if self.mode not in ("none", "time-slicing", "mps"):
            raise LabError(f"sharing mode {self.mode!r} is not one of none, time-slicing, mps")


def gpu_view(gpu: Gpu, mig: Mapping[str, int], sharing: Sharing) -> tuple[dict[str, str], dict[str, int]]:
    """Labels and resources of a node whose every GPU has the MIG layout `mig` (empty: whole GPUs)."""
    labels = _device_labels(gpu, mig, sharing)
    whole = 0 if mig else gpu.count * sharing.replicas
    resources = {GPU: whole}
    for profile, per_gpu in mig.items():
        count = per_gpu * gpu.count
        resources[mig_resource(profile)] = count * sharing.replicas
        labels |= _slice_labels(gpu, profile, count, sharing)
    return labels, resources


def mig_resource(profile: str) -> str:
    """`1g.10gb+me` is `nvidia.com/mig-1g.10gb.me`: a plus sign is not legal in a resource name."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def _device_labels(gpu: Gpu, mig: Mapping[str, int], sharing: Sharing) -> dict[str, str]:
    major, minor = gpu.compute.split(".")
    shared = "-SHARED" if sharing.mode == "time-slicing" and not mig else ""
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu.product + shared,
        "nvidia.com/gpu.count": str(gpu.count),
        "nvidia.com/gpu.memory": str(gpu.memory_mib),
        "nvidia.com/gpu.family": gpu.family,
        "nvidia.com/gpu.machine": gpu.machine,
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.replicas": str(sharing.replicas),
        "nvidia.com/gpu.sharing-strategy": sharing.mode,
        "nvidia.com/mps.capable": str(sharing.mode == "mps").lower(),
        "nvidia.com/mig.capable": str(gpu.mig_capable).lower(),
        "nvidia.com/mig.strategy": "mixed",
    }


def _slice_labels(gpu: Gpu, profile: str, count: int, sharing: Sharing) -> dict[str, str]:
    found = re.match(r"(\d+)g\.(\d+)gb", profile)
    if found is None:
        raise LabError(f"MIG profile {profile!r} is not of the form 1g.5gb")
    name = mig_resource(profile)
    return {
        f"{name}.count": str(count),
        f"{name}.product": f"{gpu.product}-MIG-{profile.replace('+', '.')}",
        f"{name}.memory": str(int(found[2]) * 1024),
        f"{name}.slices.gi": found[1],
        f"{name}.slices.ci": found[1],
        f"{name}.replicas": str(sharing.replicas),
        f"{name}.sharing-strategy": sharing.mode,
    }
