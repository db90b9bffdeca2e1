"""What Dure answers when somebody asks: what would happen, why is it so, how is the fleet.

The plane fills these from a snapshot and the journal; the REST API, the command line and the dashboard show them
unchanged. Money is in the fleet's currency.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.decision import JournalEntry
from dure.model.eta import Eta
from dure.model.reason import Reason, Verdict
from dure.model.tariff import Capacity
from dure.model.tenant import TenantUsage
from dure.model.units import Grams, Instant, Micros, Milli
from dure.model.workload import Phase, Placement, WorkloadType


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One home that was looked at. `start_s` is None where it cannot start at all; `verdict` then says why."""

    cluster: str
    pool: str
    class_name: str
    capacity: Capacity
    verdict: Verdict
    start_s: Instant | None = None
    bill: Bill = Bill()
    total_micros: Micros = 0
    chosen: bool = False


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What would happen if the workload were submitted now. Options are sorted: chosen, possible by cost, refused."""

    workload: str
    now_s: Instant
    options: tuple[Option, ...]
    currency: str = "KRW"
    note: str = ""

    @property
    def chosen(self) -> Option | None:
        return next((option for option in self.options if option.chosen), None)


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict put into words for readers who have only JSON. `nearest`: of its cluster, the nearest to a yes."""

    where: str
    sentence: str
    reason: Reason | None = None
    remedy: str = ""
    nearest: bool = False


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a workload is where it is: one line per pool looked at, the journal behind it, and when it should start.

    `headline` reads 'training, gang of 8, tenant vision: held for 3 min'. `eta_low_s` and `eta_high_s` bound
    nine of ten cases where that is known; `eta_note` says what it waits for. `eta` has start and finish with ranges.
    `scaling` says who sets a serving's replicas, and why so many.
    """

    workload: str
    tenant: str
    type: WorkloadType
    phase: Phase
    since_s: Instant
    now_s: Instant
    headline: str = ""
    lines: tuple[Line, ...] = ()
    placement: Placement | None = None
    journal: tuple[JournalEntry, ...] = ()
    eta_s: Instant | None = None
    eta_low_s: Instant | None = None
    eta_high_s: Instant | None = None
    eta_note: str = ""
    eta: Eta | None = None
    scaling: str = ""


class PoolStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`used_milli` is thousandths of devices in use; `price_micros` is per device and hour, now. `nodes_max` above
    `nodes` is how far the pool may grow."""

    name: str
    class_name: str
    capacity: Capacity
    cluster: str = ""
    share: tuple[ShareMode, ...] = ()
    nodes: int = 0
    nodes_ready: int = 0
    nodes_max: int = 0
    devices: int = 0
    used_milli: Milli = 0
    free_devices: int = 0
    price_micros: Micros | None = None
    cost_per_hour_micros: Micros = 0


class ClusterStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`carbon_g_per_kwh` None is unknown, which is never zero; `demo` marks figures that were made up."""

    name: str
    region: str = ""
    timezone: str = "UTC"
    grid: str = ""
    reachable: bool = True
    observed_s: Instant = 0.0
    pools: tuple[PoolStatus, ...] = ()
    devices: int = 0
    used_milli: Milli = 0
    running: int = 0
    power_w: float = 0.0
    cost_per_hour_micros: Micros = 0
    carbon_g_per_hour: Grams = 0.0
    carbon_g_per_kwh: float | None = None
    demo: bool = False


class ServiceStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A serving's counters since its start. `target` is the part of the requests that has to be answered in time.

    `availability` is the part of the time in which somebody has to be there to answer; None where nobody promised it.
    """

    workload: str
    tenant: str
    target: float
    model: str = ""
    cluster: str = ""
    ready: int = 0
    requests: int = 0
    requests_good: int = 0
    availability: float | None = None


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """`slo_attainment` is good requests over all, None before the first. `spent_*` count since the start.

    `saved_per_hour_micros` is what the running workloads would cost more at `saved_against`; None where that was
    not measured.
    """

    devices: int = 0
    used_milli: Milli = 0
    pending: int = 0
    held: int = 0
    starting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    power_w: float = 0.0
    cost_per_hour_micros: Micros = 0
    carbon_g_per_hour: Grams = 0.0
    spent_micros: Micros = 0
    spent_carbon_g: Grams = 0.0
    slo_attainment: float | None = None
    saved_per_hour_micros: Micros | None = None
    saved_against: str = ""


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something a person should look at now; none of them means all is well."""

    sentence: str
    cluster: str = ""
    workload: str = ""
    remedy: str = ""


class Upcoming(msgspec.Struct, frozen=True):
    """One of those who should start or end next."""

    workload: str
    eta: Eta


class FleetStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole fleet at one moment. `speed` is clock seconds per real second (the demo runs faster)."""

    name: str
    now_s: Instant
    clusters: tuple[ClusterStatus, ...]
    totals: Totals
    speed: float = 1.0
    currency: str = "KRW"
    demo: bool = False
    troubles: tuple[Trouble, ...] = ()
    usage: tuple[TenantUsage, ...] = ()
    upcoming: tuple[Upcoming, ...] = ()
    services: tuple[ServiceStatus, ...] = ()


class Action(enum.StrEnum):
    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    REFUSE = "refuse"


class FieldChange(msgspec.Struct, frozen=True):
    """One value that differs, as JSON text; empty where there is none on that side."""

    path: str
    before: str
    after: str


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `apply` does (or `diff` would do) with one document."""

    kind: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...] = ()
    message: str = ""
    remedy: str = ""


class Applied(msgspec.Struct, frozen=True):
    """`changed` says whether anything was written; a diff never writes."""

    steps: tuple[Step, ...]
    changed: bool = False


def line(verdict: Verdict) -> Line:
    return Line(verdict.where, verdict.sentence, verdict.reason, verdict.remedy)
