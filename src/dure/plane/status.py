"""The whole fleet at one moment, for people: what runs, what it costs and emits now, what needs a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dure.model.answer import ClusterStatus, FleetStatus, PoolStatus, ServiceStatus, Totals, Trouble
from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.fleet import Fleet
from dure.model.snapshot import Snapshot
from dure.model.tariff import Tariff
from dure.model.units import WHOLE_MILLI
from dure.model.workload import Phase, WorkloadRecord
from dure.watch.attainment import attainment_of, target_of


class Spent(NamedTuple):
    """What the fleet's workloads have cost since it was started."""

    micros: int = 0
    carbon_g: float = 0.0


class Past(NamedTuple):
    """What the snapshot does not hold: how many there are in each phase, who ended lately, what was spent."""

    phases: dict[Phase, int]
    recent: Sequence[WorkloadRecord]
    spent: Spent


def status_of(snapshot: Snapshot, fleet: Fleet, speed: float, past: Past) -> FleetStatus:
    clusters = tuple(_cluster(info, snapshot, fleet) for info in snapshot.clusters)
    phases = Counter(past.phases)
    attained = attainment_of((*snapshot.records, *past.recent), snapshot.now_s)
    totals = Totals(
        devices=sum(one.devices for one in clusters),
        used_milli=sum(one.used_milli for one in clusters),
        pending=phases[Phase.PENDING],
        held=phases[Phase.HELD],
        starting=phases[Phase.PLACED] + phases[Phase.STARTING],
        running=phases[Phase.RUNNING],
        done=phases[Phase.DONE],
        failed=phases[Phase.FAILED],
        power_w=sum(one.power_w for one in clusters),
        cost_per_hour_micros=sum(one.cost_per_hour_micros for one in clusters),
        carbon_g_per_hour=sum(one.carbon_g_per_hour for one in clusters),
        spent_micros=past.spent.micros,
        spent_carbon_g=past.spent.carbon_g,
        slo_attainment=attained.serving,
    )
    return FleetStatus(
        name=fleet.name,
        now_s=snapshot.now_s,
        clusters=clusters,
        totals=totals,
        speed=speed,
        currency=fleet.currency,
        demo=fleet.demo,
        troubles=tuple(_troubles(snapshot)),
        usage=snapshot.usage,
        services=tuple(_services(snapshot.records)),
    )


def _cluster(info: ClusterInfo, snapshot: Snapshot, fleet: Fleet) -> ClusterStatus:
    tariffs = {tariff.pool: tariff for tariff in snapshot.tariffs if tariff.cluster == info.name}
    own = [pool for pool in snapshot.pools if pool.cluster == info.name]
    series = next((one for one in snapshot.carbon if one.grid == info.grid), None)
    intensity = series.at(snapshot.now_s) if series else None
    power_w = sum(_power(pool, snapshot) for pool in own) * info.pue
    pools = tuple(_pool(pool, tariffs.get(pool.name), snapshot, info.pue) for pool in own)
    running = sum(
        1
        for record in snapshot.records
        if record.status.phase is Phase.RUNNING
        and record.status.placement is not None
        and record.status.placement.cluster == info.name
    )
    return ClusterStatus(
        name=info.name,
        region=info.region,
        timezone=info.timezone,
        grid=info.grid,
        reachable=info.reachable,
        observed_s=info.observed_s,
        pools=pools,
        devices=sum(pool.devices for pool in own),
        used_milli=sum(pool.used_milli for pool in pools),
        running=running,
        power_w=power_w,
        cost_per_hour_micros=sum(pool.cost_per_hour_micros for pool in pools),
        carbon_g_per_hour=power_w / 1000 * (intensity or 0.0),
        carbon_g_per_kwh=intensity,
        demo=fleet.demo,
    )


def _used_milli(pool: VNodePool) -> int:
    return max(0, pool.devices * WHOLE_MILLI - pool.free_milli)


def _power(pool: VNodePool, snapshot: Snapshot) -> float:
    """Watts at the devices: idle for all, the rest in proportion to what is in use."""
    profile = snapshot.catalogue.accelerator(pool.class_name)
    used = _used_milli(pool) / WHOLE_MILLI
    return profile.idle_w * pool.devices + (profile.peak_w - profile.idle_w) * used


def _pool(pool: VNodePool, tariff: Tariff | None, snapshot: Snapshot, pue: float) -> PoolStatus:
    """All devices of nodes that are there are paid for, used or not."""
    weekly = tariff.per_hour(pool.capacity) if tariff else None
    price = weekly.at(snapshot.now_s) if weekly else 0
    kwh = _power(pool, snapshot) * pue / 1000
    power = round(kwh * tariff.electricity.at(snapshot.now_s)) if tariff and tariff.electricity else 0
    currency = tariff.currency if tariff else snapshot.rates.base
    return PoolStatus(
        name=pool.name,
        class_name=pool.class_name,
        capacity=pool.capacity,
        cluster=pool.cluster,
        share=pool.share,
        nodes=pool.nodes,
        nodes_ready=pool.nodes_ready,
        nodes_max=pool.nodes_max,
        devices=pool.devices,
        used_milli=_used_milli(pool),
        free_devices=pool.free_devices,
        price_micros=snapshot.rates.convert(price, currency) if weekly else None,
        cost_per_hour_micros=snapshot.rates.convert(price * pool.devices + power, currency),
    )


def _services(records: Iterable[WorkloadRecord]) -> Iterable[ServiceStatus]:
    """Those whose requests somebody counts."""
    for record in records:
        spec, status = record.spec, record.status
        if status.requests is not None and status.requests_good is not None:
            yield ServiceStatus(
                workload=spec.name,
                tenant=spec.tenant,
                target=target_of(spec.slo),
                model=spec.model,
                cluster=status.placement.cluster if status.placement else "",
                ready=status.ready,
                requests=status.requests,
                requests_good=status.requests_good,
                availability=spec.slo.availability,
            )


def _troubles(snapshot: Snapshot) -> Iterable[Trouble]:
    for info in snapshot.clusters:
        if not info.reachable:
            age = f"for {(snapshot.now_s - info.observed_s) / 60:.0f} min" if info.observed_s else "yet"
            yield Trouble(
                f"{info.name} has not reported {age}",
                cluster=info.name,
                remedy="Check that its agent runs and reaches the plane.",
            )
    for record in snapshot.records:
        due = record.spec.deadline_s
        late = due is not None and snapshot.now_s > record.status.submitted_s + due
        if late and record.status.phase.waits:
            yield Trouble(
                f"{record.name} waits beyond its deadline", workload=record.name, remedy=f"dure why {record.name}"
            )
