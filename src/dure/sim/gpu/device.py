"""Devices the virtual GPU can be: how many SMs, how MIG cuts them, what switching costs.

Figures are public facts of the devices; the costs are those measured by the BLESS authors on an A100.
"""

from __future__ import annotations

import msgspec


class GpuSpec(msgspec.Struct, frozen=True):
    """One device model. Times in ms."""

    name: str
    sms: int
    mig_sms: int = 0
    launch_ms: float = 0.003
    squad_switch_ms: float = 0.020
    context_switch_ms: float = 0.050
    context_mib: int = 230
    waves: bool = False
    free_drag: float = 0.15
    """Slowdown of kernels that co-run without caps, beyond equation 1."""


A100 = GpuSpec("a100-40gb", 108, mig_sms=14)
V100 = GpuSpec("v100-16gb", 80, waves=True)
H100 = GpuSpec("h100-80gb", 132, mig_sms=16)
RTX3080 = GpuSpec("rtx-3080", 68)
RTX2080TI = GpuSpec("rtx-2080ti", 68)
MI50 = GpuSpec("mi50", 60)

PRESETS = {spec.name: spec for spec in (A100, V100, H100, RTX3080, RTX2080TI, MI50)}
