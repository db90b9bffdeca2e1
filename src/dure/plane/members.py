"""What agents talk to when they live in the plane's own process: PlanePort straight on the store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator

import msgspec

from dure.model.defrag import DefragWish
from dure.model.report import Desired, Report
from dure.model.tenant import Isolation
from dure.model.workload import Placement, WorkloadRecord
from dure.plane import defrag
from dure.ports import StorePort

# Another replica of the plane may have written to the store, of which nobody here is woken.
LOOK_S = 0.5


class LocalPlane:
    """The embedded agents' PlanePort; REST and gRPC serve the same calls to agents elsewhere."""

    def __init__(self, store: StorePort) -> None:
        self.store = store

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        tiers = {tenant.name: tenant.isolation for tenant in self.store.list_tenants()}
        records = self.store.list_workloads(ended=False)
        return tuple(_desired(record, tiers, home) for record in records if (home := home_on(record, cluster)))

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        return defrag.fetch_wish(self.store, cluster)

    def write_report(self, report: Report) -> None:
        self.store.write_report(report)
        if report.defrag is not None:
            defrag.settle(self.store, report.cluster, report.defrag)


def follow(
    store: StorePort, cluster: str, listening: Callable[[], bool]
) -> Iterator[tuple[str, tuple[Desired, ...]]]:
    """What is wanted of a cluster with its tag: at once, and again whenever it is another, while somebody listens."""
    changed = threading.Event()
    unsubscribe = store.subscribe(changed.set)
    plane, before = LocalPlane(store), ""
    try:
        while listening():
            changed.clear()
            wanted = plane.fetch_desired(cluster)
            tag = tag_of(wanted)
            if tag != before:
                before = tag
                yield tag, wanted
            else:
                changed.wait(LOOK_S)
    finally:
        unsubscribe()


def tag_of(wanted: tuple[Desired, ...]) -> str:
    """The same for the same wishes, in every process."""
    return hashlib.blake2b(msgspec.json.encode(wanted), digest_size=9).hexdigest()


def home_on(record: WorkloadRecord, cluster: str) -> Placement | None:
    """What this cluster should run of it: its home, or the next home of a serving that warms up beside it."""
    status = record.status
    if status.phase.ended or status.leaving_s is not None:
        return None
    return next((home for home in (status.placement, status.incoming) if home and home.cluster == cluster), None)


def _desired(record: WorkloadRecord, tiers: dict[str, Isolation], placement: Placement) -> Desired:
    isolation = tiers.get(record.spec.tenant, Isolation.SHARED)
    return Desired(record.uid, record.spec, placement, record.status.done_s, isolation)
