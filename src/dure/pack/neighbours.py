"""What other pods have to say about a seat: affinity, anti-affinity (of both sides) and topology spread.

Counted once for each pod that is to be seated, over everybody who is seated so far, those of this call included.
`fit` asks `Gate.clash` for every node, `seating` ranks by `Gate.dislike`. Cost: O(nodes) where nobody has such rules,
else O(pods x rules of the pod).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dure.model.affinity import PodTerm, Spread
from dure.model.cluster import Node, Pod
from dure.model.reason import Reason, Verdict
from dure.pack.room import NodeRoom

Rooms = Mapping[str, NodeRoom]
# One mate too many in a domain that a pod would like to be spread over weighs as much as this much of a wish.
_SPREAD_WEIGHT = 1


class Gate:
    """The rules of one pod and of those who are there, counted by domain."""

    def __init__(self, pod: Pod, rooms: Rooms) -> None:
        rules = pod.rules
        self._pod = pod
        self._together = [(term, _count(term, rooms)) for term in rules.together]
        self._apart = [(term, _count(term, rooms)) for term in rules.apart]
        self._drawn = [(term, _count(term, rooms)) for term in rules.drawn]
        self._shuns = [(term, _count(term, rooms)) for term in rules.shuns]
        self._fences = _fences(pod, rooms)
        self._spread = [(one, _spread_counts(pod, one, rooms)) for one in rules.spread]
        own = all(term.matches(pod.namespace, pod.labels) for term in rules.together)
        # Nobody to be near to yet, and the pod is what it looks for: it is the first of its kind.
        self._first = own and not any(counts for _, counts in self._together)

    def clash(self, room: NodeRoom) -> Verdict | None:
        node = room.node
        return self._far(node) or self._near(node) or self._fenced(node) or self._skewed(node)

    def dislike(self, room: NodeRoom) -> int:
        """How far a node is from what the pod wishes; smaller is better."""
        node = room.node
        total = 0
        for term, counts in self._shuns:
            total += term.weight * counts[node.domain(term.topology)]
        for term, counts in self._drawn:
            total -= term.weight * min(1, counts[node.domain(term.topology)])
        for one, counts in self._spread:
            total += _SPREAD_WEIGHT * counts[node.domain(one.topology)] if not one.hard else 0
        return total

    def _far(self, node: Node) -> Verdict | None:
        for term, counts in self._together:
            domain = node.domain(term.topology)
            if domain is None or (not self._first and not counts[domain]):
                wanted = f"{term} in the same {term.topology}"
                return Verdict(node.name, Reason.POD_AFFINITY, wanted, f"{domain or node.name} has none")
        return None

    def _near(self, node: Node) -> Verdict | None:
        for term, counts in self._apart:
            there = counts[node.domain(term.topology)]
            if there:
                wanted = f"no {term} in the same {term.topology}"
                found = f"{node.domain(term.topology)} has {there}"
                return Verdict(node.name, Reason.POD_AFFINITY, wanted, found)
        return None

    def _fenced(self, node: Node) -> Verdict | None:
        for topology, domains in self._fences.items():
            keeper = domains.get(node.domain(topology) or "")
            if keeper:
                wanted = f"to be let into {topology} {node.domain(topology)}"
                return Verdict(node.name, Reason.POD_AFFINITY, wanted, f"{keeper} keeps such pods away")
        return None

    def _skewed(self, node: Node) -> Verdict | None:
        for one, counts in self._spread:
            if not one.hard:
                continue
            domain = node.domain(one.topology)
            if domain is None:
                return Verdict(node.name, Reason.TOPOLOGY_SPREAD, f"a node with {one.topology}", "it has none")
            own = all(match.holds(self._pod.labels) for match in one.selector)
            least = min(counts.values(), default=0) if len(counts) >= one.min_domains else 0
            skew = counts[domain] + own - least
            if skew > one.max_skew:
                wanted = f"a skew of at most {one.max_skew} over {one.topology}"
                return Verdict(node.name, Reason.TOPOLOGY_SPREAD, wanted, f"{domain} would have {skew}")
        return None


def gate_of(pod: Pod, rooms: Rooms) -> Gate | None:
    """None when neither the pod nor anybody who is there has a rule about others."""
    if not pod.rules.of_pods and not any(room.fences for room in rooms.values()):
        return None
    return Gate(pod, rooms)


def _count(term: PodTerm, rooms: Rooms) -> Counter[str | None]:
    """Matching pods by domain."""
    counts: Counter[str | None] = Counter()
    for room in rooms.values():
        domain = room.node.domain(term.topology)
        if domain is not None:
            there = sum(term.matches(mate.namespace, mate.labels) for mate in room.pods.values())
            if there:
                counts[domain] += there
    return counts


def _fences(pod: Pod, rooms: Rooms) -> dict[str, dict[str, str]]:
    """Domains that somebody who is there does not want to share with this pod, and who that is."""
    found: dict[str, dict[str, str]] = {}
    for room in rooms.values():
        for mate in (room.pods[name] for name in sorted(room.fences)):
            for term in mate.rules.apart:
                domain = room.node.domain(term.topology)
                if domain is not None and term.matches(pod.namespace, pod.labels):
                    found.setdefault(term.topology, {})[domain] = (
                        mate.name if mate.tenant == pod.tenant else "another tenant"
                    )
    return found


def _spread_counts(pod: Pod, one: Spread, rooms: Rooms) -> Counter[str | None]:
    """Matching pods in every domain that the pod could go to at all, empty ones included."""
    counts: Counter[str | None] = Counter()
    for room in rooms.values():
        domain = room.node.domain(one.topology)
        if domain is None or not _eligible(pod, one, room.node):
            continue
        there = sum(
            mate.namespace == pod.namespace and not mate.leaving and all(m.holds(mate.labels) for m in one.selector)
            for mate in room.pods.values()
        )
        counts[domain] += there
    return counts


def _eligible(pod: Pod, one: Spread, node: Node) -> bool:
    if pod.pool and node.pool != pod.pool:
        return False
    if one.honour_affinity:
        chosen = all(node.labels.get(key) == value for key, value in pod.selector.items())
        if not chosen or not pod.rules.admit(node.name, node.labels):
            return False
    if not one.honour_taints:
        return True
    hard = (taint for taint in node.taints if taint.effect != "PreferNoSchedule")
    return all(any(toleration.tolerates(taint) for toleration in pod.tolerations) for taint in hard)
