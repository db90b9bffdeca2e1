"""Which offered devices a pod's claims would get on one node, or the clash. Called by `fit` and `seating`.

Requests may compete for the same devices, so they are matched exactly (Kuhn's augmenting paths). Cost: O(devices
asked x devices of the node that would do).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dure.model.claim import Allotted, Claim, Request
from dure.model.cluster import Pod
from dure.model.reason import Reason, Verdict
from dure.pack.room import NodeRoom

Wish = tuple[Claim, Request]


def allot(pod: Pod, room: NodeRoom) -> tuple[Allotted, ...] | Verdict:
    """For all claims of the pod together; those that have their devices keep them."""
    node = room.node
    given: list[Allotted] = []
    wishes: list[Wish] = []
    for claim in pod.claims:
        if claim.problem:
            reason = Reason.NOT_SUPPORTED if claim.unsupported else Reason.CLAIM_NOT_MET
            return Verdict(node.name, reason, f"claim {claim.name}", claim.problem)
        if claim.allotted:
            if claim.home is not None and not any(term.holds(node.name, node.labels) for term in claim.home):
                found = f"its devices are not on {node.name}"
                return Verdict(node.name, Reason.CLAIM_NOT_MET, f"claim {claim.name}", found)
            given.extend(claim.allotted)
            continue
        for request in claim.requests:
            clash = _short(claim, request, room)
            if clash is not None:
                return clash
            wishes.extend((claim, request) for _ in range(_count(request, room)))
    matched = _matched(wishes, room)
    if matched is None:
        wanted = f"{len(wishes)} devices for the claims of {pod.name}"
        return Verdict(node.name, Reason.CLAIM_NOT_MET, wanted, f"{node.name} has fewer that are not the same")
    return (*given, *matched)


def _short(claim: Claim, request: Request, room: NodeRoom) -> Verdict | None:
    free, there = _free(request, room), [one for one in room.node.offers if one in request.devices]
    wanted = max(1, len(there)) if request.every else request.count
    if len(free) >= wanted:
        return None
    text = f"{wanted} devices for {request.name} of claim {claim.name}"
    return Verdict(room.node.name, Reason.CLAIM_NOT_MET, text, f"{room.node.name} has {len(free)} free")


def _count(request: Request, room: NodeRoom) -> int:
    return len(_free(request, room)) if request.every else request.count


def _free(request: Request, room: NodeRoom) -> list[str]:
    return [one for one in room.node.offers if one in request.devices and one not in room.allotted]


def _matched(wishes: Sequence[Wish], room: NodeRoom) -> list[Allotted] | None:
    holder: dict[str, int] = {}
    options = [_free(request, room) for _, request in wishes]
    for wish in range(len(wishes)):
        if not _augment(wish, options, holder, set()):
            return None
    device_of: Mapping[int, str] = {wish: device for device, wish in holder.items()}
    return [Allotted(claim.name, request.name, device_of[at]) for at, (claim, request) in enumerate(wishes)]


def _augment(wish: int, options: Sequence[Sequence[str]], holder: dict[str, int], tried: set[str]) -> bool:
    for device in options[wish]:
        if device in tried:
            continue
        tried.add(device)
        if device not in holder or _augment(holder[device], options, holder, tried):
            holder[device] = wish
            return True
    return False
