"""A Backend without plane or agents: the demo fleet, filled with workloads that follow from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec

from dure.adapters.acting import acting
from dure.adapters.memory.store import MemoryStore
from dure.files.builtin import catalogue, demo_fleet
from dure.model.accelerator import ShareMode
from dure.model.answer import ClusterStatus, FleetStatus, Option, Plan, PoolStatus, Totals, Trouble, Why, line
from dure.model.bill import Bill
from dure.model.catalogue import Catalogue
from dure.model.cluster import Slice
from dure.model.decision import Hold, JournalEntry, Place
from dure.model.demand import Demand
from dure.model.errors import Conflict, DureError
from dure.model.eta import Eta, Range
from dure.model.event import Event, Level
from dure.model.fleet import ClusterSpec, Fleet, PoolSpec
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason, Verdict
from dure.model.report import DeviceView, Held, Report
from dure.model.tariff import Capacity
from dure.model.units import MICROS
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.ports import Change, StorePort, Wish

NOW_S = 1_780_000_000.0
HELD = "train-40"
INTENSITY = {"KR": 421.0, "US-NW": 287.0}
REFUSALS = (
    Verdict("seoul-onprem/h100", Reason.FRAGMENTED, "8 on one node", "largest free group is 6"),
    Verdict("cloud-kr/a10g-spot", Reason.MEMORY_TOO_SMALL, "40 GiB per device", "class has 24 GiB"),
    Verdict("cloud-us/h100-spot", Reason.REGION_NOT_ALLOWED, "kr-*", "region is us-west-2"),
)


class SmallWorld:
    """Implements `dure.api.backend.Backend`."""

    def __init__(self, seed: int = 7, store: StorePort | None = None) -> None:
        self.store: StorePort = store or MemoryStore()
        self.now_s = NOW_S
        self.is_ready = True
        self.troubles: tuple[Trouble, ...] = ()
        self._fleet = demo_fleet()
        self._catalogue = catalogue()
        self._random = random.Random(seed)
        self._count = 0
        for tenant in self._fleet.tenants:
            self.store.write_tenant(tenant)
        self.store.write_policy(Policy("steady", Verb.PLACE))
        for cluster in self._fleet.clusters:
            devices = tuple(device for pool in cluster.pools for device in self._devices(cluster.info.name, pool))
            self.store.write_report(Report(cluster.info.name, self.now_s, "1", (), (), devices))
        for number in range(40, 46):
            self._hold(f"train-{number}")

    def fleet(self) -> Fleet:
        return self._fleet

    def catalogue(self) -> Catalogue:
        return self._catalogue

    def now(self) -> float:
        return self.now_s

    def ready(self) -> bool:
        return self.is_ready

    def plan(self, workload: Workload) -> Plan:
        bill = Bill(direct=412_000 * MICROS, energy=31_000 * MICROS, carbon=4_320 * MICROS, carbon_g=48_000.0)
        home = ("seoul-onprem", "h100", "h100-80gb-sxm", Capacity.OWNED, Verdict("seoul-onprem/h100"))
        other = Option("cloud-us", "h100-spot", "h100-80gb-sxm", Capacity.SPOT, REFUSALS[2])
        return Plan(workload.name, self.now_s, (Option(*home, self.now_s, bill, bill.total, True), other))

    def submit(self, workload: Workload, key: str) -> WorkloadRecord:
        self._count += 1
        record = WorkloadRecord(f"uid-{self._count:05d}", workload, WorkloadStatus(submitted_s=self.now_s))
        made = self.store.create_workload(record, idempotency_key=key)
        self.tell(f"{workload.name} was submitted", workload=workload.name)
        return made

    def submit_all(self, wishes: Sequence[Wish]) -> list[WorkloadRecord | DureError]:
        return [self._submitted(wish) for wish in wishes]

    def _submitted(self, wish: Wish) -> WorkloadRecord | DureError:
        try:
            with acting(wish.who, wish.doing):
                return self.submit(wish.workload, wish.key)
        except DureError as error:
            return error

    def cancel(self, name: str) -> WorkloadRecord:
        record = self.store.fetch_workload(name)
        if record.status.phase.ended:
            raise Conflict(f"workload '{name}' has ended already")
        status = msgspec.structs.replace(record.status, phase=Phase.CANCELLED, finished_s=self.now_s)
        self.store.commit([Change(record.uid, record.version, status)])
        return self.store.fetch_workload(name)

    def with_kept_eta(self, record: WorkloadRecord) -> WorkloadRecord | None:
        return None

    def with_eta(self, records: Sequence[WorkloadRecord]) -> Sequence[WorkloadRecord]:
        said = Range(*(self.now_s + 600.0 * step for step in range(1, 6)))
        return [
            record if record.status.phase.ended else msgspec.structs.replace(record, eta=Eta(said, said))
            for record in records
        ]

    def why(self, name: str) -> Why:
        record = self.store.fetch_workload(name)
        spec, status = record.spec, record.status
        return Why(
            workload=name,
            tenant=spec.tenant,
            type=spec.type,
            phase=status.phase,
            since_s=status.submitted_s,
            now_s=self.now_s,
            headline=f"{spec.type}, gang of {spec.gang}, tenant {spec.tenant}: {status.phase}",
            lines=tuple(line(verdict) for verdict in status.held),
            placement=status.placement,
            journal=self.store.list_journal(workload=name, limit=20, newest=True),
            eta_s=self.now_s + 1200 if status.phase.waits else None,
            eta_note="when batch-0003 ends on seoul-onprem" if status.phase.waits else "",
        )

    def status(self) -> FleetStatus:
        clusters = tuple(self._cluster_status(cluster) for cluster in self._fleet.clusters)
        phases = [record.status.phase for record in self.store.list_workloads()]
        totals = Totals(
            devices=sum(cluster.devices for cluster in clusters),
            used_milli=sum(cluster.used_milli for cluster in clusters),
            pending=phases.count(Phase.PENDING),
            held=phases.count(Phase.HELD),
            running=phases.count(Phase.RUNNING),
            power_w=sum(cluster.power_w for cluster in clusters),
            cost_per_hour_micros=sum(cluster.cost_per_hour_micros for cluster in clusters),
            carbon_g_per_hour=sum(cluster.carbon_g_per_hour for cluster in clusters),
            slo_attainment=0.9971,
        )
        return FleetStatus("example", self.now_s, clusters, totals, 60.0, demo=True, troubles=self.troubles)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self.store.subscribe(listener)

    def tell(self, message: str, *, workload: str = "", level: Level = Level.INFO) -> None:
        """Commit one event, which wakes who listens."""
        self.store.commit([], events=[Event(self.now_s, "note", message, workload=workload, level=level)])

    def _cluster_status(self, spec: ClusterSpec) -> ClusterStatus:
        name = spec.info.name
        report = next(report for report in self.store.list_reports() if report.cluster == name)
        pools = tuple(_pool_status(name, pool, report) for pool in spec.pools)
        used = sum(pool.used_milli for pool in pools)
        # The figures breathe with the clock so that charts have something to show.
        power_w = used / 1000 * 430 * (1 + abs(self.now_s // 60 % 40 - 20) / 100)
        return ClusterStatus(
            name=name,
            region=spec.info.region,
            grid=spec.info.grid,
            observed_s=self.now_s,
            pools=pools,
            devices=sum(pool.devices for pool in pools),
            used_milli=used,
            power_w=power_w,
            cost_per_hour_micros=sum(pool.cost_per_hour_micros for pool in pools) + round(power_w * 140_000),
            carbon_g_per_hour=power_w / 1000 * INTENSITY[spec.info.grid],
            carbon_g_per_kwh=INTENSITY[spec.info.grid],
        )

    def _devices(self, cluster: str, pool: PoolSpec) -> Iterator[DeviceView]:
        mode = pool.share[1] if len(pool.share) > 1 and pool.name != "h100" else ShareMode.EXCLUSIVE
        for node in range(pool.nodes):
            for index in range(pool.devices):
                name = f"{pool.name}-{node}"
                id_ = f"{name}-{index}"
                held = tuple(
                    Held(cut, f"pod-{id_}-{cut.start}", *self._run(cluster, pool, mode))
                    for cut in self._slices(id_, mode)
                )
                healthy = self._random.random() > 0.01
                yield DeviceView(id_, name, pool.name, pool.class_name, mode, healthy=healthy, held=held)

    def _slices(self, device: str, mode: ShareMode) -> Iterator[Slice]:
        if mode is ShareMode.EXCLUSIVE:
            if self._random.random() < 0.75:
                yield Slice(device, mode)
            return
        start = 0
        while start < 7:
            slots = self._random.choice((1, 2, 4))
            if start + slots <= 8 and self._random.random() < 0.6:
                yield Slice(device, mode, f"{slots}g", start, slots, slots * 10240, slots * 125)
            start += slots

    def _run(self, cluster: str, pool: PoolSpec, mode: ShareMode) -> tuple[str, str]:
        """A running workload for one slice: its name and tenant."""
        self._count += 1
        kind = self._random.choice(list(WorkloadType))
        tenant = self._random.choice(self._fleet.tenants).name
        name = f"{kind}-{self._count:04d}"
        bill = Bill(direct=900 * MICROS, carbon_g=120.0)
        home = Placement(
            name, 1, cluster, pool.name, pool.class_name, mode, pool.capacity, 1, self.now_s - 600, bill=bill
        )
        spec = Workload(name, tenant, kind, (AcceptedClass(pool.class_name),), Demand(devices=1), duration_s=7200)
        spent = self._random.randrange(40_000) * MICROS
        submitted_s = self.now_s - 60_000 + self._count * 60
        status = WorkloadStatus(
            Phase.RUNNING, submitted_s, home, 1, started_s=submitted_s + 90, ready=1, spent_micros=spent
        )
        self.store.create_workload(WorkloadRecord(f"uid-{self._count:05d}", spec, status))
        if self._count % 5 == 0:
            told = Event(self.now_s - 600, "placed", f"{name} goes to {cluster}/{pool.name}", workload=name)
            entry = JournalEntry(0, self.now_s - 600, "d1", Place(name, home), tenant, cluster)
            self.store.commit([], entries=[entry], events=[told])
        return name, tenant

    def _hold(self, name: str) -> None:
        self._count += 1
        classes = (AcceptedClass("h100-80gb-sxm"),)
        spec = Workload(name, "vision", WorkloadType.TRAINING, classes, Demand(devices=8), gang=8)
        status = WorkloadStatus(Phase.HELD, self.now_s - 180, held=REFUSALS)
        self.store.create_workload(WorkloadRecord(f"uid-{self._count:05d}", spec, status))
        told = Event(self.now_s - 170, "held", f"{name} waits: largest free group is 6", level=Level.WARNING)
        entry = JournalEntry(0, self.now_s - 170, "d0", Hold(name, REFUSALS), "vision")
        self.store.commit([], entries=[entry], events=[told])


def _pool_status(cluster: str, pool: PoolSpec, report: Report) -> PoolStatus:
    devices = [device for device in report.devices if device.pool == pool.name]
    used = sum(min(1000, sum(held.slice.compute_milli or 1000 for held in device.held)) for device in devices)
    weekly = pool.tariff.per_hour(pool.capacity)
    price = weekly.at(report.at_s) if weekly else 0
    return PoolStatus(
        name=pool.name,
        class_name=pool.class_name,
        capacity=pool.capacity,
        cluster=cluster,
        nodes=pool.nodes,
        nodes_ready=pool.nodes,
        devices=len(devices),
        used_milli=used,
        free_devices=sum(not device.held for device in devices),
        price_micros=price,
        cost_per_hour_micros=price * used // 1000,
    )
