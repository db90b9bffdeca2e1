"""Instance types, node pools, pods and nodes as the planner sees them.

Built by the agent from NodePools and pods, by the benchmarks from price lists. Sizes are integers (milli-GPUs,
milli-CPUs, MiB), prices are integers of 1e-6 of a currency unit per hour, so that plans compare exactly.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Capacity = Literal["on-demand", "spot"]
Size = tuple[int, int, int]
"""GPU, CPU and memory, in this order."""


class Offer(msgspec.Struct, frozen=True):
    """One thing that can be bought. `reclaims_h` is the expected number of spot reclaims per hour."""

    type_name: str
    gpu_class: str
    size: Size
    price: int
    capacity: Capacity = "on-demand"
    zone: str = ""
    reclaims_h: float = 0.0


class Pod(msgspec.Struct, frozen=True):
    """What must run. Empty `classes` or `zones` accept any; `rework` is the money one interruption costs."""

    name: str
    size: Size
    classes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    spot_ok: bool = True
    rework: int = 0
    priority: int = 0
    deletion_cost: int = 0
    pinned: bool = False


class Pool(msgspec.Struct, frozen=True):
    """A node pool: what may be bought, how much of it, what each node loses to daemons."""

    name: str
    offers: tuple[Offer, ...]
    weight: int = 0
    overhead: Size = (0, 0, 0)
    limit: Size | None = None
    max_nodes: int | None = None


class Node(msgspec.Struct, frozen=True):
    """A running node with its pods; `allocatable` already lacks the daemons' share."""

    name: str
    pool: str
    offer: Offer
    allocatable: Size
    pods: tuple[Pod, ...] = ()
    ready: bool = True
    deleting: bool = False
    started_s: float = 0.0
    changed_s: float = 0.0
    template: str = ""

    @property
    def free(self) -> Size:
        """What is left for more pods."""
        used = [sum(pod.size[axis] for pod in self.pods) for axis in range(3)]
        gpu, cpu, memory = (have - taken for have, taken in zip(self.allocatable, used, strict=True))
        return gpu, cpu, memory


class NewNode(msgspec.Struct, frozen=True):
    """A node to start and the pods it is for."""

    pool: str
    offer: Offer
    pods: tuple[Pod, ...]


class Unplaced(msgspec.Struct, frozen=True):
    """A pod that nothing can hold, and what clashes."""

    pod: str
    reason: str
    detail: str


def usable(offer: Offer, pool: Pool) -> Size:
    """What an offer leaves for pods in a pool."""
    gpu, cpu, memory = (have - lost for have, lost in zip(offer.size, pool.overhead, strict=True))
    return gpu, cpu, memory


def accepts(pod: Pod, offer: Offer) -> bool:
    """True unless the pod refuses the class, the zone or the capacity type."""
    if pod.size[0] > 0 and pod.classes and offer.gpu_class not in pod.classes:
        return False
    if pod.zones and offer.zone not in pod.zones:
        return False
    return pod.spot_ok or offer.capacity != "spot"


def expected_price(offer: Offer, pods: tuple[Pod, ...]) -> int:
    """The hourly price with the rework that reclaims are expected to cause."""
    if offer.reclaims_h == 0.0:
        return offer.price
    return offer.price + int(offer.reclaims_h * sum(pod.rework for pod in pods))
