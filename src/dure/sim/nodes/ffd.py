"""First-fit-decreasing over the cheapest types: what a simple provisioner buys.

Pods by GPU, CPU and memory, largest first; into the first open node that has room, else onto a new node of the
offer that is cheapest for this pod alone. An opponent for the benchmark, never used by the product.
"""

from __future__ import annotations

from dure.scale.nodes.state import NewNode, Offer, Pod, Pool


def first_fit_decreasing(pods: tuple[Pod, ...], pools: tuple[Pool, ...]) -> tuple[NewNode, ...]:
    """All pods on new nodes; a pod nothing can hold is left out."""
    opened: list[tuple[str, Offer, list[int], list[Pod]]] = []
    for pod in sorted(pods, key=lambda p: (*(-part for part in p.size), p.name)):
        for _, offer, room, guests in opened:
            if _takes(offer, room, pod):
                guests.append(pod)
                for axis in range(3):
                    room[axis] -= pod.size[axis]
                break
        else:
            choice = _cheapest(pod, pools)
            if choice is not None:
                pool, offer, room = choice
                opened.append((pool, offer, [have - part for have, part in zip(room, pod.size, strict=True)], [pod]))
    return tuple(NewNode(pool, offer, tuple(guests)) for pool, offer, _, guests in opened)


def _takes(offer: Offer, room: list[int], pod: Pod) -> bool:
    if pod.size[0] and pod.classes and offer.gpu_class not in pod.classes:
        return False
    if (pod.zones and offer.zone not in pod.zones) or (offer.capacity == "spot" and not pod.spot_ok):
        return False
    return all(part <= have for part, have in zip(pod.size, room, strict=True))


def _cheapest(pod: Pod, pools: tuple[Pool, ...]) -> tuple[str, Offer, list[int]] | None:
    best: tuple[int, str, Offer, list[int]] | None = None
    for pool in pools:
        for offer in pool.offers:
            room = [have - lost for have, lost in zip(offer.size, pool.overhead, strict=True)]
            if _takes(offer, room, pod) and (best is None or offer.price < best[0]):
                best = (offer.price, pool.name, offer, room)
    return None if best is None else best[1:]
