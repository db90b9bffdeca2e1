"""An instance type that can be rented: accelerators, host, list price. Facts, not a tariff of anybody's fleet."""

from __future__ import annotations

import msgspec

from dure.model.units import MiB, Micros


class InstanceOffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`gpu` is the accelerator's name in node labels; `memory_gib` is the host's, `device_mib` one device's.

    `link_gbs` is what two devices exchange in one direction: NVLink where there is one, else PCIe through the host.
    Prices are in 1e-6 USD an hour.
    """

    name: str
    class_name: str
    gpu: str
    devices: int
    vcpus: int
    memory_gib: int
    usd_micros_per_h: Micros
    efa: int = 0
    device_mib: MiB = 0
    link_gbs: float = 16.0

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]
