"""Not all on one spot pool: a wave of reclaims there would take everything of a tenant at once.

Called by `candidate` for spot pools. The expected rework of a pool grows with the share of the tenant's spot devices
that lie there already, up to twice; where nothing is expected to be taken back, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dure.model.tariff import Capacity
from dure.model.units import Milli
from dure.model.workload import WorkloadRecord
from dure.place.bill import Quote

OnSpot = dict[str, dict[tuple[str, str], Milli]]


def held_on_spot(records: Iterable[WorkloadRecord]) -> OnSpot:
    """Device-thousandths on each spot pool by tenant."""
    held: OnSpot = {}
    for record in records:
        home = record.status.placement
        if home is not None and home.capacity is Capacity.SPOT:
            pools = held.setdefault(record.spec.tenant, {})
            where = (home.cluster, home.pool)
            pools[where] = pools.get(where, 0) + record.spec.demand.device_milli * home.replicas
    return held


def share_of(held: OnSpot, tenant: str, where: tuple[str, str]) -> float:
    pools = held.get(tenant, {})
    total = sum(pools.values())
    return pools.get(where, 0) / total if total else 0.0


def spread(priced: Quote, share: float) -> Quote:
    return priced if share == 0.0 else replace(priced, rework=priced.rework * (1.0 + share))
