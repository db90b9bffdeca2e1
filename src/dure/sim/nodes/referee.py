"""Checks plans from scratch: every pod runs exactly once, no node is over-full, nobody runs where it may not.

Called by the benchmarks and tests on the planner's and on the opponents' results. It shares no code with the
planner on purpose: it reads only the plain fields of the state.
"""

from __future__ import annotations

from collections.abc import Iterable

from dure.scale.nodes.consolidate import Consolidation
from dure.scale.nodes.state import NewNode, Node, Offer, Pod, Pool


def check_bought(pods: Iterable[Pod], nodes: Iterable[NewNode], pools: Iterable[Pool]) -> list[str]:
    """Problems of a provisioning plan; empty when it is sound."""
    overhead = {pool.name: pool.overhead for pool in pools}
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, node in enumerate(nodes):
        room = [node.offer.size[axis] - overhead[node.pool][axis] for axis in range(3)]
        problems += _inside(f"new node {number}", node.offer, room, node.pods)
        for pod in node.pods:
            seen[pod.name] = seen.get(pod.name, 0) + 1
    return problems + _once({pod.name for pod in pods}, seen)


def check_consolidation(nodes: Iterable[Node], plan: Consolidation, pools: Iterable[Pool]) -> list[str]:
    """Problems of the state after a plan was carried out; empty when every pod still runs."""
    before = list(nodes)
    overhead = {pool.name: pool.overhead for pool in pools}
    stopped = {name for name, _ in plan.stop}
    moved = dict(plan.moves)
    fresh = {pod.name for new in plan.start for pod in new.pods}
    guests: dict[str, list[Pod]] = {node.name: [] for node in before}
    problems: list[str] = []
    for node in before:
        for pod in node.pods:
            goal = moved.get(pod.name, node.name)
            if pod.name in fresh:
                continue
            if goal in stopped or goal not in guests:
                problems.append(f"pod {pod.name} would end on {goal}, which is stopped or unknown")
                continue
            if pod.pinned and goal != node.name:
                problems.append(f"pod {pod.name} is pinned to {node.name} but moves")
            guests[goal].append(pod)
    seen: dict[str, int] = {}
    for node in before:
        if node.name not in stopped:
            problems += _inside(node.name, node.offer, list(node.allocatable), guests[node.name])
        for pod in guests[node.name]:
            seen[pod.name] = seen.get(pod.name, 0) + 1
    for number, new in enumerate(plan.start):
        room = [new.offer.size[axis] - overhead[new.pool][axis] for axis in range(3)]
        problems += _inside(f"new node {number}", new.offer, room, new.pods)
        for pod in new.pods:
            seen[pod.name] = seen.get(pod.name, 0) + 1
    return problems + _once({pod.name for node in before for pod in node.pods}, seen)


def _inside(name: str, offer: Offer, room: list[int], pods: Iterable[Pod]) -> list[str]:
    problems: list[str] = []
    used = [0, 0, 0]
    for pod in pods:
        used = [have + more for have, more in zip(used, pod.size, strict=True)]
        if pod.size[0] and pod.classes and offer.gpu_class not in pod.classes:
            problems.append(f"{name}: pod {pod.name} does not accept {offer.gpu_class}")
        if pod.zones and offer.zone not in pod.zones:
            problems.append(f"{name}: pod {pod.name} may not run in zone '{offer.zone}'")
        if offer.capacity == "spot" and not pod.spot_ok:
            problems.append(f"{name}: pod {pod.name} may not run on spot")
    problems += [
        f"{name}: {label} {taken} of {have}"
        for label, taken, have in zip(("gpu", "cpu", "memory"), used, room, strict=True)
        if taken > have
    ]
    return problems


def _once(wanted: set[str], seen: dict[str, int]) -> list[str]:
    missing = [f"pod {name} runs nowhere" for name in sorted(wanted - set(seen))]
    return missing + [f"pod {name} runs {count} times" for name, count in sorted(seen.items()) if count > 1]
