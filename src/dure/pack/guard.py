"""Rooms for wide demand, kept on live nodes: what it costs to sit where such a room would be lost.

The plain twin of `commit.set_guard`, `index.spared_lanes` and the lane in `kernels.refresh`, for `seating`. Nodes
that still have room for wide demand stand in lanes; while no more of them are left than the demand to come asks for,
a seat there costs more for whoever needs less. Guards order choices and refuse nobody. O(nodes) for each demand, and
only nodes that changed are looked into.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dure.model.cluster import Pod
from dure.pack.codes import CUT0, LANES, PART, PART_CPU, TIER, TIERS, WHOLE, WIDE
from dure.pack.room import NodeRoom
from dure.pack.score import Scorer


class Guards:
    """`needs` are the figures of `Worth.needs`; what a node is worth to wide demand is remembered while it stays."""

    def __init__(self, scorer: Scorer, needs: Sequence[int]) -> None:
        self._scorer, self._needs = scorer, needs
        self._scal = scorer.tables.scal
        self._known: dict[str, tuple[object, int, int]] = {}
        self._wanted = any(needs[3:])

    def prices(self, pod: Pod, rooms: Mapping[str, NodeRoom]) -> list[int]:
        """By lane what a seat costs this pod beyond its own price; empty when nothing is guarded from it."""
        if not self._wanted:
            return []
        idle, stock = 0, [0] * LANES
        for name, room in rooms.items():
            lane, free = self._look(name, room)
            stock[lane] += 1
            idle += free
        return self.extra(pod, idle, stock)

    def extra(self, pod: Pod, idle: int, stock: Sequence[int]) -> list[int]:
        """The same for who has counted the idle thousandths and the nodes of each lane already."""
        if not self._wanted:
            return []
        guard = guards(stock, idle, self._needs)
        spared = guard[spared_lanes(self._scal, pod)]
        extra = [max(0, one - spared) for one in guard]
        return extra if any(extra) else []

    def lane(self, room: NodeRoom) -> int:
        return self._look(room.node.name, room)[0]

    def _look(self, name: str, room: NodeRoom) -> tuple[int, int]:
        """Lane and idle thousandths. A room that changed has other `ways` than before."""
        known = self._known.get(name)
        if known is None or known[0] is not room.ways:
            node = self._scorer.node(room)
            idles = self._scorer.tables.idles[node.typ]
            whole = sum(code in (WHOLE, CUT0) for code in node.codes)
            lane = lane_of(self._scal, node.cpu, whole, len(node.codes))
            known = self._known[name] = room.ways, lane, sum(idles[code] for code in node.codes)
        return known[1], known[2]


def lane_of(scal: Sequence[int], cpu: int, whole: int, size: int) -> int:
    """0, 1 with room for the widest demand below a whole wide node, or 1 + the highest tier of a whole one."""
    tier = sum(step <= cpu for step in scal[TIER : TIER + TIERS]) if size >= scal[WIDE] and whole == size else 0
    return 1 + tier if tier else int(whole >= scal[PART] and cpu >= scal[PART_CPU])


def spared_lanes(scal: Sequence[int], pod: Pod) -> int:
    """Lanes that are kept for this very pod."""
    count = pod.demand.devices if pod.demand.whole else 0
    if count < min(scal[PART], scal[WIDE]):
        return 0
    if count < scal[WIDE]:
        return 1
    return min(sum(step < pod.demand.cpu_milli for step in scal[TIER : TIER + TIERS]) + 1, TIERS) + 1


def guards(stock: Sequence[int], idle: int, needs: Sequence[int]) -> list[int]:
    """The price of each lane by how many nodes it and those above it have; see `commit.set_guard`."""
    guard, left = [0] * LANES, 0
    for lane in range(LANES - 1, 0, -1):
        left += stock[lane]
        wanted = needs[2 + lane] * idle / 1_000_000_000
        short = left <= wanted + (needs[2] * math.sqrt(wanted) + needs[1]) / 1000
        guard[lane] = needs[0] if needs[2 + lane] > 0 and short else 0
    for lane in range(2, LANES):
        guard[lane] += guard[lane - 1]
    return guard
