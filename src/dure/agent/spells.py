"""Watches the spot pools of a cluster: which nodes come, which go, and whether they were taken or given back.

Called by the agent in every cycle. It remembers what it has seen itself; the plane keeps it for longer
(`plane.spells`), so that a restart of either forgets nothing but what happened while nobody looked. A node is up from
when it is ready until it is announced to go, is not ready any more, or is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dure.model.cluster import ClusterState, Node, NodePhase
from dure.model.fleet import PoolSpec
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.tariff import Capacity
from dure.model.units import Instant

# So many ended spells of a pool are told again and again, for a plane that was away.
REMEMBERED = 64


class _Guest(msgspec.Struct, frozen=True):
    """A node as it was last seen: its spell, and whether somebody sat on it."""

    spell: NodeSpell
    busy: bool


class SpotWatch:
    def __init__(self, specs: Sequence[PoolSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs if spec.capacity is Capacity.SPOT}
        self._present: dict[str, dict[str, _Guest]] = {name: {} for name in self._specs}
        self._ended: dict[str, tuple[NodeSpell, ...]] = {}
        self._told: dict[str, PoolSpells] = {}

    def look(self, state: ClusterState) -> tuple[PoolSpells, ...]:
        """What is known of each spot pool by now; the same objects as last time where nothing came or went."""
        if not self._specs:
            return ()
        busy = {pod.node for pod in state.pods if pod.holds}
        here: dict[str, dict[str, Node]] = {name: {} for name in self._specs}
        for node in state.nodes:
            if node.pool in here:
                here[node.pool][node.name] = node
        for name, spec in self._specs.items():
            self._turn(spec, here[name], busy, state)
        return tuple(self._told[name] for name in sorted(self._told))

    def _turn(self, spec: PoolSpec, nodes: dict[str, Node], busy: set[str], state: ClusterState) -> None:
        present, now_s = self._present[spec.name], state.now_s
        gone = {name: guest for name, guest in present.items() if not _is_up(nodes.get(name))}
        come = [name for name, node in nodes.items() if _is_up(node) and name not in present]
        known = self._told.get(spec.name)
        for name, guest in gone.items():
            lost = guest.busy or not _asks(spec) or _announced(nodes.get(name))
            ended = replace(guest.spell, end_s=now_s, lost=lost)
            self._ended[spec.name] = (*self._ended.get(spec.name, ()), ended)[-REMEMBERED:]
        stay = {name: guest.spell for name, guest in present.items() if name not in gone}
        stay |= {name: NodeSpell(name, now_s) for name in come}
        self._present[spec.name] = {name: _Guest(spell, name in busy) for name, spell in stay.items()}
        if known is None or gone or come:
            self._told[spec.name] = self._as_told(state.cluster, spec, known.since_s if known else now_s)

    def _as_told(self, cluster: str, spec: PoolSpec, since_s: Instant) -> PoolSpells:
        present = (guest.spell for guest in self._present[spec.name].values())
        spells = sorted((*self._ended.get(spec.name, ()), *present), key=lambda one: (one.begin_s, one.node))
        return PoolSpells(cluster, spec.name, since_s, tuple(spells), _asks(spec))


def _is_up(node: Node | None) -> bool:
    return node is not None and node.phase is NodePhase.READY and node.reclaim_at_s is None


def _announced(node: Node | None) -> bool:
    """The provider wants it back, or it does not answer any more."""
    return node is not None and (node.reclaim_at_s is not None or node.phase is NodePhase.GONE)


def _asks(spec: PoolSpec) -> bool:
    return spec.nodes_max > spec.nodes
