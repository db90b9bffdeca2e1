"""What a caller may see: every answer that speaks of tenants passes through here.

Of a shared fleet everybody may know what could run where and at which price: clusters, pools, what is free. What
others run, spend and emit is theirs. Who stands above tenants (`who.tenants` is None) gets every answer unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dure.api.backend import Backend
from dure.model.answer import ClusterStatus, FleetStatus, PoolStatus, Totals, Why
from dure.model.decision import Bind, JournalEntry, Reclaim
from dure.model.errors import Conflict, NotAllowed, NotFound
from dure.model.report import DeviceView, Held
from dure.model.tenant import Role
from dure.model.who import Who
from dure.model.workload import Phase, Workload, WorkloadRecord
from dure.ports import Charge, StorePort
from dure.watch.attainment import attainment_of

SOMEBODY = "another tenant"
TAKEN = "this name cannot be used now"


def own_records(store: StorePort, who: Who, *, ended: bool | None = None) -> tuple[WorkloadRecord, ...]:
    """Everybody's for who stands above tenants."""
    if who.tenants is None:
        return store.list_workloads(ended=ended)
    found = [one for tenant in sorted(who.tenants) for one in store.list_workloads(ended=ended, tenant=tenant)]
    return tuple(sorted(found, key=lambda one: (one.status.submitted_s, one.name)))


def fetch_own(store: StorePort, who: Who, name: str) -> WorkloadRecord:
    """Somebody else's workload is as good as none: the same words, and no names that come near."""
    try:
        record = store.fetch_workload(name)
    except NotFound:
        if who.tenants is None:
            raise
    else:
        if who.sees(record.spec.tenant):
            return record
    raise NotFound(f"no workload '{name}'", remedy="See: dure get workloads")


def submit_own(backend: Backend, workload: Workload, key: str, who: Who) -> WorkloadRecord:
    try:
        return backend.submit(workload, own_key(who, workload, key))
    except Conflict as error:
        raise own_conflict(backend, workload, who, error) from error


def own_key(who: Who, workload: Workload, key: str) -> str:
    """Keys of different tenants never meet, else one would be answered with the other's workload."""
    return f"{workload.tenant}/{key}" if key and who.tenants is not None else key


def own_conflict(backend: Backend, workload: Workload, who: Who, error: Conflict) -> Conflict:
    """Names are unique in the fleet; of one that somebody else uses it is said only that it cannot be had."""
    if who.tenants is None or who.sees(backend.store.fetch_workload(workload.name).spec.tenant):
        return error
    return Conflict(TAKEN, where=workload.name, remedy="Choose another name.")


def check_tenant(who: Who, tenant: str, role: Role) -> None:
    """Answers the same whether there is such a tenant or not."""
    if not who.may(role, tenant):
        raise NotAllowed(
            f"you have not the role {role} for tenant '{tenant}'", remedy="See what you may do: dure token whoami"
        )


def status_for(
    status: FleetStatus, who: Who, records: Sequence[WorkloadRecord], spent: Sequence[Charge]
) -> FleetStatus:
    """`records` and `spent` are the caller's own."""
    if who.tenants is None:
        return status
    names = {record.name for record in records}
    return msgspec.structs.replace(
        status,
        clusters=tuple(cluster_for(one, who, records) for one in status.clusters),
        totals=_totals(status, records, spent),
        troubles=tuple(one for one in status.troubles if not one.workload or one.workload in names),
        usage=tuple(one for one in status.usage if who.sees(one.tenant)),
        services=tuple(one for one in status.services if who.sees(one.tenant)),
        upcoming=tuple(one for one in status.upcoming if one.workload in names),
    )


def cluster_for(cluster: ClusterStatus, who: Who, records: Iterable[WorkloadRecord]) -> ClusterStatus:
    if who.tenants is None:
        return cluster
    running = sum(_runs_on(record, cluster.name) for record in records)
    return msgspec.structs.replace(
        cluster,
        pools=tuple(pool_for(pool, who) for pool in cluster.pools),
        running=running,
        power_w=0.0,
        cost_per_hour_micros=0,
        carbon_g_per_hour=0.0,
    )


def pool_for(pool: PoolStatus, who: Who) -> PoolStatus:
    return pool if who.tenants is None else msgspec.structs.replace(pool, cost_per_hour_micros=0)


def device_for(device: DeviceView, who: Who) -> DeviceView:
    """A slice that somebody else holds is taken, and that is all there is to know."""
    if who.tenants is None or not device.held:
        return device
    held = tuple(one if who.sees(one.tenant) else Held(one.slice, "", "", "") for one in device.held)
    return msgspec.structs.replace(device, held=held)


def entries_for(entries: Iterable[JournalEntry], who: Who) -> tuple[JournalEntry, ...]:
    if who.tenants is None:
        return tuple(entries)
    return tuple(_veiled(entry) for entry in entries if who.sees(entry.tenant))


def why_for(why: Why, who: Who) -> Why:
    return why if who.tenants is None else msgspec.structs.replace(why, journal=entries_for(why.journal, who))


def _veiled(entry: JournalEntry) -> JournalEntry:
    """Decisions that name somebody besides the workload they are about."""
    match entry.decision:
        case Reclaim() as one:
            decision: Reclaim | Bind = msgspec.structs.replace(one, lender=SOMEBODY, claimant="")
        case Bind(evicts=evicts) as one if evicts:
            decision = msgspec.structs.replace(one, evicts=())
        case _:
            return entry
    return msgspec.structs.replace(entry, decision=decision)


def _totals(status: FleetStatus, records: Sequence[WorkloadRecord], spent: Sequence[Charge]) -> Totals:
    phases = Counter(record.status.phase for record in records)
    return Totals(
        devices=status.totals.devices,
        used_milli=status.totals.used_milli,
        pending=phases[Phase.PENDING],
        held=phases[Phase.HELD],
        starting=phases[Phase.PLACED] + phases[Phase.STARTING],
        running=phases[Phase.RUNNING],
        done=phases[Phase.DONE],
        failed=phases[Phase.FAILED],
        spent_micros=sum(one.micros for one in spent),
        spent_carbon_g=sum(one.carbon_mg for one in spent) / 1000,
        slo_attainment=attainment_of(records, status.now_s).serving,
    )


def _runs_on(record: WorkloadRecord, cluster: str) -> bool:
    home = record.status.placement
    return record.status.phase is Phase.RUNNING and home is not None and home.cluster == cluster
