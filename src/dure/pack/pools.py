"""Many real nodes as a few virtual ones: what an agent tells the plane about its free room."""

from __future__ import annotations

from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, NodePhase, VNodePool
from dure.model.fleet import PoolSpec
from dure.pack.fit import largest_free
from dure.pack.room import DeviceRoom, NodeRoom, rooms_of


def pools_of(
    state: ClusterState, catalogue: Catalogue, specs: tuple[PoolSpec, ...], warm: dict[str, dict[str, int]]
) -> tuple[VNodePool, ...]:
    """One VNodePool per PoolSpec, also for pools without a node now. `warm` counts loaded models by pool."""
    by_pool: dict[str, list[NodeRoom]] = {spec.name: [] for spec in specs}
    for room in rooms_of(state, catalogue).values():
        by_pool.setdefault(room.node.pool, []).append(room)
    pools = (_pool(state.cluster, spec, by_pool[spec.name], warm.get(spec.name, {})) for spec in specs)
    return tuple(sorted(pools, key=lambda pool: pool.name))


def _pool(cluster: str, spec: PoolSpec, rooms: list[NodeRoom], warm: dict[str, int]) -> VNodePool:
    ready = [room for room in rooms if room.node.phase is NodePhase.READY]
    devices = [one for room in ready for one in room.devices.values() if one.device.healthy]
    return VNodePool(
        cluster=cluster,
        name=spec.name,
        class_name=spec.class_name,
        capacity=spec.capacity,
        share=spec.share,
        nodes=len(rooms),
        nodes_ready=len(ready),
        nodes_max=max(spec.nodes_max, spec.nodes, len(rooms)),
        devices_per_node=spec.devices,
        devices=sum(len(room.devices) for room in rooms),
        free_whole=tuple(sorted((room.free_whole for room in ready if room.free_whole), reverse=True)),
        free_milli=sum(one.compute_milli for one in devices),
        largest_memory_mib=max((_largest_memory(one, spec.share) for one in devices), default=0),
        largest_compute_milli=max((one.compute_milli for one in devices), default=0),
        largest_bandwidth_milli=max((one.bandwidth_milli for one in devices), default=0),
        free_cpu_milli=sum(room.cpu_milli for room in ready),
        free_host_memory_mib=sum(room.memory_mib for room in ready),
        largest_cpu_milli=max((room.cpu_milli for room in ready), default=0),
        largest_host_memory_mib=max((room.memory_mib for room in ready), default=0),
        boot_s=spec.boot_s,
        warm=warm,
    )


def _largest_memory(room: DeviceRoom, offered: tuple[ShareMode, ...]) -> int:
    modes = offered if room.empty else (room.mode,)
    return max((largest_free(room, mode) for mode in modes), default=0)
