"""Whether pods may be neighbours: a second opinion on affinity, anti-affinity and spread, for `legality`.

Deliberately not the code of `pack.neighbours`: it looks at the cluster as it would be after the binds, pair by pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dure.model.affinity import PodTerm, Spread
from dure.model.cluster import Node, Pod
from dure.model.errors import Conflict
from dure.model.reason import Reason

Placed = Sequence[tuple[Pod, Node]]


def check_neighbours(nodes: Mapping[str, Node], pods: Mapping[str, Pod], added: Placed) -> None:
    """`added` are the new ones; `pods` all that are known, those that hold a place among them."""
    fencing = any(pod.rules.apart for pod in pods.values() if pod.node)
    if not fencing and not any(pod.rules.of_pods for pod, _ in added):
        return
    new = {pod.name for pod, _ in added}
    held = [
        (pod, nodes[pod.node]) for pod in pods.values() if pod.holds and pod.node in nodes and pod.name not in new
    ]
    after = [*held, *added]
    for pod, node in added:
        others = [(other, there) for other, there in after if other.name != pod.name]
        _check_together(pod, node, others)
        _check_apart(pod, node, others)
        for rule in pod.rules.spread:
            if rule.hard:
                _check_spread(pod, node, rule, nodes, after)


def _check_together(pod: Pod, node: Node, others: Placed) -> None:
    for term in pod.rules.together:
        mates = [there for other, there in others if _meant(term, other)]
        alone = not mates and _meant(term, pod)
        if node.domain(term.topology) is None or not (alone or any(_share(term.topology, node, m) for m in mates)):
            raise Conflict(f"pod {pod.name} must be near {term}", where=node.name, reason=Reason.POD_AFFINITY)


def _check_apart(pod: Pod, node: Node, others: Placed) -> None:
    for other, there in others:
        for one, mate in ((pod, other), (other, pod)):
            for term in one.rules.apart:
                if _meant(term, mate) and _share(term.topology, node, there):
                    raise Conflict(f"{one.name} keeps {mate.name} away", where=node.name, reason=Reason.POD_AFFINITY)


def _check_spread(pod: Pod, node: Node, rule: Spread, nodes: Mapping[str, Node], after: Placed) -> None:
    counts = {}
    for one in nodes.values():
        domain = one.domain(rule.topology)
        if domain is not None and _reachable(pod, one, rule):
            counts[domain] = 0
    for other, there in after:
        domain = there.domain(rule.topology)
        if domain in counts and other.namespace == pod.namespace and not other.leaving:
            counts[domain] += all(match.holds(other.labels) for match in rule.selector)
    here = counts.get(node.domain(rule.topology) or "")
    least = min(counts.values(), default=0) if len(counts) >= rule.min_domains else 0
    if here is None or here - least > rule.max_skew:
        text = f"pod {pod.name} would make a skew above {rule.max_skew} over {rule.topology}"
        raise Conflict(text, where=node.name, reason=Reason.TOPOLOGY_SPREAD)


def _reachable(pod: Pod, node: Node, rule: Spread) -> bool:
    if pod.pool not in ("", node.pool):
        return False
    if rule.honour_taints and not all(
        taint.effect == "PreferNoSchedule" or any(one.tolerates(taint) for one in pod.tolerations)
        for taint in node.taints
    ):
        return False
    selected = pod.selector.items() <= node.labels.items() and pod.rules.admit(node.name, node.labels)
    return selected or not rule.honour_affinity


def _meant(term: PodTerm, pod: Pod) -> bool:
    return term.matches(pod.namespace, pod.labels)


def _share(topology: str, one: Node, other: Node) -> bool:
    domain = one.domain(topology)
    return domain is not None and domain == other.domain(topology)
