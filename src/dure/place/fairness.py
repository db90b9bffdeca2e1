"""Who comes first when not all fit: priority, then own quota before borrowed, then weighted dominant share.

Of one tenant's equals those who can still keep their deadline come before those who cannot, then the earlier ones.

Dominant-resource fairness by progressive filling (Ghodsi et al., NSDI'11): the tenant whose largest share of any
class, divided by its weight, is smallest goes next. Called by `batch`; O(n log n) in the waiting workloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from dure.model.cluster import VNodePool
from dure.model.tenant import Tenant, TenantUsage
from dure.model.units import WHOLE_MILLI, Instant, Milli


class Claim(msgspec.Struct, frozen=True):
    """One waiting workload as fairness sees it; `index` is its place in the caller's list, `late` one whose deadline
    is lost whatever is done."""

    index: int
    name: str
    tenant: str
    priority: int
    submitted_s: Instant
    class_name: str
    milli: Milli
    late: bool = False


def fair_order(
    claims: Sequence[Claim],
    tenants: dict[str, Tenant],
    usage: dict[str, TenantUsage],
    total_milli: dict[str, Milli],
) -> list[int]:
    """Indices of the claims in the order in which they may choose."""
    held = {name: dict(one.device_milli) for name, one in usage.items()}
    queues: dict[str, list[Claim]] = {}
    for claim in sorted(claims, key=_within):
        queues.setdefault(claim.tenant, []).append(claim)
    heap = [(_rank(queue[0], tenants, held, total_milli), name) for name, queue in queues.items()]
    heapq.heapify(heap)
    taken = dict.fromkeys(queues, 0)
    order = []
    while heap:
        _, name = heapq.heappop(heap)
        claim = queues[name][taken[name]]
        order.append(claim.index)
        mine = held.setdefault(name, {})
        mine[claim.class_name] = mine.get(claim.class_name, 0) + claim.milli
        taken[name] += 1
        if taken[name] < len(queues[name]):
            heapq.heappush(heap, (_rank(queues[name][taken[name]], tenants, held, total_milli), name))
    return order


def comes_before(
    one: Claim,
    other: Claim,
    tenants: dict[str, Tenant],
    usage: dict[str, TenantUsage],
    total_milli: dict[str, Milli],
) -> bool:
    """Whether `one` would choose before `other` if both were the first of their tenants."""
    if one.tenant == other.tenant:
        return _within(one) < _within(other)
    held = {name: usage[name].device_milli for name in (one.tenant, other.tenant) if name in usage}
    return _rank(one, tenants, held, total_milli) < _rank(other, tenants, held, total_milli)


def class_totals(pools: Sequence[VNodePool]) -> dict[str, Milli]:
    """What there is of each class, nodes that could be booted among it."""
    totals: dict[str, Milli] = {}
    for pool in pools:
        devices = pool.devices + max(0, pool.nodes_max - pool.nodes) * pool.devices_per_node
        totals[pool.class_name] = totals.get(pool.class_name, 0) + devices * WHOLE_MILLI
    return totals


def _within(claim: Claim) -> tuple[int, bool, Instant, str]:
    """The order of one tenant's claims."""
    return -claim.priority, claim.late, claim.submitted_s, claim.name


def dominant_share(mine: dict[str, Milli], weight: float, total_milli: dict[str, Milli]) -> float:
    """The largest share of a class that the tenant holds, per unit of weight."""
    shares = (milli / total_milli[name] for name, milli in mine.items() if total_milli.get(name, 0) > 0)
    return max(shares, default=0.0) / max(weight, 1e-9)


def lendable(tenant: Tenant, class_name: str, others: Sequence[tuple[Tenant, Milli]], total: Milli) -> Milli | None:
    """How much of a class `tenant` may hold in all; None without a limit.

    A borrower gets what is left when every other tenant has what it wants of its own quota (`others` pairs them with
    what they hold and wait for): that is how a quota is reclaimed.
    """
    quota = tenant.quota.get(class_name)
    if quota is None:
        return None
    if not tenant.borrow:
        return quota * WHOLE_MILLI
    wanted = sum(min(one.quota.get(class_name, 0) * WHOLE_MILLI, milli) for one, milli in others)
    return max(quota * WHOLE_MILLI, total - wanted)


def _rank(
    claim: Claim, tenants: dict[str, Tenant], held: dict[str, dict[str, Milli]], total_milli: dict[str, Milli]
) -> tuple[int, bool, float, Instant, str]:
    tenant = tenants.get(claim.tenant, Tenant(claim.tenant))
    mine = held.get(claim.tenant, {})
    quota = tenant.quota.get(claim.class_name)
    borrows = quota is not None and mine.get(claim.class_name, 0) + claim.milli > quota * WHOLE_MILLI
    share = dominant_share(mine, tenant.weight, total_milli)
    return (-claim.priority, borrows, share, claim.submitted_s, claim.name)
