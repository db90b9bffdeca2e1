"""The planner's one solver: cover a set of pods with bought nodes at the least price.

`provision` calls it for pending pods and `consolidate` for the pods of nodes it would like to stop. Pods of equal
shape form groups; a node is filled group by group (GPU first), the offer with the lowest price per unit of scarce
resource covered is taken, then nodes are re-bought smaller or together. Several weightings are tried, the cheapest
plan wins. Cost O(weightings x nodes x offers x groups).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.scale.nodes.state import NewNode, Offer, Pod, Pool, Unplaced, accepts, expected_price, usable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WEIGHTINGS = ((1.0, 1.0, 1.0), (4.0, 1.0, 1.0), (1.0, 4.0, 1.0), (1.0, 1.0, 4.0), (1.0, 0.0, 0.0), (0.0, 1.0, 1.0))


# Only the best starts are worth improving.
IMPROVED = 2


class Packed(msgspec.Struct, frozen=True):
    """New nodes and the pods nothing can hold."""

    nodes: tuple[NewNode, ...]
    unplaced: tuple[Unplaced, ...]

    @property
    def price(self) -> int:
        """The hourly price of all new nodes, rework included."""
        return sum(expected_price(node.offer, node.pods) for node in self.nodes)


class Market(msgspec.Struct, frozen=True):
    """Groups of equal pods against all offers: sizes, who accepts whom, how many fit alone."""

    groups: tuple[tuple[Pod, ...], ...]
    pools: tuple[Pool, ...]
    bought: tuple[tuple[int, Offer], ...]
    sizes: Ints
    rooms: Ints
    allowed: NDArray[np.bool_]
    prices: Floats
    rework: Floats


def pack(pods: tuple[Pod, ...], pools: tuple[Pool, ...], used: dict[str, tuple[int, int, int, int]]) -> Packed:
    """The cheapest cover found. `used` = (gpu, cpu, memory, nodes) already running by pool, for limits."""
    market = _market(pods, pools)
    limited = any(pool.limit is not None or pool.max_nodes is not None for pool in pools)
    plans = [_cover(market, np.array(weights), used) for weights in WEIGHTINGS]
    if not limited and len({pool.weight for pool in pools}) == 1:
        plans.append(_first_fit(pods, pools))
    plans.sort(key=lambda plan: (len(plan.unplaced), plan.price))
    if limited:
        return plans[0]
    improved = [_improve(plan, pools) for plan in plans[:IMPROVED]]
    return min(improved, key=lambda plan: (len(plan.unplaced), plan.price))


def _first_fit(pods: tuple[Pod, ...], pools: tuple[Pool, ...]) -> Packed:
    """Largest first into the first node with room, else a new node that is cheapest for the pod alone.

    Weak on mixed demand, often best on a handful of pods; a cheap further start for the improvement.
    """
    shelf = shelf_of(pools)
    by_name = {pool.name: pool for pool in pools}
    opened: list[tuple[NewNode, list[int], list[Pod]]] = []
    unplaced: list[Unplaced] = []
    for pod in sorted(pods, key=lambda p: (*(-part for part in p.size), p.name)):
        entry = next((entry for entry in opened if _takes(entry, pod)), None)
        if entry is None:
            found = shelf.cheapest((pod,))
            if found is None:
                unplaced.append(_refused(pod, shelf))
                continue
            entry = (found, list(usable(found.offer, by_name[found.pool])), [])
            opened.append(entry)
        entry[2].append(pod)
        for axis in range(3):
            entry[1][axis] -= pod.size[axis]
    nodes = tuple(NewNode(node.pool, node.offer, tuple(guests)) for node, _, guests in opened)
    return Packed(nodes, tuple(unplaced))


def _takes(entry: tuple[NewNode, list[int], list[Pod]], pod: Pod) -> bool:
    node, room, _ = entry
    return accepts(pod, node.offer) and all(part <= have for part, have in zip(pod.size, room, strict=True))


def _refused(pod: Pod, shelf: Shelf) -> Unplaced:
    fitting = any(accepts(pod, offer) for offer, _ in shelf.pairs)
    reason = "HostTooSmall" if fitting else "ClassNotAccepted"
    return Unplaced(pod.name, reason, f"wants {pod.size}, classes {pod.classes or 'any'}")


def _market(pods: tuple[Pod, ...], pools: tuple[Pool, ...]) -> Market:
    shapes: dict[tuple[object, ...], list[Pod]] = {}
    for pod in sorted(pods, key=lambda p: p.name):
        shapes.setdefault((pod.size, pod.classes, pod.zones, pod.spot_ok, pod.rework), []).append(pod)
    order = sorted(shapes.items(), key=lambda item: (item[0][0], item[1][0].name), reverse=True)
    groups = tuple(tuple(members) for _, members in order)
    bought, rooms, prices = _offers(pools)
    sizes = np.array([group[0].size for group in groups], dtype=np.int64).reshape(-1, 3)
    allowed = np.array([[accepts(group[0], offer) for group in groups] for _, offer in bought], dtype=bool)
    if len(bought) and len(groups):
        allowed &= (sizes[None, :, :] <= rooms[:, None, :]).all(axis=2)
    return Market(
        groups,
        pools,
        bought,
        sizes,
        rooms,
        allowed,
        prices,
        np.array([[offer.reclaims_h * group[0].rework for group in groups] for _, offer in bought]),
    )


@lru_cache(maxsize=8)
def _offers(pools: tuple[Pool, ...]) -> tuple[tuple[tuple[int, Offer], ...], Ints, Floats]:
    """All offers of the pools with what they leave for pods and their prices; the same for many calls."""
    bought = tuple((index, offer) for index, pool in enumerate(pools) for offer in pool.offers)
    rooms = np.array([usable(offer, pools[index]) for index, offer in bought], dtype=np.int64).reshape(-1, 3)
    return bought, rooms, np.array([float(offer.price) for _, offer in bought])


@lru_cache(maxsize=8)
def shelf_of(pools: tuple[Pool, ...]) -> Shelf:
    """The shelf of these pools."""
    return Shelf(pools)


def _cover(market: Market, weights: Floats, used: dict[str, tuple[int, int, int, int]]) -> Packed:
    left = np.array([len(group) for group in market.groups], dtype=np.int64)
    stuck = _stuck(market, left)
    taken: list[tuple[int, Ints]] = []
    spent = {name: list(figures) for name, figures in used.items()}
    while left.any():
        choice = _cheapest(market, left, weights, spent)
        if choice is None:
            break
        bought, counts = choice
        # The same node again and again while it is still full: identical rounds need not be searched anew.
        times = max(1, int(np.min(left[counts > 0] // counts[counts > 0]))) if not _limited(market, bought) else 1
        for _ in range(times):
            taken.append((bought, counts))
            _spend(market, bought, spent)
        left -= counts * times
    return _named(market, taken, left, stuck)


def _stuck(market: Market, left: Ints) -> dict[int, str]:
    """Groups that no offer could ever hold; they are taken out of the demand."""
    reasons: dict[int, str] = {}
    for index, group in enumerate(market.groups):
        if len(market.bought) and market.allowed[:, index].any():
            continue
        fitting = any(accepts(group[0], offer) for _, offer in market.bought)
        reasons[index] = "HostTooSmall" if fitting else "ClassNotAccepted"
        left[index] = 0
    return reasons


def _limited(market: Market, bought: int) -> bool:
    pool = market.pools[market.bought[bought][0]]
    return pool.limit is not None or pool.max_nodes is not None


def _spend(market: Market, bought: int, spent: dict[str, list[int]]) -> None:
    index, offer = market.bought[bought]
    figures = spent.setdefault(market.pools[index].name, [0, 0, 0, 0])
    for axis in range(3):
        figures[axis] += offer.size[axis]
    figures[3] += 1


def _within(market: Market, bought: int, spent: dict[str, list[int]]) -> bool:
    index, offer = market.bought[bought]
    pool = market.pools[index]
    figures = spent.get(pool.name, [0, 0, 0, 0])
    if pool.max_nodes is not None and figures[3] + 1 > pool.max_nodes:
        return False
    if pool.limit is None:
        return True
    return all(figures[axis] + offer.size[axis] <= pool.limit[axis] for axis in range(3))


def _cheapest(market: Market, left: Ints, weights: Floats, spent: dict[str, list[int]]) -> tuple[int, Ints] | None:
    """The offer whose fill costs least per unit of weighted demand covered, highest pool weight first."""
    demand = (market.sizes * left[:, None]).sum(axis=0).astype(np.float64)
    value = (market.sizes / np.maximum(demand, 1.0)) @ weights + 1e-12
    fills = _fill(market, left)
    worth = fills @ value
    cost = market.prices + (fills * market.rework).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(worth > 0.0, cost / worth, np.inf)
    order = np.lexsort((np.arange(len(score)), score))
    for heavy in sorted({pool.weight for pool in market.pools}, reverse=True):
        for bought in order:
            if not np.isfinite(score[bought]):
                break
            if market.pools[market.bought[bought][0]].weight == heavy and _within(market, int(bought), spent):
                return int(bought), fills[bought]
    return None


def _fill(market: Market, left: Ints) -> Ints:
    """How many of each group every offer would take, filled in group order, all offers at once."""
    room = market.rooms.copy()
    fills = np.zeros((len(market.bought), len(left)), dtype=np.int64)
    for group in np.flatnonzero(left):
        size = market.sizes[group]
        axes = np.flatnonzero(size)
        fit = (room[:, axes] // size[axes]).min(axis=1) if len(axes) else np.full(len(room), left[group])
        count = np.where(market.allowed[:, group], np.clip(fit, 0, left[group]), 0)
        fills[:, group] = count
        room -= count[:, None] * size[None, :]
    return fills


def _named(market: Market, taken: list[tuple[int, Ints]], left: Ints, stuck: dict[int, str]) -> Packed:
    queues = [list(group) for group in market.groups]
    nodes = []
    for bought, counts in taken:
        pods = tuple(queues[group].pop(0) for group in np.flatnonzero(counts) for _ in range(int(counts[group])))
        index, offer = market.bought[bought]
        nodes.append(NewNode(market.pools[index].name, offer, pods))
    unplaced = []
    for group, queue in enumerate(queues):
        for pod in queue:
            reason = stuck.get(group, "QuotaExceeded" if left[group] else "NoCapacity")
            unplaced.append(Unplaced(pod.name, reason, f"wants {pod.size}, classes {pod.classes or 'any'}"))
    return Packed(tuple(nodes), tuple(unplaced))


def _improve(plan: Packed, pools: tuple[Pool, ...]) -> Packed:
    """Buy single nodes smaller, and pairs or triples of nodes together, while that is cheaper."""
    nodes = [_resized(node, pools) for node in plan.nodes]
    tried: set[tuple[str, ...]] = set()
    for _ in range(8):
        better = False
        for picked in _neighbours(nodes):
            pods = tuple(pod for index in picked for pod in nodes[index].pods)
            key = tuple(sorted(pod.name for pod in pods))
            if key in tried:
                continue
            tried.add(key)
            again = cover(pods, pools, weightings=2)
            before = sum(expected_price(nodes[i].offer, nodes[i].pods) for i in picked)
            if not again.unplaced and again.price < before:
                nodes = [node for i, node in enumerate(nodes) if i not in picked] + list(again.nodes)
                better = True
                break
        if not better:
            break
    return Packed(tuple(nodes), plan.unplaced)


def _neighbours(nodes: list[NewNode]) -> Iterator[tuple[int, ...]]:
    """The least filled nodes, in pairs and triples; a full one rarely improves."""
    slack = [sum(pod.size[0] for pod in node.pods) / max(node.offer.size[0], 1) for node in nodes]
    loose = sorted(range(len(nodes)), key=lambda i: (slack[i], i))[:10]
    for a in range(len(loose)):
        for b in range(a + 1, len(loose)):
            yield tuple(sorted((loose[a], loose[b])))
    for a in range(min(5, len(loose))):
        for b in range(a + 1, min(6, len(loose))):
            for c in range(b + 1, min(7, len(loose))):
                yield tuple(sorted((loose[a], loose[b], loose[c])))


def cover(pods: tuple[Pod, ...], pools: tuple[Pool, ...], weightings: int = 5) -> Packed:
    """A quick cover without limits or improvement: the cheapest of the single best node and a few greedy fills."""
    single = shelf_of(pools).cheapest(pods)
    plans = [Packed((single,), ())] if single is not None else []
    if len(pods) > 1 or single is None:
        market = _market(pods, pools)
        plans += [_cover(market, np.array(weights), {}) for weights in WEIGHTINGS[:weightings]]
    return min(plans, key=lambda plan: (len(plan.unplaced), plan.price))


class Shelf:
    """All offers by price, as arrays, to find the one node that holds a few pods."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        pairs = [(offer, pool) for pool in pools for offer in pool.offers]
        self.pairs = sorted(pairs, key=lambda pair: (pair[0].price, pair[0].type_name, pair[0].zone))
        self.rooms = np.array([usable(offer, pool) for offer, pool in self.pairs], dtype=np.int64).reshape(-1, 3)
        self.prices = np.array([offer.price for offer, _ in self.pairs], dtype=np.int64)

    def cheapest(self, pods: tuple[Pod, ...], below: int | None = None) -> NewNode | None:
        """The cheapest single node that holds everything, if any costs less than `below`."""
        need = np.array([[*pod.size] for pod in pods], dtype=np.int64).sum(axis=0)
        fitting = np.flatnonzero((self.rooms >= need).all(axis=1))
        best: NewNode | None = None
        least = below
        for index in fitting:
            offer, pool = self.pairs[int(index)]
            if least is not None and offer.price >= least:
                break
            price = expected_price(offer, pods)
            if (least is None or price < least) and all(accepts(pod, offer) for pod in pods):
                best, least = NewNode(pool.name, offer, pods), price
        return best


def _resized(node: NewNode, pools: tuple[Pool, ...]) -> NewNode:
    """The cheapest offer of any pool of equal weight that holds the node's pods."""
    own = next(pool for pool in pools if pool.name == node.pool)
    best = node
    for pool in pools:
        if pool.weight != own.weight:
            continue
        for offer in pool.offers:
            if holds(offer, pool, node.pods) and expected_price(offer, node.pods) < expected_price(
                best.offer, best.pods
            ):
                best = NewNode(pool.name, offer, node.pods)
    return best


def holds(offer: Offer, pool: Pool, pods: tuple[Pod, ...]) -> bool:
    """True when an empty node of this offer can run all the pods."""
    room = usable(offer, pool)
    return all(accepts(pod, offer) for pod in pods) and all(
        sum(pod.size[axis] for pod in pods) <= room[axis] for axis in range(3)
    )
