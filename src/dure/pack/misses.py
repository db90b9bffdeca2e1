"""Why a gang is held: the nearest miss for each reason, with the two numbers that clash. Called by `packer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dure.model.catalogue import Catalogue
from dure.model.cluster import Pod
from dure.model.reason import Reason, Verdict
from dure.pack.fit import fits_node
from dure.pack.neighbours import gate_of
from dure.pack.room import NodeRoom

_MOST = 8

# From nearly a seat to never a seat: what a person can mend most easily comes first.
_NEARNESS = (
    Reason.FRAGMENTED,
    Reason.GANG_INCOMPLETE,
    Reason.NO_CAPACITY,
    Reason.COMPUTE_TOO_SMALL,
    Reason.BANDWIDTH_TOO_SMALL,
    Reason.MEMORY_TOO_SMALL,
    Reason.HOST_TOO_SMALL,
    Reason.ISOLATION_TIER,
    Reason.SHARE_MODE_NOT_OFFERED,
    Reason.CLASS_NOT_ACCEPTED,
    Reason.CLAIM_NOT_MET,
    Reason.TOPOLOGY_SPREAD,
    Reason.POD_AFFINITY,
    Reason.TAINT_NOT_TOLERATED,
    Reason.SELECTOR_MISMATCH,
    Reason.NOT_SUPPORTED,
)


def misses(gang: Sequence[Pod], rooms: Mapping[str, NodeRoom], catalogue: Catalogue) -> tuple[Verdict, ...]:
    """One verdict per reason over all nodes that were looked at, nearest first."""
    first = gang[0]
    looked = [room for room in rooms.values() if not first.pool or room.node.pool == first.pool]
    if not looked:
        return (Verdict(first.pool or "cluster", Reason.NO_CAPACITY, "a node", "the pool has none"),)
    by_reason: dict[Reason, Verdict] = {}
    seats = 0
    gate = gate_of(first, rooms)
    for room in sorted(looked, key=lambda room: (-room.free_whole, room.node.name)):
        answer = fits_node(first, room, catalogue, gate)
        if not isinstance(answer, Verdict):
            seats += 1
        elif answer.reason is not None:
            by_reason.setdefault(answer.reason, answer)
    torn = _torn(first, looked)
    if torn is not None:
        by_reason.pop(Reason.NO_CAPACITY, None)
        by_reason[Reason.FRAGMENTED] = torn
    if len(gang) > 1:
        where = first.pool or "cluster"
        found = f"{seats} nodes have room for one member" if seats else "no node has room for one member"
        by_reason[Reason.GANG_INCOMPLETE] = Verdict(where, Reason.GANG_INCOMPLETE, f"{len(gang)} at once", found)
    ranked = sorted(by_reason.values(), key=lambda verdict: _nearness(verdict.reason))
    return tuple(ranked[:_MOST])


def _torn(pod: Pod, rooms: Sequence[NodeRoom]) -> Verdict | None:
    """Enough whole devices in all, but not together."""
    wanted = pod.demand.devices
    accepted = [room for room in rooms if any(d.device.class_name in pod.classes for d in room.devices.values())]
    if wanted < 2 or not accepted:
        return None
    largest = max(accepted, key=lambda room: (room.free_whole, room.node.name))
    in_all = sum(room.free_whole for room in accepted)
    if largest.free_whole >= wanted or in_all < wanted:
        return None
    found = f"largest free group is {largest.free_whole}"
    detail = f"{in_all} are free in all"
    return Verdict(pod.pool or "cluster", Reason.FRAGMENTED, f"{wanted} devices on one node", found, detail)


def _nearness(reason: Reason | None) -> int:
    return _NEARNESS.index(reason) if reason in _NEARNESS else len(_NEARNESS)
