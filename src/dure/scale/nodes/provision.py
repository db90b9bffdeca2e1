"""Provisioning: pending pods onto what is free, the rest onto the cheapest new nodes.

Called by the agent when pods wait, by the what-if commands and by the benchmark. Free room first (tightest fit),
then the packer; a second try buys everything new and keeps whichever is cheaper, which free room never loses.
"""

from __future__ import annotations

import msgspec

from dure.scale.nodes.packer import Packed, pack
from dure.scale.nodes.state import Node, Pod, Pool, Size, accepts


class Provision(msgspec.Struct, frozen=True):
    """Where each pending pod goes: existing nodes by name, and what to buy."""

    onto: tuple[tuple[str, str], ...]
    bought: Packed


def provision(pods: tuple[Pod, ...], nodes: tuple[Node, ...], pools: tuple[Pool, ...]) -> Provision:
    """Plan for pending pods. O(pods x nodes) plus the packer."""
    onto, rest = settle(pods, nodes)
    return Provision(tuple(sorted(onto.items())), pack(rest, pools, usage(nodes)))


def settle(pods: tuple[Pod, ...], nodes: tuple[Node, ...]) -> tuple[dict[str, str], tuple[Pod, ...]]:
    """Pods onto free room, largest GPU demand first, tightest node first: (pod -> node, pods left)."""
    free = {node.name: node.free for node in nodes if node.ready and not node.deleting}
    offers = {node.name: node.offer for node in nodes}
    onto: dict[str, str] = {}
    rest: list[Pod] = []
    for pod in sorted(pods, key=lambda p: (*(-part for part in p.size), p.name)):
        fitting = [name for name, room in free.items() if _fits(pod.size, room) and accepts(pod, offers[name])]
        if not fitting:
            rest.append(pod)
            continue
        name = min(fitting, key=lambda n: (free[n], n))
        free[name] = _minus(free[name], pod.size)
        onto[pod.name] = name
    return onto, tuple(rest)


def usage(nodes: tuple[Node, ...]) -> dict[str, tuple[int, int, int, int]]:
    """(gpu, cpu, memory, nodes) by pool, for limits; capacity counts, not what pods use."""
    total: dict[str, tuple[int, int, int, int]] = {}
    for node in nodes:
        gpu, cpu, memory, count = total.get(node.pool, (0, 0, 0, 0))
        size = node.offer.size
        total[node.pool] = (gpu + size[0], cpu + size[1], memory + size[2], count + 1)
    return total


def _fits(size: Size, room: Size) -> bool:
    return all(part <= have for part, have in zip(size, room, strict=True))


def _minus(room: Size, size: Size) -> Size:
    return room[0] - size[0], room[1] - size[1], room[2] - size[2]
