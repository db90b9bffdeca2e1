"""Many real nodes as a few virtual ones: what an agent tells the plane about its free room."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Node, NodePhase, Pod, VNodePool, holders
from dure.model.fleet import PoolSpec
from dure.model.units import MiB, Milli
from dure.pack.fit import largest_free
from dure.pack.room import DeviceRoom, KeptRooms, NodeRoom


class Figures(msgspec.Struct, frozen=True):
    """What one node adds to its pool; a node that is not ready adds devices but no room."""

    devices: int
    ready: bool = False
    free_whole: int = 0
    free_milli: Milli = 0
    largest_memory_mib: MiB = 0
    largest_compute_milli: Milli = 0
    largest_bandwidth_milli: Milli = 0
    free_cpu_milli: Milli = 0
    free_host_memory_mib: MiB = 0


class Survey:
    """The pools of one cluster, time after time: a node on which nothing changed is not counted again."""

    def __init__(self, catalogue: Catalogue, specs: tuple[PoolSpec, ...], rooms: KeptRooms | None = None) -> None:
        """`rooms` may be those that somebody packs with: what one of the two has built the other need not."""
        self.catalogue = catalogue
        self.rooms = rooms if rooms is not None else KeptRooms()
        self.specs = specs
        self._share = {spec.name: spec.share for spec in specs}
        self._known: dict[str, tuple[Node, list[Pod], Figures]] = {}
        self._made: dict[str, tuple[list[Figures], dict[str, int], VNodePool]] = {}

    def pools(self, state: ClusterState, warm: Mapping[str, dict[str, int]]) -> tuple[VNodePool, ...]:
        """One VNodePool per PoolSpec, also for pools without a node now. `warm` counts loaded models by pool."""
        here = holders(state)
        by_pool: dict[str, list[Figures]] = {spec.name: [] for spec in self.specs}
        known = {}
        for node in state.nodes:
            if node.phase is NodePhase.GONE or node.pool not in by_pool:
                continue
            pods = here.get(node.name, [])
            before = self._known.get(node.name)
            same = before is not None and (before[0] is node or before[0] == node) and before[1] == pods
            entry = before if before is not None and same else (node, pods, self._figures(node, pods))
            known[node.name] = entry
            by_pool[node.pool].append(entry[2])
        self._known = known
        made = (self._pool(state.cluster, spec, by_pool[spec.name], warm.get(spec.name, {})) for spec in self.specs)
        return tuple(sorted(made, key=lambda pool: pool.name))

    def _pool(self, cluster: str, spec: PoolSpec, nodes: list[Figures], warm: dict[str, int]) -> VNodePool:
        """The very same pool as last time where none of its nodes and no model is another."""
        before = self._made.get(spec.name)
        if before is None or before[1] != warm or not _same(before[0], nodes):
            before = self._made[spec.name] = nodes, warm, _pool(cluster, spec, nodes, warm)
        return before[2]

    def _figures(self, node: Node, pods: list[Pod]) -> Figures:
        if node.phase is not NodePhase.READY:
            return Figures(len(node.devices))
        return _figures(self.rooms.room(node, pods, self.catalogue), self._share[node.pool])


def _same(before: list[Figures], after: list[Figures]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))


def _figures(room: NodeRoom, share: tuple[ShareMode, ...]) -> Figures:
    devices = [one for one in room.devices.values() if one.device.healthy]
    return Figures(
        devices=len(room.devices),
        ready=True,
        free_whole=room.free_whole,
        free_milli=sum(one.compute_milli for one in devices),
        largest_memory_mib=max((_largest_memory(one, share) for one in devices), default=0),
        largest_compute_milli=max((one.compute_milli for one in devices), default=0),
        largest_bandwidth_milli=max((one.bandwidth_milli for one in devices), default=0),
        free_cpu_milli=room.cpu_milli,
        free_host_memory_mib=room.memory_mib,
    )


def _pool(cluster: str, spec: PoolSpec, nodes: list[Figures], warm: dict[str, int]) -> VNodePool:
    ready = [one for one in nodes if one.ready]
    return VNodePool(
        cluster=cluster,
        name=spec.name,
        class_name=spec.class_name,
        capacity=spec.capacity,
        share=spec.share,
        nodes=len(nodes),
        nodes_ready=len(ready),
        nodes_max=max(spec.nodes_max, spec.nodes, len(nodes)),
        devices_per_node=spec.devices,
        devices=sum(one.devices for one in nodes),
        free_whole=tuple(sorted((one.free_whole for one in ready if one.free_whole), reverse=True)),
        free_milli=sum(one.free_milli for one in ready),
        largest_memory_mib=max((one.largest_memory_mib for one in ready), default=0),
        largest_compute_milli=max((one.largest_compute_milli for one in ready), default=0),
        largest_bandwidth_milli=max((one.largest_bandwidth_milli for one in ready), default=0),
        free_cpu_milli=sum(one.free_cpu_milli for one in ready),
        free_host_memory_mib=sum(one.free_host_memory_mib for one in ready),
        largest_cpu_milli=max((one.free_cpu_milli for one in ready), default=0),
        largest_host_memory_mib=max((one.free_host_memory_mib for one in ready), default=0),
        boot_s=spec.boot_s,
        warm=warm,
    )


def _largest_memory(room: DeviceRoom, offered: tuple[ShareMode, ...]) -> MiB:
    modes = offered if room.empty else (room.mode,)
    return max((largest_free(room, mode) for mode in modes), default=0)
