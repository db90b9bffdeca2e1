"""What agents talk to when they live in the plane's own process: PlanePort straight on the store."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from dure.model.defrag import DefragWish
from dure.model.once import once
from dure.model.report import Desired, Report
from dure.model.tenant import Isolation, Tenant
from dure.model.workload import WorkloadRecord
from dure.plane import defrag
from dure.ports import StorePort

# Another replica of the plane may have written to the store, of which nobody here is woken.
LOOK_S = 0.5


class LocalPlane:
    """The embedded agents' PlanePort; REST and gRPC serve the same calls to agents elsewhere."""

    def __init__(self, store: StorePort) -> None:
        self.store = store
        # The agents of one process ask one after the other, mostly about the same records.
        self._wanted = once(Wishes().by_cluster)

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        return self._wanted(self.store.list_homed(), self.store.list_tenants()).get(cluster, ())

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


class Wishes:
    """What is wanted of every cluster, time after time: a record that has not changed is not looked at again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[WorkloadRecord, Isolation, tuple[tuple[str, Desired], ...]]] = {}

    def by_cluster(
        self, records: tuple[WorkloadRecord, ...], tenants: tuple[Tenant, ...]
    ) -> dict[str, tuple[Desired, ...]]:
        tiers = {tenant.name: tenant.isolation for tenant in tenants}
        wanted: defaultdict[str, list[Desired]] = defaultdict(list)
        known, self._known = self._known, {}
        for record in records:
            tier = tiers.get(record.spec.tenant, Isolation.SHARED)
            before = known.get(record.uid)
            if before is None or before[0] is not record or before[1] is not tier:
                before = record, tier, tuple(desired_of(record, tier).items())
            self._known[record.uid] = before
            for cluster, desired in before[2]:
                wanted[cluster].append(desired)
        return {cluster: tuple(found) for cluster, found in wanted.items()}


def desired_of(record: WorkloadRecord, tier: Isolation) -> dict[str, Desired]:
    """By cluster: its home, and the next home of a serving that warms up beside it."""
    status = record.status
    if status.phase.ended or status.leaving_s is not None:
        return {}
    homes = {home.cluster: home for home in (status.incoming, status.placement) if home is not None}
    return {cluster: Desired(record.uid, record.spec, home, status.done_s, tier) for cluster, home in homes.items()}
