"""What is still free in a pool while one cycle decides: the report's figures less what was just given away.

Nodes that could be booted count as room too; a placement on them pays the wait for the boot.
"""

from __future__ import annotations

from dure.model.cluster import VNodePool
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.units import WHOLE_MILLI, gib, percent


class PoolRoom:
    def __init__(self, pool: VNodePool) -> None:
        self.pool = pool
        self.where = f"{pool.cluster}/{pool.name}"
        bootable = max(0, pool.nodes_max - pool.nodes)
        self.free = list(pool.free_whole)
        self.unbooted = [pool.devices_per_node] * bootable
        self.free_milli = pool.free_milli + bootable * pool.devices_per_node * WHOLE_MILLI
        self.cpu_milli = pool.free_cpu_milli
        self.host_memory_mib = pool.free_host_memory_mib

    @property
    def devices_free(self) -> int:
        return sum(self.free) + sum(self.unbooted)

    def host(self, resource: int) -> int:
        """Free host CPU (0, in thousandths) or memory (1, in MiB) of all its nodes."""
        return self.host_memory_mib if resource else self.cpu_milli

    def fitting(self, demand: Demand) -> int:
        """How many of `demand` there is room for."""
        if demand.whole:
            return sum(free // demand.devices for free in (*self.free, *self.unbooted))
        pool = self.pool
        here = demand.memory_mib <= pool.largest_memory_mib and demand.compute_milli <= pool.largest_compute_milli
        fresh = sum(self.unbooted) * (WHOLE_MILLI // max(1, demand.device_milli))
        return (pool.free_milli // max(1, demand.device_milli) if here else 0) + fresh

    def whole_after(self, demand: Demand, replicas: int) -> int:
        """Whole devices that are left, at least, when these have theirs; shares go to broken ones first."""
        if demand.whole:
            return self.devices_free - demand.devices * replicas
        broken_milli = max(0, self.free_milli - self.devices_free * WHOLE_MILLI)
        more_milli = max(0, demand.device_milli * replicas - broken_milli)
        return self.devices_free - -(-more_milli // WHOLE_MILLI)

    def clash(self, demand: Demand, replicas: int, device_memory_mib: int) -> Verdict | None:
        """Why `replicas` of `demand` do not fit now, or nothing."""
        return (
            self._whole_clash(demand, replicas)
            if demand.whole
            else self._share_clash(demand, replicas, device_memory_mib)
        )

    def take(self, demand: Demand, replicas: int) -> None:
        if demand.whole:
            for _ in range(replicas):
                self._take_whole(demand.devices)
        self.free_milli -= demand.device_milli * replicas
        self.cpu_milli -= demand.cpu_milli * replicas
        self.host_memory_mib -= demand.host_memory_mib * replicas

    def spare_booted(self, demand: Demand, replicas: int) -> float | None:
        """Devices that come with nodes to be booted first and that it does not need; None when none has to be."""
        each = self.pool.devices_per_node
        if demand.whole:
            lacking = replicas - sum(free // demand.devices for free in self.free)
            return _spare(lacking, max(1, each // demand.devices), demand.devices, each)
        lacking = demand.device_milli * replicas - self.pool.free_milli
        spare = _spare(lacking, each * WHOLE_MILLI, 1, each * WHOLE_MILLI)
        return None if spare is None else spare / WHOLE_MILLI

    def _whole_clash(self, demand: Demand, replicas: int) -> Verdict | None:
        if self.fitting(demand) >= replicas:
            return None
        wanted = f"{replicas} x {demand.devices} whole devices" if replicas > 1 else f"{demand.devices} whole devices"
        if self.devices_free >= replicas * demand.devices:
            largest = max((*self.free, *self.unbooted), default=0)
            found = f"{self.devices_free} are free in {self.where} but at most {largest} on one node"
            return Verdict(self.where, Reason.FRAGMENTED, wanted, found)
        return Verdict(self.where, Reason.NO_CAPACITY, wanted, f"{self.where} has {self.devices_free} free")

    def _share_clash(self, demand: Demand, replicas: int, device_memory_mib: int) -> Verdict | None:
        fresh = bool(self.unbooted)
        memory = device_memory_mib if fresh else self.pool.largest_memory_mib
        if demand.memory_mib > memory:
            found = f"largest free slice in {self.where} is {gib(memory)}"
            return Verdict(self.where, Reason.NO_CAPACITY, gib(demand.memory_mib), found)
        compute = WHOLE_MILLI if fresh else self.pool.largest_compute_milli
        if demand.compute_milli > compute:
            found = f"largest free share in {self.where} is {percent(compute)}"
            return Verdict(self.where, Reason.NO_CAPACITY, f"{percent(demand.compute_milli)} of a device", found)
        wanted = demand.device_milli * replicas
        if wanted > self.free_milli:
            found = f"{self.where} has {self.free_milli / WHOLE_MILLI:.2f} left"
            return Verdict(self.where, Reason.NO_CAPACITY, f"{wanted / WHOLE_MILLI:.2f} devices", found)
        return None

    def _take_whole(self, devices: int) -> None:
        """From the node that is left with the least; booted nodes before new ones."""
        for nodes in (self.free, self.unbooted):
            fitting = [index for index, free in enumerate(nodes) if free >= devices]
            if fitting:
                best = min(fitting, key=lambda index: nodes[index])
                nodes[best] -= devices
                return


def _spare(lacking: int, a_node_holds: int, size: int, a_node_has: int) -> int | None:
    """What is left over on as many nodes as `lacking` things of a size need."""
    if lacking <= 0:
        return None
    return max(0, -(-lacking // max(1, a_node_holds)) * a_node_has - lacking * size)
