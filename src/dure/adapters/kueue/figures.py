"""What a ClusterQueue's quota and status mean: amounts by flavor and resource, counters, whether it serves. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.adapters.kueue.objects import ClusterQueue, FlavorUsage, Workload
from dure.route.accepts import demand_of
from dure.route.amounts import Amounts, added, milli, whole
from dure.route.situation import Figures

Number = int | float


class Amount(msgspec.Struct, frozen=True):
    """One resource of one flavor, in the resource's own unit (cores, devices, bytes)."""

    flavor: str
    resource: str
    nominal: Number
    reserved: Number
    used: Number
    available: Number
    borrowed: Number


class QueueView(msgspec.Struct, frozen=True):
    name: str
    amounts: tuple[Amount, ...]
    pending: int
    reserving: int
    admitted: int
    cohort: str
    strategy: str
    active: bool
    why_not: str


def view(queue: ClusterQueue) -> QueueView:
    status, spec = queue.status, queue.spec
    reserved, used = _by_place(status.flavors_reservation), _by_place(status.flavors_usage)
    amounts = []
    for group in spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                place = (flavor.name, quota.name)
                nominal = milli(quota.nominal_quota)
                held, borrowed = reserved.get(place, (0, 0))
                amounts.append(
                    Amount(
                        flavor.name,
                        quota.name,
                        whole(nominal),
                        whole(held),
                        whole(used.get(place, (0, 0))[0]),
                        whole(nominal - held),
                        whole(borrowed),
                    )
                )
    active, why_not = _active(queue)
    return QueueView(
        queue.metadata.name,
        tuple(amounts),
        status.pending_workloads,
        status.reserving_workloads,
        status.admitted_workloads,
        spec.cohort_name or spec.cohort,
        spec.queueing_strategy,
        active,
        why_not,
    )


def figures(queue: ClusterQueue) -> Figures:
    held = added(
        {used.name: milli(used.total)} for flavor in queue.status.flavors_reservation for used in flavor.resources
    )
    free = {name: amount - held.get(name, 0) for name, amount in capacity(queue).items()}
    active, why_not = _active(queue)
    status = queue.status
    return Figures(queue.metadata.name, free, status.pending_workloads, status.reserving_workloads, active, why_not)


def capacity(queue: ClusterQueue) -> dict[str, int]:
    """Nominal quota by resource, over all flavors."""
    return added(
        {quota.name: milli(quota.nominal_quota)}
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    )


def undisturbed(queue: ClusterQueue) -> bool:
    """Priorities of this queue decide its order and nothing else: nobody is preempted, no quota is shared."""
    rule = queue.spec.preemption
    never = rule.within_cluster_queue == "Never" and rule.reclaim_within_cohort == "Never"
    return never and not (queue.spec.cohort_name or queue.spec.cohort)


def counted(demand: Amounts, covered: Amounts) -> dict[str, int]:
    """Kueue counts what the queue covers; its pods always count as well, but rarely have a quota."""
    return {name: amount for name, amount in demand.items() if name in covered or "/" in name}


def demand(workload: Workload) -> dict[str, int]:
    return added(
        demand_of(
            {"spec": {"parallelism": pods.count, "template": {"spec": {"containers": [], **pods.template.spec}}}}
        )
        for pods in workload.spec.pod_sets
    )


def _active(queue: ClusterQueue) -> tuple[bool, str]:
    found = next((one for one in queue.status.conditions if one.type == "Active"), None)
    if queue.spec.stop_policy not in ("", "None"):
        return False, f"Stopped: its stopPolicy is {queue.spec.stop_policy}"
    if found is not None and found.status != "True":
        return False, f"{found.reason}: {found.message}"
    return True, ""


def _by_place(usage: Iterable[FlavorUsage]) -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (flavor.name, used.name): (milli(used.total), milli(used.borrowed))
        for flavor in usage
        for used in flavor.resources
    }
