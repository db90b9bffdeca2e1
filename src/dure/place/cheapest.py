"""Cheapest feasible: each waiting workload, most urgent first, gets the possible home with the lowest bill, now.

Cost: O(waiting workloads x pools). When not to use it: it never waits for a better hour and never looks at two
workloads together.
"""

from __future__ import annotations

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.decision import Decision, Hold, Place
from dure.model.demand import Demand, on_class
from dure.model.money import show
from dure.model.reason import Verdict
from dure.model.snapshot import Snapshot
from dure.model.tenant import Tenant, TenantUsage
from dure.model.workload import Placement, Workload, WorkloadRecord
from dure.place.bill import bill_of
from dure.place.filters import isolation_clash, static_clash, tenant_clash
from dure.place.option import Option, World, options, world_of
from dure.place.room import PoolRoom


class Offer(msgspec.Struct, frozen=True):
    """An option with its bill, or the verdict that rules it out."""

    option: Option
    bill: Bill
    demand: Demand
    clash: Verdict | None


def place(snapshot: Snapshot) -> tuple[Decision, ...]:
    """A Place or a Hold for every workload that waits."""
    cycle = _Cycle(snapshot)
    waiting = [record for record in snapshot.records if record.status.phase.waits]
    waiting.sort(key=lambda one: (-one.spec.priority, one.status.submitted_s, one.spec.name))
    return tuple(cycle.decide(record) for record in waiting)


def options_for(snapshot: Snapshot, record: WorkloadRecord) -> tuple[Offer, ...]:
    """Every option of one workload on its own, possible ones first, then by what they cost."""
    return tuple(sorted(_Cycle(snapshot).offers(record), key=_rank))


class _Cycle:
    """What one run of `place` keeps while it gives room away."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.world: World = world_of(snapshot)
        self.rooms = {(pool.cluster, pool.name): PoolRoom(pool) for pool in snapshot.pools}
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        self.usage = {usage.tenant: usage for usage in snapshot.usage}

    def decide(self, record: WorkloadRecord) -> Decision:
        offers = sorted(self.offers(record), key=_rank)
        best = offers[0] if offers else None
        if best is None or best.clash is not None:
            clashes = tuple(offer.clash for offer in offers if offer.clash)
            return Hold(record.name, clashes)
        self._take(record.spec, best)
        others = tuple(
            offer.clash
            or Verdict(offer.option.where, None, detail=f"costs {offer.bill.total - best.bill.total} more")
            for offer in offers[1:]
        )
        return Place(record.name, _placement(record, best, self.snapshot), others)

    def offers(self, record: WorkloadRecord) -> list[Offer]:
        spec = record.spec
        reference = self.snapshot.catalogue.accelerator(spec.classes[0].name)
        offers = []
        for option in options(spec, self.world, self.snapshot.now_s):
            demand = on_class(spec.demand, option.profile, reference)
            clash = static_clash(spec, option, demand, self.snapshot)
            if clash is not None:
                offers.append(Offer(option, Bill(), demand, clash))
                continue
            option = self._timed(option, demand)
            clash = self._clash(spec, option, demand)
            bill = bill_of(spec, option, self.snapshot, record.status.submitted_s)
            offers.append(Offer(option, bill, demand, clash))
        return offers

    def _timed(self, option: Option, demand: Demand) -> Option:
        room = self.rooms[option.pool.cluster, option.pool.name]
        if not room.boots(demand, option.replicas):
            return option
        return msgspec.structs.replace(option, start_s=option.start_s + option.pool.boot_s)

    def _clash(self, spec: Workload, option: Option, demand: Demand) -> Verdict | None:
        tenant = self.tenants.get(spec.tenant, Tenant(spec.tenant))
        usage = self.usage.get(spec.tenant, TenantUsage(spec.tenant))
        room = self.rooms[option.pool.cluster, option.pool.name]
        return (
            tenant_clash(option, demand, tenant, usage)
            or isolation_clash(option, tenant, demand)
            or room.clash(demand, option.replicas, option.profile.memory_mib)
        )

    def _take(self, spec: Workload, offer: Offer) -> None:
        pool = offer.option.pool
        self.rooms[pool.cluster, pool.name].take(offer.demand, offer.option.replicas)
        usage = self.usage.get(spec.tenant, TenantUsage(spec.tenant))
        held = dict(usage.device_milli)
        held[pool.class_name] = held.get(pool.class_name, 0) + offer.demand.device_milli * offer.option.replicas
        self.usage[spec.tenant] = msgspec.structs.replace(
            usage,
            device_milli=held,
            spent_micros=usage.spent_micros + max(0, offer.bill.direct + offer.bill.energy),
            carbon_g=usage.carbon_g + offer.bill.carbon_g,
        )


def _rank(offer: Offer) -> tuple[bool, int, float, str]:
    """Possible before impossible, then money; equal money is decided by carbon, then by name."""
    return (offer.clash is not None, offer.bill.total, offer.bill.carbon_g, offer.option.where)


def _dearer(offer: Offer, best: Offer) -> Verdict:
    return Verdict(offer.option.where, None, detail=f"{show(offer.bill.total - best.bill.total)} dearer")


def _placement(record: WorkloadRecord, offer: Offer, snapshot: Snapshot) -> Placement:
    pool = offer.option.pool
    return Placement(
        workload=record.name,
        generation=record.status.generation + 1,
        cluster=pool.cluster,
        pool=pool.name,
        class_name=pool.class_name,
        mode=_mode(record.spec, offer),
        capacity=pool.capacity,
        replicas=offer.option.replicas,
        decided_s=snapshot.now_s,
        start_s=offer.option.start_s,
        bill=offer.bill,
    )


def _mode(spec: Workload, offer: Offer) -> ShareMode:
    """The mode that the plane expects; the agent may choose another that the pool offers."""
    if offer.demand.whole:
        return ShareMode.EXCLUSIVE
    wanted = [mode for mode in offer.option.pool.share if not spec.share or mode in spec.share]
    return next((mode for mode in wanted if mode is not ShareMode.EXCLUSIVE), ShareMode.EXCLUSIVE)
