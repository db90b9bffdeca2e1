"""The life of nodes: they boot, join, get a reclaim notice, go; their devices fail and are repaired.

Called by `cluster` for what happens by itself and for `scale_pool`. A pool strives for its wanted size: a spot
node that was taken back is followed by another as soon as the provider has one.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from dure.adapters.memory import chance, pods
from dure.adapters.memory.laws import Laws
from dure.adapters.memory.world import Kind, World
from dure.model.cluster import Device, Node, NodePhase, Pod
from dure.model.fleet import PoolSpec
from dure.model.reason import Reason
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S

# A pool that does not say what its hosts have gets this much for each device.
_CPU_MILLI_PER_DEVICE = 12_000
_MEMORY_MIB_PER_DEVICE = 96 * 1024
_NODES_PER_RACK = 4


def furnish(world: World, laws: Laws) -> None:
    """The first day: every pool has its nodes, up and ready."""
    for pool in laws.spec.pools:
        world.wanted[pool.name] = pool.nodes
        for _ in range(pool.nodes):
            node = _new_node(world, pool, NodePhase.READY)
            _on_air(world, laws, pool, node)


def boot(world: World, pool: PoolSpec) -> Node:
    node = _new_node(world, pool, NodePhase.BOOTING)
    jitter = 0.9 + 0.4 * chance.uniform(world.seed, "boot", world.cluster, node.name)
    world.foresee(world.now_s + pool.boot_s * jitter, Kind.NODE_READY, node.name)
    return node


def strive(world: World, pool: PoolSpec) -> None:
    """Boot what is missing; let idle nodes go while there are too many. Busy ones stay until they are idle."""
    present = [node for node in world.nodes.values() if node.pool == pool.name and node.reclaim_at_s is None]
    wanted = world.wanted[pool.name]
    for _ in range(wanted - len(present)):
        boot(world, pool)
    idle = sorted((node for node in present if node.name not in world.holders), key=_newest_first)
    for node in idle[: max(0, len(present) - wanted)]:
        world.drop_node(node.name)


def on_ready(world: World, laws: Laws, node: Node) -> None:
    ready = replace(node, phase=NodePhase.READY)
    world.put_node(ready)
    pool = laws.pool(node.pool)
    if pool is not None:
        _on_air(world, laws, pool, ready)


def on_notice(world: World, laws: Laws, node: Node) -> None:
    """The provider wants its node back: nothing new may start there, and in two minutes it is gone."""
    gone_s = world.now_s + laws.hazards.notice_s
    world.put_node(replace(node, phase=NodePhase.DRAINING, reclaim_at_s=gone_s))
    world.foresee(gone_s, Kind.NODE_GONE, node.name)


def on_gone(world: World, laws: Laws, node: Node) -> None:
    for pod in world.holding(node.name):
        _lose(world, pod, f"{Reason.SPOT_RECLAIMED}: node {node.name} was taken back")
    world.drop_node(node.name)
    back_s = chance.exponential(1 / laws.hazards.spot_back_s, world.seed, "back", world.cluster, node.name)
    world.foresee(world.now_s + back_s, Kind.NODE_WANTED, node.pool)


def on_wanted(world: World, laws: Laws, pool_name: str) -> None:
    pool = laws.pool(pool_name)
    if pool is not None:
        strive(world, pool)


def on_device_fails(world: World, laws: Laws, node: Node) -> None:
    index = int(chance.uniform(world.seed, "fails", world.cluster, node.name, int(world.now_s)) * len(node.devices))
    device = node.devices[index]
    world.put_node(_with_health(node, device.id, healthy=False))
    for pod in world.holding(node.name):
        if any(part.device == device.id for part in pod.slices):
            _lose(world, pod, f"device {device.id} failed")
    repair_s = laws.hazards.repair_s * (
        0.5 + chance.uniform(world.seed, "repair", world.cluster, device.id, int(world.now_s))
    )
    world.foresee(world.now_s + repair_s, Kind.DEVICE_REPAIRED, device.id)
    _foresee_failure(world, laws, node)


def on_device_repaired(world: World, device_id: str) -> None:
    node = next((node for node in world.nodes.values() if any(dev.id == device_id for dev in node.devices)), None)
    if node is not None:
        world.put_node(_with_health(node, device_id, healthy=True))


def _lose(world: World, pod: Pod, why: str) -> None:
    # A gang that was lost with one of its earlier pods is gone already.
    if pod.name in world.pods:
        pods.lose(world, pod, why)


def _new_node(world: World, pool: PoolSpec, phase: NodePhase) -> Node:
    number = world.numbered.get(pool.name, 0)
    world.numbered[pool.name] = number + 1
    name = f"{pool.name}-{number}"
    group = pool.link_group_size or max(1, pool.devices)
    node = Node(
        name=name,
        pool=pool.name,
        devices=tuple(
            Device(id=f"{name}.{index}", class_name=pool.class_name, mode=pool.share[0], link_group=index // group)
            for index in range(pool.devices)
        ),
        cpu_milli=pool.cpu_milli or _CPU_MILLI_PER_DEVICE * pool.devices,
        memory_mib=pool.memory_mib or _MEMORY_MIB_PER_DEVICE * pool.devices,
        capacity=pool.capacity,
        share=pool.share,
        phase=phase,
        zone=pool.zones[number % len(pool.zones)] if pool.zones else "",
        rack=f"{pool.name}-r{number // _NODES_PER_RACK}",
        labels={"dure.dev/pool": pool.name, "dure.dev/class": pool.class_name, **pool.selector},
    )
    world.put_node(node)
    world.idle_since[name] = world.now_s
    return node


def _on_air(world: World, laws: Laws, pool: PoolSpec, node: Node) -> None:
    """From here on the node can be reclaimed and its devices can fail."""
    world.idle_since[node.name] = world.now_s
    if laws.hazards.reclaim and pool.capacity is Capacity.SPOT:
        per_s = -math.log1p(-min(0.99, pool.tariff.reclaim_per_hour)) / HOUR_S
        notice_s = chance.exponential(per_s, world.seed, "reclaim", world.cluster, node.name)
        world.foresee(world.now_s + notice_s, Kind.RECLAIM_NOTICE, node.name)
    _foresee_failure(world, laws, node)


def _foresee_failure(world: World, laws: Laws, node: Node) -> None:
    if laws.hazards.device_mtbf_h > 0 and node.devices:
        per_s = len(node.devices) / (laws.hazards.device_mtbf_h * HOUR_S)
        fails_s = chance.exponential(per_s, world.seed, "fails in", world.cluster, node.name, int(world.now_s))
        world.foresee(world.now_s + fails_s, Kind.DEVICE_FAILS, node.name)


def _with_health(node: Node, device_id: str, *, healthy: bool) -> Node:
    devices = tuple(replace(dev, healthy=healthy) if dev.id == device_id else dev for dev in node.devices)
    return replace(node, devices=devices)


def _newest_first(node: Node) -> int:
    return -int(node.name.rpartition("-")[2])
