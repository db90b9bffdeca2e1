"""What each tenant holds now, for quotas and fairness."""

from __future__ import annotations

from collections.abc import Iterable

from dure.model.tenant import TenantUsage
from dure.model.units import Grams, Micros, Milli
from dure.model.workload import WorkloadRecord


def usage_of(
    tenants: Iterable[str], records: Iterable[WorkloadRecord], month: dict[str, tuple[Micros, Grams]]
) -> tuple[TenantUsage, ...]:
    """`month` is what each tenant has spent this calendar month: money and grams."""
    held: dict[str, dict[str, Milli]] = {tenant: {} for tenant in tenants}
    for record in records:
        placement = record.status.placement
        if placement is None or record.status.phase.ended:
            continue
        classes = held.setdefault(record.spec.tenant, {})
        milli = record.spec.demand.device_milli * placement.replicas
        classes[placement.class_name] = classes.get(placement.class_name, 0) + milli
    return tuple(
        TenantUsage(tenant, classes, *month.get(tenant, (0, 0.0))) for tenant, classes in sorted(held.items())
    )
