"""What Dure needs from the world, as Protocols. Adapters implement them, tests run one contract suite on each.

All calls are synchronous and may block; processes run them in threads of their own. A port raises only the errors
of `dure.model.errors`: `Temporary` where a later try may work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from dure.model.audit import AuditLine
from dure.model.cluster import ClusterState
from dure.model.decision import Bind, Evict, JournalEntry, Resize
from dure.model.defrag import DefragWish
from dure.model.errors import Conflict
from dure.model.event import Event
from dure.model.membership import Membership
from dure.model.policy import Policy
from dure.model.posting import Posting
from dure.model.pulse import Rest
from dure.model.report import Desired, Observed, Report
from dure.model.sample import Sample
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.tenant import Tenant
from dure.model.token import Token
from dure.model.units import Instant, Micros, Seconds
from dure.model.who import PLANE, Who
from dure.model.workload import Phase, Workload, WorkloadRecord, WorkloadStatus


class Teller(Protocol):
    """Says what time it is; leases ask for no more."""

    def now(self) -> Instant: ...


class Clock(Teller, Protocol):
    """Time as a dependency: real, scaled (the demo) or virtual (sim and tests)."""

    def wait(self, duration_s: Seconds) -> bool:
        """Wait this long in the clock's own time; False when the clock was stopped meanwhile."""
        ...


class ClusterPort(Protocol):
    """One member cluster's API: the agent observes and acts through it. Every write may be repeated safely."""

    @property
    def name(self) -> str: ...

    def tend(self) -> None:
        """Finish what an earlier call or an earlier process began: objects to make, gangs to bind to the end."""
        ...

    def fetch_state(self) -> ClusterState:
        """Nodes and pods as of one moment."""
        ...

    def fetch_observed(self) -> tuple[Observed, ...]:
        """Progress of every workload that has objects here, ended ones included until `delete`."""
        ...

    def apply(self, desired: Desired) -> None:
        """Make sure that the objects of this placement exist; a lower generation than the one there is ignored."""
        ...

    def delete(self, uid: str) -> None:
        """Remove the workload's objects; fine if there are none."""
        ...

    def bind(self, binds: Sequence[Bind]) -> None:
        """Bind one gang, all or none. `Conflict` if a pod is gone, bound already, or a slice is taken."""
        ...

    def evict(self, evicts: Sequence[Evict]) -> None: ...

    def resize(self, resizes: Sequence[Resize]) -> None: ...

    def explain(self, pod: str, message: str) -> None:
        """Show on the pod why it waits."""
        ...


class MetricsPort(Protocol):
    def fetch_samples(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        """All series of one metric, ordered by labels and time."""
        ...

    def write_samples(self, samples: Iterable[Sample]) -> None: ...


class PricePort(Protocol):
    def fetch_tariffs(self, at_s: Instant) -> tuple[Tariff, ...]:
        """The tariff of every pool as known at this moment, sorted by cluster and pool."""
        ...


class CarbonPort(Protocol):
    def fetch_carbon(self, since_s: Instant, until_s: Instant) -> tuple[CarbonSeries, ...]:
        """One series per grid; hours without a figure are None."""
        ...

    def revision(self) -> Instant:
        """Another one when figures may have changed, also of hours that were asked for before."""
        ...


class EnginePort(Protocol):
    """Engines of language models that can sleep, each at its address. `Temporary` where one does not answer in time,
    another error where it refuses. Both writes may be repeated."""

    def fetch_rest(self, url: str) -> Rest: ...

    def sleep(self, url: str, *, abort: bool = False) -> None:
        """Give the device's memory back, keeping the weights in the host's. Requests inside are finished first, or
        ended now with `abort`."""
        ...

    def wake(self, url: str) -> None:
        """Returns when it can compute again."""
        ...


class PlanePort(Protocol):
    """What an agent's cycle needs from the plane: in its own process when embedded, else over a `PlaneLink`."""

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        """Everything that should exist on this cluster now. `Temporary` when the plane is away."""
        ...

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        """A person's wish for defragmentation that stands for this cluster."""
        ...

    def write_report(self, report: Report) -> None: ...


class PlaneLink(PlanePort, Protocol):
    """The plane from elsewhere, over HTTP or gRPC. The agent always dials, so it works from behind NAT."""

    def wait_for_news(self, wait_s: Seconds) -> bool:
        """Whether what is desired is another than what was fetched last; returns at once when it is."""
        ...

    def fetch_membership(self) -> Membership: ...

    def close(self) -> None: ...


NO_SETTINGS: Mapping[str, str] = {}


class Charge(msgspec.Struct, frozen=True):
    """Money and carbon of one tenant on one cluster; kept as sums by day (UTC)."""

    day: int
    tenant: str
    cluster: str
    micros: Micros
    carbon_mg: int


class Change(msgspec.Struct, frozen=True):
    """A new status of one workload, valid only if the record is still at `version`, with what led to it."""

    uid: str
    version: int
    status: WorkloadStatus
    entries: tuple[JournalEntry, ...] = ()
    events: tuple[Event, ...] = ()
    charges: tuple[Charge, ...] = ()


class Wish(NamedTuple):
    """A workload that somebody wants, and on whose behalf; `doing` is the request, in the API's own words."""

    workload: Workload
    key: str
    who: Who
    doing: str


class New(NamedTuple):
    """A workload to be created, and on whose behalf; the same non-empty `key` answers the first result again."""

    record: WorkloadRecord
    key: str = ""
    who: Who = PLANE
    doing: str = "decide"


class StorePort(Protocol):
    """What must survive. Reads see only committed writes; every write is one short transaction.

    Writes of the deciding loop carry a fencing `token` and fail with `Conflict` once another leader has a newer one.
    Lists are sorted: workloads by submission then name, journal and events by `seq`.
    """

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """A wake-up, not a message: whoever is woken reads the store. Answers how to unsubscribe."""
        ...

    def close(self) -> None: ...

    def together(self) -> AbstractContextManager[None]:
        """All that this thread writes inside is kept whole or, when it ends by an exception, not at all."""
        ...

    def acquire_lease(self, holder: str, now_s: Instant, ttl_s: Seconds) -> int | None:
        """A fencing token if `holder` is leader now (renewing keeps the token), else None."""
        ...

    def create_workload(self, record: WorkloadRecord, *, idempotency_key: str = "") -> WorkloadRecord:
        """`Conflict` if a workload of that name has not ended; the same key answers the first result again."""
        ...

    def create_workloads(self, wanted: Sequence[New]) -> list[WorkloadRecord | Conflict]:
        """As many of them by one short transaction: what `create_workload` would answer for each, in their order."""
        ...

    def fetch_workload(self, name: str) -> WorkloadRecord:
        """The newest of that name; `NotFound` with the nearest names."""
        ...

    def list_workloads(
        self,
        *,
        ended: bool | None = None,
        tenant: str | None = None,
        since_s: Instant | None = None,
        most: int | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        """With `since_s` of the ended ones only those that finished at or after it; of them the `most` last ones."""
        ...

    def list_homed(self) -> tuple[WorkloadRecord, ...]:
        """The open ones that do not wait: however long the queue is, no more than the fleet can hold."""
        ...

    def count_waiting(self, tenant: str) -> int:
        """How many open workloads of a tenant have no home."""
        ...

    def list_created(self, keys: Sequence[str]) -> dict[str, WorkloadRecord]:
        """What was created under those of the idempotency keys that are known, as it is now."""
        ...

    def count_workloads(self) -> dict[Phase, int]:
        """How many there are in each phase, however many that is."""
        ...

    def commit(
        self,
        changes: Sequence[Change],
        *,
        entries: Sequence[JournalEntry] = (),
        events: Sequence[Event] = (),
        settings: Mapping[str, str] = NO_SETTINGS,
        postings: Sequence[Posting] = (),
        token: int | None = None,
    ) -> tuple[str, ...]:
        """All in one transaction. A change whose record moved on is left out whole; answers those uids.

        `seq` of entries and events is given by the store; `settings` are written over and `postings` added to
        those of the same key. With a `token` that is no longer the newest nothing is written and `Conflict` raised.
        """
        ...

    def list_journal(
        self, *, workload: str | None = None, after: int = 0, limit: int = 100, newest: bool = False
    ) -> tuple[JournalEntry, ...]: ...

    def list_events(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[Event, ...]: ...

    def list_charges(self, since_day: int, until_day: int) -> tuple[Charge, ...]:
        """Sums by day, tenant and cluster for days since <= day < until; a day is `at_s // 86400`."""
        ...

    def list_ledger(
        self, since_hour: int, until_hour: int, *, tenant: str | None = None, cluster: str | None = None
    ) -> tuple[Posting, ...]:
        """Postings of the hours since <= hour < until by key; an hour is `at_s // 3600`."""
        ...

    def write_report(self, report: Report) -> None:
        """Kept if newer than the one there; its decisions go into the journal with it, each with its owner's name."""
        ...

    def list_reports(self) -> tuple[Report, ...]:
        """The newest report of each cluster, sorted by cluster; an older one never replaces a newer."""
        ...

    def fetch_setting(self, name: str) -> str | None:
        """Small facts of the installation: seed, start of the demo's clock, adaptive weights."""
        ...

    def write_setting(self, name: str, value: str) -> None: ...

    def write_tenant(self, tenant: Tenant) -> None: ...

    def list_tenants(self) -> tuple[Tenant, ...]: ...

    def write_policy(self, policy: Policy) -> Policy:
        """Kept as a new version; answers it with its number."""
        ...

    def list_policies(self, *, name: str | None = None) -> tuple[Policy, ...]:
        """The newest version of each, or every version of one, newest last."""
        ...

    def write_token(self, token: Token) -> None: ...

    def fetch_token(self, id_: str) -> Token | None: ...

    def list_tokens(self) -> tuple[Token, ...]:
        """By creation; ended ones too."""
        ...

    def list_audit(self, *, after: int = 0, limit: int = 100, newest: bool = False) -> tuple[AuditLine, ...]:
        """Lines of the audit log in order: one for every audited write, made in the same transaction."""
        ...


class DeviceFacts(msgspec.Struct, frozen=True):
    """One accelerator of a node as its driver reports it. `busy` is time with any kernel, not SM occupancy; a device
    that is cut by MIG does not tell it. `minor` is the number of its device file."""

    id: str
    name: str
    memory_mib: int
    used_mib: int = 0
    busy: float | None = None
    mig: bool = False
    minor: int = 0


class SliceFacts(msgspec.Struct, frozen=True):
    """A hardware partition: how many of the device's slices, from which on. Containers see it as `uuid`."""

    id: int
    slices: int
    start: int
    memory_mib: int
    uuid: str = ""


class DevicePort(Protocol):
    """The accelerators of one node and their hardware partitions. Partitions change only while idle."""

    def fetch_devices(self) -> tuple[DeviceFacts, ...]: ...

    def set_mig(self, device: str, enabled: bool) -> None:
        """`Conflict` while the device has slices."""
        ...

    def fetch_slices(self, device: str) -> tuple[SliceFacts, ...]:
        """Sorted by start; empty without MIG. `NotFound` for an unknown device."""
        ...

    def create_slice(self, device: str, slices: int) -> SliceFacts:
        """`Conflict` when MIG is off or there is no room; `NotFound` for a size that does not exist."""
        ...

    def destroy_slice(self, device: str, slice_id: int) -> None:
        """Fine if it is gone already."""
        ...
