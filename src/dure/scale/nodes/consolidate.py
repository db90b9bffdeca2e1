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

from dure.scale.nodes.packer import pack
from dure.scale.nodes.state import NewNode, Node, Pod, Pool, accepts, expected_price

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
        self.free = np.array([node.free for node in self.nodes], dtype=np.int64).reshape(-1, 3)
        self.alive = np.ones(len(self.nodes), dtype=bool)
        self.guests: list[list[Pod]] = [list(node.pods) for node in self.nodes]
        self.home = {pod.name: index for index, node in enumerate(self.nodes) for pod in node.pods}
        self.kinds: dict[tuple[object, ...], NDArray[np.bool_]] = {}
        self.stop: dict[int, str] = {}
        self.start: list[NewNode] = []
        self.left: dict[tuple[str, str], int] = {}

    def made(self) -> Consolidation:
        self._empty()
        self._onto_others()
        self._replaced()
        return Consolidation(
            stop=tuple(sorted((self.nodes[i].name, why) for i, why in self.stop.items())),
            moves=self._moves(),
            start=tuple(self.start),
            saving=self._price(self.stop) - sum(expected_price(new.offer, new.pods) for new in self.start),
        )

    def _moves(self) -> tuple[tuple[str, str], ...]:
        """Pods that end on another running node than they began; one that was moved on twice is named once."""
        began = {pod.name: index for index, node in enumerate(self.nodes) for pod in node.pods}
        onto = {name: index for name, index in self.home.items() if began[name] != index and index >= 0}
        return tuple(sorted((name, self.nodes[index].name) for name, index in onto.items()))

    def _price(self, indexes: dict[int, str]) -> int:
        return sum(expected_price(self.nodes[i].offer, self.nodes[i].pods) for i in indexes)

    def _allowed(self, index: int, reason: str) -> bool:
        key = (self.nodes[index].pool, reason)
        if key not in self.left:
            self.left[key] = self.budget(*key)
        return self.left[key] > 0

    def _stop(self, index: int, reason: str) -> None:
        self.stop[index] = reason
        self.alive[index] = False
        self.left[self.nodes[index].pool, reason] -= 1

    def _quiet(self, index: int) -> bool:
        return self.now_s - self.nodes[index].changed_s >= self.settings.quiet_s

    def _empty(self) -> None:
        for index in range(len(self.nodes)):
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

    def _onto_others(self) -> None:
        """Two passes: what the first one moved may have made room for more."""
        for _ in range(2):
            stopped = len(self.stop)
            for index in self._candidates():
                if self._allowed(index, "Underutilized") and self._worth(index, self._own_price(index)):
                    self._try_stop(index)
            if len(self.stop) == stopped:
                return

    def _own_price(self, index: int) -> int:
        return expected_price(self.nodes[index].offer, tuple(self.guests[index]))

    def _worth(self, index: int, saving: int) -> bool:
        return saving > self.settings.least_saving * len(self.guests[index])

    def _try_stop(self, index: int) -> bool:
        """Move all pods of a node to others, or none."""
        placed: list[tuple[Pod, int]] = []
        self.alive[index] = False
        for pod in sorted(self.guests[index], key=lambda p: (*(-part for part in p.size), p.name)):
            onto = self._tightest(pod)
            if onto < 0:
                self._undo(placed)
                self.alive[index] = True
                return False
            self.free[onto] -= pod.size
            placed.append((pod, onto))
        for pod, onto in placed:
            self.home[pod.name] = onto
            self.guests[onto].append(pod)
        self.guests[index] = []
        self._stop(index, "Underutilized")
        return True

    def _undo(self, placed: list[tuple[Pod, int]]) -> None:
        for pod, onto in placed:
            self.free[onto] += pod.size

    def _tightest(self, pod: Pod) -> int:
        """The running node with the least room that still takes the pod; -1 if none."""
        fits = self.alive & self._kind(pod) & (self.free >= np.array(pod.size)).all(axis=1)
        candidates = np.flatnonzero(fits)
        if len(candidates) == 0:
            return -1
        room = self.free[candidates]
        return int(candidates[np.lexsort((candidates, room[:, 2], room[:, 1], room[:, 0]))[0]])

    def _kind(self, pod: Pod) -> NDArray[np.bool_]:
        key = (pod.size[0] > 0, pod.classes, pod.zones, pod.spot_ok)
        if key not in self.kinds:
            self.kinds[key] = np.array([accepts(pod, node.offer) for node in self.nodes], dtype=bool)
        return self.kinds[key]

    def _replaced(self) -> None:
        """Groups of the emptiest nodes, then single ones, bought again where that is cheaper."""
        for size in (*range(self.settings.group, 1, -1), 1):
            order = self._emptiest()
            for start in range(0, len(order) - size + 1, size):
                self._try_replace(order[start : start + size])

    def _emptiest(self) -> list[int]:
        order = []
        for index in self._candidates():
            have, node = self.free[index], self.nodes[index]
            share = max(1.0 - have[axis] / max(node.allocatable[axis], 1) for axis in range(3))
            if share < 0.95 and self.guests[index]:
                order.append((node.offer.gpu_class, share, node.name, index))
        return [index for *_, index in sorted(order)]

    def _try_replace(self, group: list[int]) -> None:
        if len(group) > 1 and len({self.nodes[i].offer.gpu_class for i in group}) > 1:
            return
        needed: dict[str, int] = {}
        for index in group:
            needed[self.nodes[index].pool] = needed.get(self.nodes[index].pool, 0) + 1
        for pool, count in needed.items():
            self._allowed(next(i for i in group if self.nodes[i].pool == pool), "Underutilized")
            if self.left[pool, "Underutilized"] < count:
                return
        pods = tuple(pod for index in group for pod in self.guests[index])
        before = sum(self._own_price(index) for index in group)
        if not self._cheaper_possible(pods, before):
            return
        again = pack(pods, self.pools, {})
        if again.unplaced or before - again.price <= self.settings.least_saving * len(pods):
            return
        for index in group:
            for pod in self.guests[index]:
                self.home[pod.name] = -1
            self.guests[index] = []
            self._stop(index, "Underutilized")
        self.start.extend(again.nodes)

    def _cheaper_possible(self, pods: tuple[Pod, ...], before: int) -> bool:
        """A lower bound from the cheapest price per unit of each resource; spares most packer calls."""
        need = [sum(pod.size[axis] for pod in pods) for axis in range(3)]
        for axis in range(3):
            if need[axis] == 0:
                continue
            offers = [
                offer.price / offer.size[axis]
                for pool in self.pools
                for offer in pool.offers
                if offer.size[axis] > 0 and any(accepts(pod, offer) for pod in pods)
            ]
            if not offers or min(offers) * need[axis] >= before:
                return False
        return True


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
