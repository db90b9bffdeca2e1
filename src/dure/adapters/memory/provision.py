"""A plain node provisioner for elastic pools, until `scale` decides: boot for pods that wait, remove what idles.

Looks once a minute while there is something to see. It books nodes by counting devices and does not pack; that is
`scale`'s work, which switches this off (`provision=False`) and calls `scale_pool` instead.
"""

from __future__ import annotations

import math

from dure.adapters.memory import nodes
from dure.adapters.memory.laws import Laws
from dure.adapters.memory.world import Kind, World
from dure.model.cluster import NodePhase, PodPhase
from dure.model.fleet import PoolSpec
from dure.model.units import WHOLE_MILLI

# No pod can have this name.
_LOOK = "(look)"
_LOOK_S = 60.0
# The agent packs within seconds; who still waits after this long found no room.
_PATIENCE_S = 30.0
_IDLE_S = 600.0


def watch(world: World, laws: Laws) -> None:
    """Make sure that a look is foreseen; called when pods appear."""
    if laws.provision and _LOOK not in world.due:
        world.expect(world.now_s + _PATIENCE_S, Kind.PROVISION, _LOOK)


def on_look(world: World, laws: Laws) -> None:
    world.due.pop(_LOOK, None)
    busy = False
    for pool in laws.spec.pools:
        if pool.nodes_max > pool.nodes:
            _settle(world, pool)
            busy |= world.wanted[pool.name] > pool.nodes
    if busy or any(_waits(world, name) for name in world.pods):
        world.expect(world.now_s + _LOOK_S, Kind.PROVISION, _LOOK)


def _settle(world: World, pool: PoolSpec) -> None:
    here = [node for node in world.nodes.values() if node.pool == pool.name]
    booting = sum(len(node.devices) for node in here if node.phase is NodePhase.BOOTING)
    short = math.ceil((_waiting_devices(world, pool) - booting) / max(1, pool.devices))
    idle = sum(
        world.idle_since.get(node.name, world.now_s) <= world.now_s - _IDLE_S
        for node in here
        if node.phase is NodePhase.READY and node.name not in world.holders
    )
    wanted = world.wanted[pool.name]
    if short > 0:
        world.wanted[pool.name] = min(pool.nodes_max, max(wanted, len(here)) + short)
    elif idle and wanted > pool.nodes:
        world.wanted[pool.name] = max(pool.nodes, wanted - idle)
    nodes.strive(world, pool)


def _waiting_devices(world: World, pool: PoolSpec) -> float:
    """Devices' worth of the pods that found no room in this pool."""
    late_s = world.now_s - _PATIENCE_S
    waiting = [pod for pod in world.pods.values() if pod.pool == pool.name and _waits(world, pod.name)]
    return sum(max(pod.demand.device_milli, 1) / WHOLE_MILLI for pod in waiting if pod.created_s <= late_s)


def _waits(world: World, name: str) -> bool:
    return world.pods[name].phase is PodPhase.PENDING
