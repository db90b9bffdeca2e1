"""A fleet as its owner describes it: clusters, their pools and prices, tenants, policies."""

from __future__ import annotations

import msgspec

from dure.model.accelerator import AcceleratorProfile, ShareMode
from dure.model.cluster import ClusterInfo
from dure.model.money import Rates
from dure.model.policy import Policy
from dure.model.tariff import Capacity, Tariff
from dure.model.tenant import Tenant
from dure.model.units import MiB, Micros, Milli, Seconds


class PoolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """`nodes` of equal shape; `nodes_max` above it is what may be booted on demand."""

    name: str
    class_name: str
    tariff: Tariff
    nodes: int = 0
    nodes_max: int = 0
    devices: int = 1
    share: tuple[ShareMode, ...] = (ShareMode.EXCLUSIVE,)
    capacity: Capacity = Capacity.OWNED
    cpu_milli: Milli = 0
    memory_mib: MiB = 0
    link_group_size: int = 0
    boot_s: Seconds = 0.0
    zones: tuple[str, ...] = ()
    selector: dict[str, str] = {}


class Connect(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a member is reached: exactly one of these is set."""

    kubeconfig: str = ""
    context: str = ""
    embedded: bool = False
    agent: str = ""


class ClusterSpec(msgspec.Struct, frozen=True):
    info: ClusterInfo
    connect: Connect
    pools: tuple[PoolSpec, ...]


class SeriesSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or URL with figures over time. `columns` maps a grid or 'cluster/pool' to its column where names differ.

    Read again after `fresh_s`; while the source is away the last figures serve until `stale_s`. `local` allows an
    address of this very machine.
    """

    where: str
    columns: dict[str, str] = {}
    fresh_s: Seconds = 3600.0
    stale_s: Seconds = 6 * 3600.0
    capacity: Capacity = Capacity.SPOT
    local: bool = False


class Fleet(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    clusters: tuple[ClusterSpec, ...]
    tenants: tuple[Tenant, ...] = ()
    policies: tuple[Policy, ...] = ()
    currency: str = "KRW"
    rates: Rates = Rates()
    carbon_micros_per_kg: Micros = 0
    classes: dict[str, AcceleratorProfile] = {}
    demo: bool = False
    price_source: SeriesSource | None = None
    carbon_source: SeriesSource | None = None

    def cluster(self, name: str) -> ClusterSpec | None:
        return next((cluster for cluster in self.clusters if cluster.info.name == name), None)
