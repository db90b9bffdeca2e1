"""Consolidation: which nodes to stop or replace so that the same pods cost less.

Called by the agent on a copy of its state and by the benchmark. Stops empty nodes, then nodes whose pods fit
elsewhere (dearest per disruption first), then replaces what is left one by one or in small groups by cheaper nodes
from the packer. Node rooms are arrays, so a candidate costs O(its pods x nodes) vector work; 1,000 nodes take well
under two seconds. Pinned pods keep their node. Every step leaves a schedulable state; `validate` checks a plan
against the state at the time of acting.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.scale.nodes.packer import Shelf, cover
from dure.scale.nodes.state import NewNode, Node, Pod, Pool, accepts, expected_price, usable

Ints = NDArray[np.int64]
Budget = Callable[[str, str], int]


class Consolidation(msgspec.Struct, frozen=True):
    """Nodes to stop with the reason, pods to move (pod -> node), nodes to start first."""

    stop: tuple[tuple[str, str], ...]
    moves: tuple[tuple[str, str], ...]
    start: tuple[NewNode, ...]
    saving: int


class Settings(msgspec.Struct, frozen=True):
    """`least_saving` in money per hour and moved pod keeps churn out; groups of up to `group` are replaced."""

    least_saving: int = 0
    group: int = 6
    quiet_s: float = 0.0


def unlimited(_pool: str, _reason: str) -> int:
    """A budget that allows everything."""
    return 1_000_000


def consolidate(
    nodes: tuple[Node, ...],
    pools: tuple[Pool, ...],
    settings: Settings,
    now_s: float,
    budget: Budget = unlimited,
) -> Consolidation:
    """A whole plan; nothing is done yet."""
    return _Plan(nodes, pools, settings, now_s, budget).made()


class _Plan:
    """One consolidation on a copied state; discarded afterwards."""

    def __init__(
        self, nodes: tuple[Node, ...], pools: tuple[Pool, ...], settings: Settings, now_s: float, budget: Budget
    ) -> None:
        self.nodes = [node for node in nodes if node.ready and not node.deleting]
        self.pools, self.settings, self.now_s, self.budget = pools, settings, now_s, budget
        self.given = len(self.nodes)
        # Bought nodes become hosts too; they get the rows behind the given ones.
        rows = 2 * self.given + 8
        self.free = np.zeros((3, rows), dtype=np.int64)
        self.prices = np.zeros(rows, dtype=np.int64)
        self.alive = np.zeros(rows, dtype=bool)
        for index, node in enumerate(self.nodes):
            self.free[:, index], self.prices[index], self.alive[index] = node.free, node.offer.price, True
        self.guests: list[list[Pod]] = [list(node.pods) for node in self.nodes]
        self.home = {pod.name: index for index, node in enumerate(self.nodes) for pod in node.pods}
        self.kinds: dict[tuple[object, ...], NDArray[np.bool_]] = {}
        self.samples: dict[tuple[object, ...], Pod] = {}
        self.stop: dict[int, str] = {}
        self.left: dict[tuple[str, str], int] = {}
        self.shelf = Shelf(pools)
        offers = [offer for pool in pools for offer in pool.offers]
        self.units = [
            min((offer.price / offer.size[axis] for offer in offers if offer.size[axis] > 0), default=0.0)
            for axis in range(3)
        ]

    def made(self) -> Consolidation:
        self._empty()
        self._one_by_one()
        self._in_groups()
        self._one_by_one()
        start = self._started()
        return Consolidation(
            stop=tuple(sorted((self.nodes[i].name, why) for i, why in self.stop.items())),
            moves=self._moves(),
            start=start,
            saving=self._price(self.stop) - sum(expected_price(new.offer, new.pods) for new in start),
        )

    def _started(self) -> tuple[NewNode, ...]:
        """Bought nodes that are still wanted, with the pods they ended up with."""
        return tuple(
            NewNode(self.nodes[index].pool, self.nodes[index].offer, tuple(self.guests[index]))
            for index in range(self.given, len(self.nodes))
            if self.alive[index] and self.guests[index]
        )

    def _moves(self) -> tuple[tuple[str, str], ...]:
        """Pods that end on another running node than they began; one that was moved on twice is named once."""
        began = {pod.name: index for index in range(self.given) for pod in self.nodes[index].pods}
        onto = {name: index for name, index in self.home.items() if began[name] != index and index < self.given}
        return tuple(sorted((name, self.nodes[index].name) for name, index in onto.items()))

    def _price(self, indexes: dict[int, str]) -> int:
        return sum(expected_price(self.nodes[i].offer, self.nodes[i].pods) for i in indexes)

    def _allowed(self, index: int, reason: str) -> bool:
        key = (self.nodes[index].pool, reason)
        if index >= self.given:
            return True
        if key not in self.left:
            self.left[key] = self.budget(*key)
        return self.left[key] > 0

    def _stop(self, index: int, reason: str) -> None:
        self.alive[index] = False
        if index >= self.given:
            return
        self.stop[index] = reason
        self.left[self.nodes[index].pool, reason] -= 1

    def _quiet(self, index: int) -> bool:
        return index >= self.given or self.now_s - self.nodes[index].changed_s >= self.settings.quiet_s

    def _empty(self) -> None:
        for index in range(self.given):
            if not self.guests[index] and self._quiet(index) and self._allowed(index, "Empty"):
                self._stop(index, "Empty")

    def _candidates(self) -> list[int]:
        """Saving per disruption, best first; disruption = 1 + eviction costs, as Karpenter weighs it."""
        scores = []
        for index, node in enumerate(self.nodes):
            pods = self.guests[index]
            if not self.alive[index] or not self._quiet(index) or any(pod.pinned for pod in pods):
                continue
            price = expected_price(node.offer, tuple(pods))
            scores.append((-price / (1.0 + sum(eviction_cost(pod) for pod in pods)), node.name, index))
        return [index for _, _, index in sorted(scores)]

    def _one_by_one(self) -> None:
        """Each node by itself, best saving first: pods elsewhere, the rest on something cheaper."""
        for index in self._candidates():
            self._try_replace([index], several=len(self.guests[index]) > 1)

    def _in_groups(self) -> None:
        """Neighbours in class and fill, bought together where that is cheaper."""
        for size in (2, self.settings.group, 3):
            order = self._emptiest()
            for start in range(0, len(order) - size + 1, size):
                self._try_replace(order[start : start + size], several=size > 2)

    def _own_price(self, index: int) -> int:
        return expected_price(self.nodes[index].offer, tuple(self.guests[index]))

    def _undo(self, placed: list[tuple[Pod, int]]) -> None:
        for pod, onto in placed:
            self.free[:, onto] += pod.size

    def _tightest(self, pod: Pod) -> int:
        """The cheapest running node that takes the pod, tightest of equals; -1 if none.

        Cheap hosts first: room on a dear node is what the next candidates want to be emptied of.
        """
        fits = self.alive & self._kind(pod)
        for axis in range(3):
            if pod.size[axis]:
                fits &= self.free[axis] >= pod.size[axis]
        candidates = np.flatnonzero(fits)
        if len(candidates) == 0:
            return -1
        prices = self.prices[candidates]
        candidates = candidates[prices == prices.min()]
        if len(candidates) == 1:
            return int(candidates[0])
        room = self.free[:, candidates]
        return int(candidates[np.lexsort((candidates, room[2], room[1], room[0]))[0]])

    def _kind(self, pod: Pod) -> NDArray[np.bool_]:
        key = (pod.size[0] > 0, pod.classes, pod.zones, pod.spot_ok)
        if key not in self.kinds:
            mask = np.zeros(self.free.shape[1], dtype=bool)
            mask[: len(self.nodes)] = [accepts(pod, node.offer) for node in self.nodes]
            self.kinds[key], self.samples[key] = mask, pod
        return self.kinds[key]

    def _emptiest(self) -> list[int]:
        order = []
        for index in self._candidates():
            have, node = self.free[:, index], self.nodes[index]
            share = max(1.0 - have[axis] / max(node.allocatable[axis], 1) for axis in range(3))
            if self.guests[index]:
                order.append((node.offer.gpu_class, share, node.name, index))
        return [index for *_, index in sorted(order)]

    def _try_replace(self, group: list[int], several: bool) -> None:
        """Pods onto other nodes as far as they fit, the rest onto new nodes, if that saves."""
        if not all(self.alive[index] for index in group) or not self._group_allowed(group):
            return
        before = sum(self._own_price(index) for index in group)
        pods = sorted(
            (pod for index in group for pod in self.guests[index]),
            key=lambda p: (*(-part for part in p.size), p.name),
        )
        self.alive[group] = False
        placed: list[tuple[Pod, int]] = []
        rest: list[Pod] = []
        for pod in pods:
            onto = self._tightest(pod)
            if onto < 0:
                rest.append(pod)
            else:
                self.free[:, onto] -= pod.size
                placed.append((pod, onto))
        limit = before - self.settings.least_saving * len(pods)
        again = self._bought(tuple(rest), limit, several)
        if again is None:
            self._undo(placed)
            self.alive[group] = True
            return
        self._settle(group, placed, again)

    def _group_allowed(self, group: list[int]) -> bool:
        needed: dict[str, int] = {}
        for index in (index for index in group if index < self.given):
            needed[self.nodes[index].pool] = needed.get(self.nodes[index].pool, 0) + 1
            self._allowed(index, "Underutilized")
        return all(self.left[pool, "Underutilized"] >= count for pool, count in needed.items())

    def _bought(self, rest: tuple[Pod, ...], limit: int, several: bool) -> tuple[NewNode, ...] | None:
        """New nodes for pods that fit nowhere, if they cost less than `limit`."""
        if limit <= 0:
            return None
        if not rest:
            return ()
        if not self._cheaper_possible(rest, limit):
            return None
        single = self.shelf.cheapest(rest, limit)
        if not several:
            return None if single is None else (single,)
        again = cover(rest, self.pools, weightings=1)
        if again.unplaced or again.price >= limit:
            return None
        return again.nodes

    def _settle(self, group: list[int], placed: list[tuple[Pod, int]], bought: tuple[NewNode, ...]) -> None:
        for index in group:
            self.guests[index] = []
            self._stop(index, "Underutilized")
        for pod, onto in placed:
            self.home[pod.name] = onto
            self.guests[onto].append(pod)
        for new in bought:
            self._add(new)

    def _add(self, new: NewNode) -> None:
        """A bought node becomes a host like any other."""
        pool = next(pool for pool in self.pools if pool.name == new.pool)
        index = len(self.nodes)
        node = Node(f"new-{index - self.given}", new.pool, new.offer, usable(new.offer, pool), new.pods)
        self.nodes.append(node)
        self.guests.append(list(new.pods))
        for pod in new.pods:
            self.home[pod.name] = index
        if index == self.free.shape[1]:
            self.free = np.hstack([self.free, np.zeros_like(self.free)])
            self.prices = np.concatenate([self.prices, np.zeros_like(self.prices)])
            self.alive = np.concatenate([self.alive, np.zeros_like(self.alive)])
            self.kinds.clear()
        self.free[:, index], self.prices[index], self.alive[index] = node.free, new.offer.price, True
        for key, mask in self.kinds.items():
            mask[index] = accepts(self.samples[key], new.offer)

    def _cheaper_possible(self, pods: tuple[Pod, ...], limit: int) -> bool:
        """A lower bound from the cheapest price per unit of each resource; spares most packer calls."""
        return all(
            self.units[axis] * sum(pod.size[axis] for pod in pods) < limit for axis in range(3) if self.units[axis]
        )


def eviction_cost(pod: Pod) -> float:
    """How much moving a pod disturbs: 1 plus its deletion cost and priority, scaled and clamped as Karpenter does."""
    return min(max(1.0 + pod.deletion_cost / 2**27 + pod.priority / 2**25, -10.0), 10.0)


def validate(plan: Consolidation, nodes: tuple[Node, ...]) -> str:
    """Empty when the plan still fits the state it will act on, else what changed."""
    now = {node.name: node for node in nodes}
    for name, reason in plan.stop:
        if name not in now:
            return f"node {name} is gone"
        if reason == "Empty" and now[name].pods:
            return f"node {name} is no longer empty"
    planned = {name for name, _ in plan.moves} | {pod.name for new in plan.start for pod in new.pods}
    for name, _ in plan.stop:
        for pod in now[name].pods:
            if pod.name not in planned:
                return f"pod {pod.name} came to node {name}"
    room = {node.name: list(node.free) for node in nodes}
    sizes = {pod.name: pod.size for node in nodes for pod in node.pods}
    for pod_name, onto in plan.moves:
        if onto not in now or not now[onto].ready:
            return f"node {onto} cannot take pod {pod_name} any more"
        for axis in range(3):
            room[onto][axis] -= sizes.get(pod_name, (0, 0, 0))[axis]
            if room[onto][axis] < 0:
                return f"node {onto} is too full for pod {pod_name}"
    return ""
