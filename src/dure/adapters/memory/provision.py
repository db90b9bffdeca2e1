"""The embedded clusters' own node provisioner for elastic pools: boots for pods that wait, removes what idles.

Looks while there is something to see. It stands where a managed node group does: it counts devices and does not pack.
Whoever plans nodes (`scale.nodes`) switches it off (`provision=False`) and calls `scale_pool` instead.
"""

from __future__ import annotations

import math

from dure.adapters.memory import nodes
from dure.adapters.memory.laws import Laws
from dure.adapters.memory.world import Kind, World
from dure.model.cluster import NodePhase, Pod, PodPhase
from dure.model.fleet import PoolSpec
from dure.model.units import WHOLE_MILLI

# No pod can have this name.
_LOOK = "(look)"
_LOOK_S = 60.0
_LATER_S = 300.0
# The agent packs within seconds; who still waits after this long found no room.
_PATIENCE_S = 30.0
_IDLE_S = 600.0


def watch(world: World, laws: Laws) -> None:
    """Make sure that a look is foreseen; called when pods or nodes come and go."""
    elastic = any(pool.nodes_max > pool.nodes for pool in laws.spec.pools)
    if laws.provision and elastic and _LOOK not in world.due:
        world.expect(world.now_s + _PATIENCE_S, Kind.PROVISION, _LOOK)


def on_look(world: World, laws: Laws) -> None:
    """Look again soon while a pool can still grow for someone, later while one is larger than it has to be."""
    world.due.pop(_LOOK, None)
    waiting = [pod for pod in world.pods.values() if pod.phase is PodPhase.PENDING]
    wanting = {pod.pool for pod in waiting}
    hungry = grown = False
    for pool in laws.spec.pools:
        if pool.nodes_max > pool.nodes:
            _settle(world, pool, waiting)
            grown |= world.wanted[pool.name] > pool.nodes
            hungry |= pool.name in wanting and world.wanted[pool.name] < pool.nodes_max
    if hungry or grown:
        world.expect(world.now_s + (_LOOK_S if hungry else _LATER_S), Kind.PROVISION, _LOOK)


def _settle(world: World, pool: PoolSpec, waiting: list[Pod]) -> None:
    here = [node for node in world.nodes.values() if node.pool == pool.name]
    booting = sum(len(node.devices) for node in here if node.phase is NodePhase.BOOTING)
    short = math.ceil((_devices_short(world, pool, waiting) - booting) / max(1, pool.devices))
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


def _devices_short(world: World, pool: PoolSpec, waiting: list[Pod]) -> float:
    """Devices' worth of the pods that found no room in this pool."""
    late_s = world.now_s - _PATIENCE_S
    late = (pod for pod in waiting if pod.pool == pool.name and pod.created_s <= late_s)
    return sum(max(pod.demand.device_milli, 1) / WHOLE_MILLI for pod in late)
