"""Buys machines for pods that wait, gives back those that are not worth their price, and answers spot notices.

Turned by `dure scale nodes` now and then. Level-triggered: what was asked for and what is on its way out is read from
the cluster each time. Replacements are ready before anything is stopped, and a consolidation is checked against the
newest state before it begins. Nothing new is planned while machines boot or nodes empty themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from dure.agent.thrift import Thrift
from dure.model.units import Instant, Seconds
from dure.scale.nodes.budget import Budget as DisruptionBudget
from dure.scale.nodes.budget import allowed
from dure.scale.nodes.consolidate import Budget, Consolidation, Settings, consolidate, unlimited, validate
from dure.scale.nodes.lifecycle import Ending, Schedule, drifted, expired, scheduled_nodes, surplus
from dure.scale.nodes.packer import pack
from dure.scale.nodes.provision import Provision, provision, usage
from dure.scale.nodes.spot import NOTICE_S, Guest, reclaim
from dure.scale.nodes.state import NewNode, Node, Pod, Pool


class MachinePort(Protocol):
    """A cluster's machines."""

    def fetch(self) -> tuple[tuple[Pod, ...], tuple[Node, ...]]: ...

    def booting(self) -> int: ...

    def start(self, new: NewNode, instead_of: str = "") -> str: ...

    def stop(self, node: str, reason: str) -> None: ...

    def stopping(self) -> dict[str, str]: ...

    def notices(self) -> dict[str, float]: ...

    def guests(self, node: str) -> tuple[Guest, ...]: ...

    def mark(self, pod: str) -> None: ...

    def evict(self, pod: str) -> bool: ...

    def end(self, node: str) -> bool: ...


class PoolRules(msgspec.Struct, frozen=True):
    """What holds a pool's nodes: how many may go at once, how old one may get, of which template they are (empty: of
    any), and how many there may be at which hours."""

    budgets: tuple[DisruptionBudget, ...] = ()
    expire_after_s: Seconds = math.inf
    template: str = ""
    schedules: tuple[Schedule, ...] = ()


class Outlook(msgspec.Struct, frozen=True):
    """What a look would do: machines for what waits, what could be given back, and what has to go anyway."""

    provision: Provision
    consolidation: Consolidation
    endings: tuple[Ending, ...] = ()


class NodeKeeper:
    def __init__(
        self,
        machines: MachinePort,
        pools: tuple[Pool, ...],
        *,
        settings: Settings | None = None,
        rules: Mapping[str, PoolRules] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Without `rules` nothing holds a plan back and nothing expires; a pool without any has the usual 10 %."""
        self._machines, self._pools, self._tell = machines, pools, tell
        self._settings, self._rules = settings or Settings(), rules
        self._answered: set[str] = set()
        self._thrift = Thrift()

    def look(self, now_s: Instant) -> Outlook:
        """The plans as things are now; nothing is changed."""
        waiting, nodes = self._machines.fetch()
        pools = self._pools_at(now_s)
        plan = consolidate(nodes, pools, self._settings, now_s, self._budget(nodes, now_s))
        endings = (*self._off_hours(nodes, now_s), *self._expired(nodes, now_s), *self._drifted(nodes, now_s))
        return Outlook(provision(waiting, nodes, pools), plan, endings)

    def turn(self, now_s: Instant) -> bool:
        """One look and one act; answers whether anything was done or is still under way."""
        if self._reclaims(now_s) | self._empties():
            return True
        if self._machines.booting():
            return True
        waiting, nodes = self._machines.fetch()
        if closing := self._off_hours(nodes, now_s):
            for ending in closing:
                self._stop(ending)
            return True
        if waiting:
            return self._buy(provision(waiting, nodes, self._pools_at(now_s)))
        if outdated := [*self._expired(nodes, now_s), *self._drifted(nodes, now_s)]:
            # One at a time: the next one when this one is gone.
            self._replace(outdated[0].node, now_s)
            self._stop(outdated[0])
            return True
        return self._give_back(nodes, now_s)

    def _pools_at(self, now_s: Instant) -> tuple[Pool, ...]:
        """The pools with no more nodes than their schedules leave at this hour."""
        return tuple(self._pool_at(pool, now_s) for pool in self._pools)

    def _pool_at(self, pool: Pool, now_s: Instant) -> Pool:
        left = self._left_by_schedule(pool.name, now_s)
        if left is None:
            return pool
        return msgspec.structs.replace(pool, max_nodes=left if pool.max_nodes is None else min(left, pool.max_nodes))

    def _left_by_schedule(self, pool: str, now_s: Instant) -> int | None:
        return scheduled_nodes((self._rules or {}).get(pool, PoolRules()).schedules, now_s)

    def _stop(self, ending: Ending) -> None:
        self._machines.stop(ending.node, ending.reason)
        self._tell(f"stops {ending.node}: {ending.reason}, {ending.detail}")

    def _budget(self, nodes: tuple[Node, ...], now_s: Instant) -> Budget:
        """How many nodes of a pool may go now, and why; asked by a consolidation for each pool and reason."""
        if self._rules is None:
            return unlimited
        rules = self._rules

        def left(pool: str, reason: str) -> int:
            mine = [node for node in nodes if node.pool == pool]
            deleting = sum(node.deleting for node in mine)
            not_ready = sum(not node.ready and not node.deleting for node in mine)
            budgets = rules.get(pool, PoolRules()).budgets
            return allowed(budgets, reason, len(mine), deleting, not_ready, now_s)

        return left

    def _off_hours(self, nodes: tuple[Node, ...], now_s: Instant) -> list[Ending]:
        """Nodes that a schedule does not leave at this hour; an order of the owner, so no budget holds them."""
        found: list[Ending] = []
        for pool, mine in self._ruled(nodes):
            if (left := self._left_by_schedule(pool, now_s)) is not None:
                found += surplus(mine, left)
        return found

    def _expired(self, nodes: tuple[Node, ...], now_s: Instant) -> list[Ending]:
        """Nodes that are too old, whatever the budgets say."""
        rules = self._rules or {}
        return [end for pool, mine in self._ruled(nodes) for end in expired(mine, rules[pool].expire_after_s, now_s)]

    def _drifted(self, nodes: tuple[Node, ...], now_s: Instant) -> list[Ending]:
        """Nodes of an earlier template, as many as the budgets let go."""
        rules, budget = self._rules or {}, self._budget(nodes, now_s)
        return [
            ending
            for pool, mine in self._ruled(nodes)
            if rules[pool].template
            for ending in drifted(mine, rules[pool].template)[: budget(pool, "Drifted")]
        ]

    def _ruled(self, nodes: tuple[Node, ...]) -> list[tuple[str, tuple[Node, ...]]]:
        return [(pool, tuple(node for node in nodes if node.pool == pool)) for pool in sorted(self._rules or {})]

    def _buy(self, plan: Provision) -> bool:
        for new in plan.bought.nodes:
            name = self._machines.start(new)
            self._tell(f"starts {name}: {new.offer.type_name} {new.offer.capacity} for {len(new.pods)} pods")
        for one in plan.bought.unplaced:
            self._tell(f"nothing holds {one.pod}: {one.detail}")
        return bool(plan.bought.nodes) or bool(plan.onto)

    def _give_back(self, nodes: tuple[Node, ...], now_s: Instant) -> bool:
        plan = consolidate(nodes, self._pools_at(now_s), self._settings, now_s, self._budget(nodes, now_s))
        if not plan.stop:
            return False
        if problem := validate(plan, self._machines.fetch()[1]):
            self._tell(f"a plan is dropped: {problem}")
            return True
        if any(reason != "Empty" for _, reason in plan.stop) and not self._thrift.begins(nodes):
            return False
        for new in plan.start:
            self._tell(f"starts {self._machines.start(new)}, cheaper than what it replaces")
        for name, reason in plan.stop:
            self._machines.stop(name, reason)
            self._tell(f"stops {name}: {reason}")
        return True

    def _empties(self) -> bool:
        """Lead nodes that are on their way out a step further; no pod leaves before its replacement is ready."""
        notices, leaving, booting = self._machines.notices(), self._machines.stopping(), self._machines.booting()
        for name in leaving:
            if name not in notices and not booting:
                for guest in self._machines.guests(name):
                    self._machines.evict(guest.name)
            if self._machines.end(name):
                self._tell(f"{name} is gone")
        return bool(leaving)

    def _reclaims(self, now_s: Instant) -> bool:
        """After a notice: cordon, replacement at once, no new requests, then pods by how long they need."""
        acted = False
        for name, at_s in sorted(self._machines.notices().items()):
            guests = self._machines.guests(name)
            since_s = now_s - (at_s - NOTICE_S)
            for step in reclaim(name, guests):
                if step.at_s > since_s:
                    continue
                match step.action:
                    case "cordon":
                        self._machines.stop(name, "Reclaimed")
                    case "start-replacement" if name not in self._answered:
                        self._answered.add(name)
                        self._replace(name, now_s)
                    case "stop-requests" | "checkpoint":
                        self._machines.mark(step.subject)
                    case "evict":
                        self._machines.evict(step.subject)
                    case _:
                        continue
            acted = True
        return acted

    def _replace(self, name: str, now_s: Instant) -> None:
        _, nodes = self._machines.fetch()
        lost = next((node for node in nodes if node.name == name), None)
        if lost is None or not lost.pods:
            return
        for new in pack(lost.pods, self._pools_at(now_s), usage(nodes)).nodes:
            self._tell(f"{name} has to go; starts {self._machines.start(new, name)} at once")
