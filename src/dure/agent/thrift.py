"""When to stop giving nodes back: the scheduler, not the plan, decides where an evicted pod goes.

Used by the node keeper. A plan may count on room that the scheduler then gives to another pod, so that a node has to
be bought again, and the same plan would look worthwhile again, for ever. Remembered for one demand (the shapes of all
pods): the prices from which giving back was begun. Invariant: with an unchanged demand it is begun a bounded number
of times, and not from the lowest price that was reached once it has failed from there.
"""

from __future__ import annotations

from collections import Counter

from dure.scale.nodes.state import Node

# From a dearer state the way down is known to exist; the scheduler may need more than one try to find it.
MOST_TRIES = 3

Demand = tuple[tuple[object, ...], ...]


class Thrift:
    def __init__(self) -> None:
        self._demand: Demand = ()
        self._begun: Counter[int] = Counter()
        self._best = 0

    def begins(self, nodes: tuple[Node, ...]) -> bool:
        """Whether to give back now; True counts as a beginning."""
        demand, price = _demand(nodes), sum(node.offer.price for node in nodes if not node.deleting)
        if demand != self._demand:
            self._demand, self._begun, self._best = demand, Counter(), price
        self._best = min(self._best, price)
        if self._begun[price] >= (MOST_TRIES if price > self._best else 1):
            return False
        self._begun[price] += 1
        return True


def _demand(nodes: tuple[Node, ...]) -> Demand:
    shapes = ((pod.size, pod.classes, pod.zones, pod.spot_ok) for node in nodes for pod in node.pods)
    return tuple(sorted(shapes))
