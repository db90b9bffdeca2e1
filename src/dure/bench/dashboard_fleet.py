"""A fleet of any size in memory, for measuring the dashboard: the demo's clusters with as many devices as one likes.

Three of four devices are held, each by a workload of its own. `shake` changes what a few devices hold and tells an
event, as a busy fleet would.
"""

from __future__ import annotations

from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.sources import carbon_of, prices_of
from dure.embedded.week import START_S
from dure.files.builtin import catalogue, demo_fleet
from dure.model.accelerator import ShareMode
from dure.model.cluster import Slice, VNodePool
from dure.model.demand import Demand
from dure.model.event import Event
from dure.model.report import DeviceView, Held, Report
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.plane.desk import Desk
from dure.plane.observe import Observer

PER_NODE = 8


class BigFleet:
    """`desk` is what the API serves."""

    def __init__(self, devices: int) -> None:
        self.store, self.clock = MemoryStore(), VirtualClock(START_S)
        self.fleet, known = demo_fleet(), catalogue()
        prices, carbon = prices_of(self.fleet, self.clock, 1), carbon_of(self.fleet, self.clock, 1)
        self.desk = Desk(Observer(self.store, self.fleet, known, prices, carbon, 1), self.clock)
        for tenant in self.fleet.tenants:
            self.store.write_tenant(tenant)
        self._tenants = [tenant.name for tenant in self.fleet.tenants]
        self._told = 0
        pools = [(spec.info.name, pool) for spec in self.fleet.clusters for pool in spec.pools]
        self._devices: dict[str, list[DeviceView]] = {}
        self._pools: dict[str, list[VNodePool]] = {}
        for index, (cluster, pool) in enumerate(pools):
            count = devices // len(pools) + (index < devices % len(pools))
            made = [self._device(cluster, pool.name, pool.class_name, number) for number in range(count)]
            self._devices.setdefault(cluster, []).extend(made)
            used = sum(bool(device.held) for device in made)
            nodes = -(-count // PER_NODE)
            self._pools.setdefault(cluster, []).append(
                VNodePool(
                    cluster, pool.name, pool.class_name, pool.capacity, nodes=nodes, nodes_ready=nodes,
                    devices_per_node=PER_NODE, devices=count, free_milli=(count - used) * 1000,
                )
            )  # fmt: skip
        for cluster in self._devices:
            self._report(cluster)

    def shake(self, number: int) -> None:
        """Another look at one cluster: one device in fifty of it changes hands."""
        self.clock.advance(self.clock.now() + 1.0)
        cluster = sorted(self._devices)[number % len(self._devices)]
        kept = self._devices[cluster]
        for index in range(number % 50, len(kept), 50):
            device = kept[index]
            tenant = self._tenants[(number + index) % len(self._tenants)]
            kept[index] = replace(device, held=tuple(replace(one, tenant=tenant) for one in device.held))
        self._report(cluster)
        self._told += 1
        self.store.commit([], events=[Event(self.clock.now(), "note", f"{cluster} changed, {self._told}")])

    def _report(self, cluster: str) -> None:
        now_s = self.clock.now()
        pools, devices = tuple(self._pools[cluster]), tuple(self._devices[cluster])
        self.store.write_report(Report(cluster, now_s, str(now_s), pools, (), devices))

    def _device(self, cluster: str, pool: str, class_name: str, number: int) -> DeviceView:
        node, id_ = f"{pool}-{number // PER_NODE}", f"{pool}-{number}"
        held: tuple[Held, ...] = ()
        if number % 4:
            name, tenant = f"{cluster}-{pool}-{number}", self._tenants[number % len(self._tenants)]
            self._run(name, tenant, Placement(
                name, 1, cluster, pool, class_name, ShareMode.EXCLUSIVE, self.fleet.clusters[0].pools[0].capacity, 1,
                START_S,
            ))  # fmt: skip
            held = (Held(Slice(id_, ShareMode.EXCLUSIVE), f"pod-{id_}", name, tenant),)
        return DeviceView(id_, node, pool, class_name, ShareMode.EXCLUSIVE, held=held)

    def _run(self, name: str, tenant: str, home: Placement) -> None:
        spec = Workload(name, tenant, WorkloadType.BATCH, (AcceptedClass(home.class_name),), Demand(devices=1))
        status = WorkloadStatus(Phase.RUNNING, START_S, home, 1, started_s=START_S, ready=1)
        self.store.create_workload(WorkloadRecord(f"uid-{name}", spec, status))
