"""What one replica asks for, and what that means on a device of another class.

Shares (`compute_milli`, `bandwidth_milli`) are of one device of the workload's first accepted class; a device
with half the throughput has to give twice the share. Memory is absolute.
"""

from __future__ import annotations

import msgspec

from dure.model.accelerator import AcceleratorProfile
from dure.model.units import WHOLE_MILLI, MiB, Milli


class Demand(msgspec.Struct, frozen=True, omit_defaults=True):
    """`devices` whole devices, or (devices == 0) a share of one; zero shares mean 'whatever is left'."""

    devices: int = 0
    memory_mib: MiB = 0
    compute_milli: Milli = 0
    bandwidth_milli: Milli = 0
    cpu_milli: Milli = 0
    host_memory_mib: MiB = 0

    @property
    def whole(self) -> bool:
        return self.devices > 0

    @property
    def device_milli(self) -> Milli:
        """Devices' worth of one replica, for quotas and fairness."""
        return self.devices * WHOLE_MILLI if self.devices > 0 else max(self.compute_milli, self.bandwidth_milli)


def on_class(demand: Demand, profile: AcceleratorProfile, reference: AcceleratorProfile) -> Demand:
    """The same demand in shares of `profile` instead of `reference`. Shares may exceed a whole device."""
    if demand.whole or profile.name == reference.name:
        return demand
    return msgspec.structs.replace(
        demand,
        compute_milli=_rescaled(demand.compute_milli, reference.best_tops, profile.best_tops),
        bandwidth_milli=_rescaled(demand.bandwidth_milli, reference.bandwidth_gbs, profile.bandwidth_gbs),
    )


def _rescaled(milli: Milli, reference: float, found: float) -> Milli:
    return round(milli * reference / found) if found > 0 else milli
