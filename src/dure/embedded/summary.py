"""What a simulated stretch of time came to: money, carbon, waiting, promises kept, devices used."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dure.model.fleet import Fleet
from dure.model.report import Report
from dure.model.units import DAY_S, WHOLE_MILLI, Instant, Micros
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.ports import StorePort
from dure.watch.attainment import attainment_of


class Summary(msgspec.Struct, frozen=True):
    """Rates are between 0 and 1; `None` where nothing was there to measure."""

    fleet: str
    days: float
    seed: int
    currency: str
    submitted: int
    done: int
    failed: int
    running: int
    waiting: int
    restarts: int
    cost_micros: Micros
    carbon_kg: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    jct_mean_s: float
    slo_attainment: float | None
    deadlines_met: float | None
    utilisation: float
    by_cluster: dict[str, dict[str, float]]
    by_tenant: dict[str, dict[str, float]]
    decisions: int


class Usage:
    """Time-weighted use of devices by cluster, fed with every look at the reports."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Instant, int, int]] = {}
        self._used: Counter[str] = Counter()
        self._there: Counter[str] = Counter()

    def sample(self, reports: Iterable[Report], now_s: Instant) -> None:
        for report in reports:
            before = self._last.get(report.cluster)
            if before is not None:
                span = now_s - before[0]
                self._used[report.cluster] += round(before[1] * span)
                self._there[report.cluster] += round(before[2] * span)
            there = sum(pool.devices for pool in report.pools) * WHOLE_MILLI
            free = sum(pool.free_milli for pool in report.pools)
            self._last[report.cluster] = (now_s, there - free, there)

    def share(self, cluster: str | None = None) -> float:
        used = self._used[cluster] if cluster else sum(self._used.values())
        there = self._there[cluster] if cluster else sum(self._there.values())
        return used / there if there else 0.0


def summarise(
    fleet: Fleet, store: StorePort, usage: Usage, *, start_s: Instant, end_s: Instant, seed: int
) -> Summary:
    records = store.list_workloads()
    phases = Counter(record.status.phase for record in records)
    waits = sorted(_waited(record, end_s) for record in records)
    attained = attainment_of(records, end_s)
    charges = store.list_charges(0, int(end_s // DAY_S) + 1)
    journal = store.list_journal(newest=True, limit=1)
    return Summary(
        fleet=fleet.name,
        days=(end_s - start_s) / DAY_S,
        seed=seed,
        currency=fleet.currency,
        submitted=len(records),
        done=phases[Phase.DONE],
        failed=phases[Phase.FAILED],
        running=phases[Phase.RUNNING] + phases[Phase.STARTING] + phases[Phase.PLACED],
        waiting=phases[Phase.PENDING] + phases[Phase.HELD],
        restarts=sum(record.status.restarts for record in records),
        cost_micros=sum(charge.micros for charge in charges),
        carbon_kg=round(sum(charge.carbon_mg for charge in charges) / 1e6, 3),
        wait_mean_s=round(statistics.fmean(waits), 1) if waits else 0.0,
        wait_p50_s=_quantile(waits, 0.5),
        wait_p95_s=_quantile(waits, 0.95),
        jct_mean_s=_mean_jct(records),
        slo_attainment=attained.serving,
        deadlines_met=attained.deadline,
        utilisation=round(usage.share(), 4),
        by_cluster={
            spec.info.name: {
                "cost_micros": sum(one.micros for one in charges if one.cluster == spec.info.name),
                "carbon_kg": round(sum(one.carbon_mg for one in charges if one.cluster == spec.info.name) / 1e6, 3),
                "utilisation": round(usage.share(spec.info.name), 4),
            }
            for spec in fleet.clusters
        },
        by_tenant={
            tenant.name: {
                "cost_micros": sum(one.micros for one in charges if one.tenant == tenant.name),
                "carbon_kg": round(sum(one.carbon_mg for one in charges if one.tenant == tenant.name) / 1e6, 3),
                "wait_mean_s": _mean([_waited(one, end_s) for one in records if one.spec.tenant == tenant.name]),
            }
            for tenant in fleet.tenants
        },
        decisions=journal[0].seq if journal else 0,
    )


def _waited(record: WorkloadRecord, end_s: Instant) -> float:
    """From submission to the first start, or to the end of the run for those that never started."""
    status = record.status
    begun = status.started_s if status.started_s is not None else (status.finished_s or end_s)
    return max(0.0, begun - status.submitted_s)


def _mean_jct(records: Sequence[WorkloadRecord]) -> float:
    spans = [
        record.status.finished_s - record.status.submitted_s
        for record in records
        if record.status.finished_s is not None and record.spec.type is not WorkloadType.SERVING
    ]
    return _mean(spans)


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 1) if values else 0.0


def _quantile(ordered: Sequence[float], q: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 1) if ordered else 0.0
