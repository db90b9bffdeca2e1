"""A Backend without plane or agents: four clusters whose devices, workloads and figures follow from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec

from dure.model.accelerator import AcceleratorProfile, DataType, Kind, ShareMode
from dure.model.answer import ClusterStatus, FleetStatus, Option, Plan, PoolStatus, Totals, Trouble, Why, line
from dure.model.bill import Bill
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterInfo, Slice
from dure.model.decision import Hold, JournalEntry, Place
from dure.model.demand import Demand
from dure.model.errors import Conflict
from dure.model.event import Event, Level
from dure.model.fleet import ClusterSpec, Connect, Fleet, PoolSpec
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason, Verdict
from dure.model.report import DeviceView, Held, Report
from dure.model.tariff import Capacity, Tariff, Weekly
from dure.model.tenant import Tenant
from dure.model.units import MICROS
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    Replicas,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.ports import Change
from tests.unit.api.memory_store import MemoryStore

NOW_S = 1_780_000_000.0
TENANTS = ("search", "vision", "research")
# cluster, region, grid, g/kWh, pools of (name, class, capacity, nodes, devices per node, KRW/h, mode)
CLUSTERS: tuple[tuple[str, str, str, float, tuple[tuple[str, str, Capacity, int, int, int, ShareMode], ...]], ...] = (
    (
        "seoul-a",
        "kr-central",
        "KR",
        421.0,
        (
            ("h100", "h100-80gb-sxm", Capacity.OWNED, 6, 8, 2100, ShareMode.EXCLUSIVE),
            ("a100", "a100-80gb", Capacity.OWNED, 6, 8, 1500, ShareMode.MIG),
        ),
    ),
    (
        "gwangju-npu",
        "kr-south",
        "KR",
        421.0,
        (
            ("atom", "atom", Capacity.OWNED, 5, 8, 420, ShareMode.EXCLUSIVE),
            ("rngd", "rngd", Capacity.OWNED, 3, 4, 700, ShareMode.EXCLUSIVE),
            ("t4", "t4", Capacity.OWNED, 4, 4, 300, ShareMode.MPS),
        ),
    ),
    (
        "cloud-kr",
        "kr-cloud",
        "KR",
        421.0,
        (
            ("a10g-spot", "a10g", Capacity.SPOT, 8, 4, 560, ShareMode.MPS),
            ("l4", "l4", Capacity.ON_DEMAND, 6, 4, 980, ShareMode.TIMESLICE),
        ),
    ),
    (
        "cloud-us",
        "us-central1",
        "US-CENT",
        287.0,
        (
            ("h100-spot", "h100-80gb-sxm", Capacity.SPOT, 2, 8, 3900, ShareMode.EXCLUSIVE),
            ("a100", "a100-80gb", Capacity.ON_DEMAND, 2, 8, 5100, ShareMode.MIG),
            ("l4-spot", "l4", Capacity.SPOT, 4, 4, 310, ShareMode.MPS),
        ),
    ),
)


class SmallWorld:
    """Implements `dure.api.backend.Backend`."""

    def __init__(self, seed: int = 7) -> None:
        self.store = MemoryStore()
        self.now_s = NOW_S
        self.is_ready = True
        self._random = random.Random(seed)
        self._listeners: list[Callable[[], None]] = []
        self._count = 0
        for name in TENANTS:
            self.store.write_tenant(Tenant(name, weight=1.0 + TENANTS.index(name)))
        self.store.write_policy(Policy("default", Verb.PLACE))
        for cluster in CLUSTERS:
            self._populate(cluster[0], cluster[4])
        for index in range(6):
            self._hold(f"train-{40 + index}")

    def fleet(self) -> Fleet:
        return Fleet(
            "example",
            tuple(
                ClusterSpec(
                    ClusterInfo(name, region=region, grid=grid),
                    Connect(embedded=True),
                    tuple(_pool_spec(name, *pool) for pool in pools),
                )
                for name, region, grid, _, pools in CLUSTERS
            ),
            tenants=self.store.list_tenants(),
            demo=True,
        )

    def catalogue(self) -> Catalogue:
        names = sorted({pool[1] for cluster in CLUSTERS for pool in cluster[4]})
        return Catalogue({name: _profile(name) for name in names})

    def now(self) -> float:
        return self.now_s

    def ready(self) -> bool:
        return self.is_ready

    def plan(self, workload: Workload) -> Plan:
        bill = Bill(direct=412_000 * MICROS, energy=31_000 * MICROS, carbon=4_320 * MICROS, carbon_g=48_000.0)
        fits = Verdict("seoul-a/h100")
        refused = Verdict("cloud-us/h100-spot", Reason.REGION_NOT_ALLOWED, "kr-*", "region is us-central1")
        return Plan(
            workload.name,
            self.now_s,
            (
                Option("seoul-a", "h100", "h100-80gb-sxm", Capacity.OWNED, fits, self.now_s, bill, bill.total, True),
                Option("cloud-us", "h100-spot", "h100-80gb-sxm", Capacity.SPOT, refused),
            ),
        )

    def submit(self, workload: Workload, key: str) -> WorkloadRecord:
        self._count += 1
        status = WorkloadStatus(submitted_s=self.now_s)
        record = self.store.create_workload(
            WorkloadRecord(f"uid-{self._count:05d}", workload, status), idempotency_key=key
        )
        self.tell(f"{workload.name} was submitted", workload=workload.name)
        return record

    def cancel(self, name: str) -> WorkloadRecord:
        record = self.store.fetch_workload(name)
        if record.status.phase.ended:
            raise Conflict(f"workload '{name}' has ended already")
        status = msgspec.structs.replace(record.status, phase=Phase.CANCELLED, finished_s=self.now_s)
        self.store.commit([Change(record.uid, record.version, status)])
        self.tell(f"{name} was cancelled", workload=name)
        return self.store.fetch_workload(name)

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
            eta_note="when batch-0003 ends on seoul-a" if status.phase.waits else "",
        )

    def status(self) -> FleetStatus:
        clusters = tuple(self._cluster_status(*cluster) for cluster in CLUSTERS)
        phases = [record.status.phase for record in self.store.list_workloads()]
        return FleetStatus(
            name="example",
            now_s=self.now_s,
            speed=60.0,
            clusters=clusters,
            demo=True,
            totals=Totals(
                devices=sum(cluster.devices for cluster in clusters),
                used_milli=sum(cluster.used_milli for cluster in clusters),
                held=phases.count(Phase.HELD),
                pending=phases.count(Phase.PENDING),
                running=phases.count(Phase.RUNNING),
                starting=phases.count(Phase.STARTING),
                power_w=sum(cluster.power_w for cluster in clusters),
                cost_per_hour_micros=sum(cluster.cost_per_hour_micros for cluster in clusters),
                carbon_g_per_hour=sum(cluster.carbon_g_per_hour for cluster in clusters),
                slo_attainment=0.9971,
            ),
            troubles=(Trouble("gwangju-npu has not reported for 2 min", cluster="gwangju-npu"),),
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, message: str, *, workload: str = "", level: Level = Level.INFO) -> None:
        """Commit one event and wake who listens."""
        event = Event(self.now_s, "note", message, workload=workload, level=level)
        self.store.commit([], events=[event])
        for listener in list(self._listeners):
            listener()

    def pass_time(self, seconds: float) -> None:
        """Let the figures of the charts move a little."""
        self.now_s += seconds

    def _cluster_status(
        self,
        name: str,
        region: str,
        grid: str,
        intensity: float,
        pools: tuple[tuple[str, str, Capacity, int, int, int, ShareMode], ...],
    ) -> ClusterStatus:
        report = next(report for report in self.store.list_reports() if report.cluster == name)
        rows = tuple(_pool_status(name, report, *pool[:6]) for pool in pools)
        used = sum(row.used_milli for row in rows)
        # The figures breathe with the hour so that charts have something to show.
        swing = 1 + ((self.now_s // 60) % 40) / 200
        power = used / 1000 * 430 * swing
        return ClusterStatus(
            name=name,
            region=region,
            grid=grid,
            reachable=name != "gwangju-npu",
            observed_s=self.now_s - 2,
            pools=rows,
            devices=sum(row.devices for row in rows),
            used_milli=used,
            power_w=power,
            cost_per_hour_micros=round(sum(row.cost_per_hour_micros for row in rows) * swing),
            carbon_g_per_hour=power / 1000 * intensity,
            carbon_g_per_kwh=intensity,
            demo=True,
        )

    def _populate(self, cluster: str, pools: tuple[tuple[str, str, Capacity, int, int, int, ShareMode], ...]) -> None:
        devices = [
            self._device(cluster, pool, f"{cluster}-{pool[0]}-{node}", index)
            for pool in pools
            for node in range(pool[3])
            for index in range(pool[4])
        ]
        self.store.write_report(Report(cluster, self.now_s, "1", (), (), tuple(devices)))

    def _device(
        self, cluster: str, pool: tuple[str, str, Capacity, int, int, int, ShareMode], node: str, index: int
    ) -> DeviceView:
        name, class_name, capacity, _, _, _, mode = pool
        device = f"{node}-{index}"
        held = tuple(
            Held(cut, f"pod-{device}-{cut.start}", *self._run(cluster, name, class_name, capacity, mode))
            for cut in self._slices(device, mode)
        )
        return DeviceView(
            device, node, name, class_name, mode, healthy=self._random.random() > 0.01, cluster=cluster, held=held
        )

    def _slices(self, device: str, mode: ShareMode) -> Iterator[Slice]:
        if mode is ShareMode.EXCLUSIVE:
            if self._random.random() < 0.75:
                yield Slice(device, mode, slots=8, compute_milli=1000)
            return
        start = 0
        while start < 8:
            slots = self._random.choice((1, 2, 4))
            if start + slots > 8:
                return
            if self._random.random() < 0.6:
                yield Slice(device, mode, f"{slots}g", start, slots, slots * 10240, slots * 125)
            start += slots

    def _run(self, cluster: str, pool: str, class_name: str, capacity: Capacity, mode: ShareMode) -> tuple[str, str]:
        """A running workload for one slice: its name and tenant."""
        self._count += 1
        kind = self._random.choice(list(WorkloadType))
        tenant = self._random.choice(TENANTS)
        name = f"{kind}-{self._count:04d}"
        placement = Placement(
            name, 1, cluster, pool, class_name, mode, capacity, 1, self.now_s - 600, bill=Bill(direct=900 * MICROS)
        )
        status = WorkloadStatus(
            Phase.RUNNING,
            self.now_s - self._count * 60,
            placement,
            1,
            started_s=self.now_s - 500,
            ready=1,
            spent_micros=self._random.randrange(40_000) * MICROS,
        )
        self.store.create_workload(
            WorkloadRecord(
                f"uid-{self._count:05d}",
                Workload(
                    name,
                    tenant,
                    kind,
                    (AcceptedClass(class_name),),
                    Demand(devices=1),
                    replicas=Replicas(1, 4),
                    duration_s=7200,
                ),
                status,
            )
        )
        if self._count % 5 == 0:
            self.store.commit(
                [],
                entries=[JournalEntry(0, self.now_s - 600, "d1", Place(name, placement), tenant, cluster)],
                events=[Event(self.now_s - 600, "placed", f"{name} goes to {cluster}/{pool}", workload=name)],
            )
        return name, tenant

    def _hold(self, name: str) -> None:
        self._count += 1
        verdicts = (
            Verdict("seoul-a/h100", Reason.FRAGMENTED, "8 on one node", "largest free group is 6"),
            Verdict("cloud-kr/a10g-spot", Reason.MEMORY_TOO_SMALL, "40 GiB per device", "class has 24 GiB"),
            Verdict("cloud-us/h100-spot", Reason.REGION_NOT_ALLOWED, "kr-*", "region is us-central1"),
        )
        spec = Workload(
            name, "vision", WorkloadType.TRAINING, (AcceptedClass("h100-80gb-sxm"),), Demand(devices=8), gang=8
        )
        status = WorkloadStatus(Phase.HELD, self.now_s - 180, held=verdicts)
        self.store.create_workload(WorkloadRecord(f"uid-{self._count:05d}", spec, status))
        self.store.commit(
            [],
            entries=[JournalEntry(0, self.now_s - 170, "d0", Hold(name, verdicts), "vision")],
            events=[Event(self.now_s - 170, "held", f"{name} waits: largest free group is 6", level=Level.WARNING)],
        )


def _pool_spec(
    cluster: str, name: str, class_name: str, capacity: Capacity, nodes: int, devices: int, krw: int, mode: ShareMode
) -> PoolSpec:
    price = Weekly((krw * MICROS,))
    return PoolSpec(name, class_name, Tariff(cluster, name, class_name, owned=price), nodes, nodes, devices, (mode,))


def _pool_status(
    cluster: str, report: Report, name: str, class_name: str, capacity: Capacity, nodes: int, per_node: int, krw: int
) -> PoolStatus:
    devices = [device for device in report.devices if device.pool == name]
    used = sum(min(1000, sum(held.slice.compute_milli for held in device.held)) for device in devices)
    return PoolStatus(
        name=name,
        class_name=class_name,
        capacity=capacity,
        cluster=cluster,
        nodes=nodes,
        nodes_ready=nodes,
        devices=len(devices),
        used_milli=used,
        free_devices=sum(not device.held for device in devices),
        price_micros=krw * MICROS,
        cost_per_hour_micros=krw * MICROS * used // 1000,
    )


def _profile(name: str) -> AcceleratorProfile:
    return AcceleratorProfile(name, "vendor", Kind.GPU, 81920, 2000.0, {DataType.BF16: 300.0}, 400.0, 60.0)
