"""Karpenter's consolidation, re-told: empty nodes, then one multi-node or single-node decision after the other.

Rules of v1.14: candidates by saving per disruption; multi-node finds by binary search the longest prefix of at most
100 candidates whose pods fit elsewhere plus at most one cheaper new node; single-node tries one at a time, also with
at most one cheaper replacement; a node is never split in two. Scheduling takes pods by CPU, then memory, nodes in
fixed order. An opponent for the benchmark, run until it finds nothing more.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dure.scale.nodes.state import NewNode, Node, Offer, Pod, Pool

MULTI_LIMIT = 100


class KarpenterResult(msgspec.Struct, frozen=True):
    """The fleet's hourly price afterwards and how many scheduling simulations it took."""

    price: int
    stopped: int
    started: int
    simulations: int


class _World:
    """The cluster as arrays; new nodes are appended."""

    def __init__(self, nodes: tuple[Node, ...], pools: tuple[Pool, ...]) -> None:
        self.pools = pools
        self.offers: list[Offer] = [node.offer for node in nodes]
        self.room = np.array([node.free for node in nodes], dtype=np.int64).reshape(-1, 3)
        self.pods: list[list[Pod]] = [list(node.pods) for node in nodes]
        self.alive = np.ones(len(nodes), dtype=bool)
        self.pinned = [any(pod.pinned for pod in node.pods) for node in nodes]
        self.simulations = self.stopped = self.started = 0

    def price(self) -> int:
        return sum(offer.price for offer, alive in zip(self.offers, self.alive, strict=True) if alive)


def run_karpenter(nodes: tuple[Node, ...], pools: tuple[Pool, ...]) -> KarpenterResult:
    """Decide until nothing changes any more."""
    world = _World(nodes, pools)
    for index in range(len(world.offers)):
        if not world.pods[index]:
            world.alive[index] = False
            world.stopped += 1
    while _multi(world):
        pass
    while _single(world):
        while _multi(world):
            pass
    return KarpenterResult(world.price(), world.stopped, world.started, world.simulations)


def _order(world: _World) -> list[int]:
    def disruption(index: int) -> float:
        costs = (1.0 + pod.deletion_cost / 2**27 + pod.priority / 2**25 for pod in world.pods[index])
        return 1.0 + sum(min(max(cost, -10.0), 10.0) for cost in costs)

    alive = [i for i in np.flatnonzero(world.alive) if not world.pinned[i]]
    return sorted((int(i) for i in alive), key=lambda i: (-world.offers[i].price / disruption(i), i))


def _multi(world: _World) -> bool:
    order = _order(world)[:MULTI_LIMIT]
    low, high, found = 2, len(order), None
    while low <= high:
        middle = (low + high) // 2
        outcome = _simulate(world, order[:middle])
        if outcome is None:
            high = middle - 1
        else:
            found, low = (order[:middle], outcome), middle + 1
    if found is None:
        return False
    _apply(world, *found)
    return True


def _single(world: _World) -> bool:
    changed = False
    for index in _order(world):
        if not world.alive[index]:
            continue
        outcome = _simulate(world, [index])
        if outcome is not None:
            _apply(world, [index], outcome)
            changed = True
    return changed


class _Outcome(msgspec.Struct):
    placed: list[tuple[Pod, int]]
    new: NewNode | None


def _simulate(world: _World, group: list[int]) -> _Outcome | None:
    """Pods of the group onto other nodes and at most one cheaper new node; None when it does not work out."""
    world.simulations += 1
    room = world.room.copy()
    alive = world.alive.copy()
    alive[group] = False
    placed: list[tuple[Pod, int]] = []
    rest: list[Pod] = []
    pods = [pod for index in group for pod in world.pods[index]]
    for pod in sorted(pods, key=lambda p: (-p.size[1], -p.size[2], p.name)):
        fits = np.flatnonzero(alive & (room >= np.array(pod.size)).all(axis=1))
        onto = next((int(i) for i in fits if _may(pod, world.offers[i])), -1)
        if onto < 0:
            rest.append(pod)
            continue
        room[onto] -= pod.size
        placed.append((pod, onto))
    if not rest:
        return _Outcome(placed, None)
    limit = sum(world.offers[index].price for index in group)
    new = _one_node(rest, world.pools, limit)
    return None if new is None else _Outcome(placed, new)


def _one_node(pods: list[Pod], pools: tuple[Pool, ...], limit: int) -> NewNode | None:
    best: NewNode | None = None
    need = [sum(pod.size[axis] for pod in pods) for axis in range(3)]
    for pool in pools:
        for offer in pool.offers:
            if offer.price >= limit or (best is not None and offer.price >= best.offer.price):
                continue
            room = [have - lost for have, lost in zip(offer.size, pool.overhead, strict=True)]
            if all(n <= r for n, r in zip(need, room, strict=True)) and all(_may(pod, offer) for pod in pods):
                best = NewNode(pool.name, offer, tuple(pods))
    return best


def _may(pod: Pod, offer: Offer) -> bool:
    if pod.size[0] and pod.classes and offer.gpu_class not in pod.classes:
        return False
    return not (pod.zones and offer.zone not in pod.zones) and (pod.spot_ok or offer.capacity != "spot")


def _apply(world: _World, group: list[int], outcome: _Outcome) -> None:
    for index in group:
        world.alive[index] = False
        world.pods[index] = []
        world.stopped += 1
    for pod, onto in outcome.placed:
        world.room[onto] -= pod.size
        world.pods[onto].append(pod)
    if outcome.new is None:
        return
    pool = next(p for p in world.pools if p.name == outcome.new.pool)
    used = [sum(pod.size[axis] for pod in outcome.new.pods) for axis in range(3)]
    left = [outcome.new.offer.size[axis] - pool.overhead[axis] - used[axis] for axis in range(3)]
    world.offers.append(outcome.new.offer)
    world.room = np.vstack([world.room, np.array([left], dtype=np.int64)])
    world.alive = np.append(world.alive, True)
    world.pods.append(list(outcome.new.pods))
    world.pinned.append(any(pod.pinned for pod in outcome.new.pods))
    world.started += 1
