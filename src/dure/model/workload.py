"""What a tenant submits: training, batch or serving; and what Dure knows of it since.

`Workload` is the wish and never changes; `WorkloadStatus` is the record; `Placement` the decided home.
"""

from __future__ import annotations

import enum
import math

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.demand import Demand
from dure.model.eta import Eta, Foretold
from dure.model.pulse import Scaling
from dure.model.reason import Verdict
from dure.model.tariff import Capacity
from dure.model.units import Grams, Instant, MiB, Micros, Seconds


class WorkloadType(enum.StrEnum):
    TRAINING = "training"
    BATCH = "batch"
    SERVING = "serving"


class AcceptedClass(msgspec.Struct, frozen=True):
    """An accelerator class the workload can use and its speed there; the first one named has speed 1."""

    name: str
    speed: float = 1.0


class Slo(msgspec.Struct, frozen=True, omit_defaults=True):
    latency_p95_ms: float | None = None
    throughput_per_s: float | None = None
    availability: float | None = None


# A replica on the first accepted class is meant to answer this multiple of its part of the mean rate.
MEANT = 1.6


class Replicas(msgspec.Struct, frozen=True):
    min: int = 1
    max: int = 1


class SpeedUp(msgspec.Struct, frozen=True):
    """Measured speed of an elastic gang with `replicas` members, relative to its smallest size."""

    replicas: int
    speed: float


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """`duration_s` is the estimate on the first accepted class; `deadline_s` counts from submission.

    `template` is an ordinary pod template as JSON text, empty for a dry run.
    """

    name: str
    tenant: str
    type: WorkloadType
    classes: tuple[AcceptedClass, ...]
    demand: Demand
    model: str = ""
    dataset: str = ""
    dataset_mib: MiB = 0
    gang: int = 1
    replicas: Replicas = Replicas()
    speedups: tuple[SpeedUp, ...] = ()
    duration_s: Seconds = 0.0
    deadline_s: Seconds | None = None
    deferrable: bool = True
    interruptible: bool = False
    checkpoint_s: Seconds = 0.0
    rate_per_s: float = 0.0
    slo: Slo = Slo()
    priority: int = 0
    regions: tuple[str, ...] = ()
    share: tuple[ShareMode, ...] = ()
    template: str = ""
    scaling: Scaling = Scaling.AUTO

    @property
    def size(self) -> int:
        """Pods that must run at once: the gang, or the smallest number of replicas."""
        return self.replicas.min if self.type is WorkloadType.SERVING else self.gang

    def speed_on(self, class_name: str) -> float | None:
        for accepted in self.classes:
            if accepted.name == class_name:
                return accepted.speed
        return None

    def size_on(self, class_name: str) -> int:
        """Pods to begin with on this class. Replicas are counted on the first accepted class: a slower one gets as
        many more as carry the same, as far as `max` allows; a faster one no fewer."""
        speed = self.speed_on(class_name)
        if self.type is not WorkloadType.SERVING or not speed:
            return self.size
        alike = math.ceil(self.size * self.classes[0].speed / speed - 1e-9)
        return max(self.size, min(alike, self.replicas.max))

    def speed_with(self, class_name: str, members: int) -> float:
        """Work per second in seconds on the first accepted class; an elastic gang also speeds up with its size."""
        reached = (step.speed for step in self.speedups if step.replicas <= members)
        return (self.speed_on(class_name) or 1.0) * max(reached, default=1.0)


class Phase(enum.StrEnum):
    """pending -> (held ->) placed -> starting -> running -> done | failed | cancelled."""

    PENDING = "pending"
    HELD = "held"
    PLACED = "placed"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    # Asked for every workload in every turn of the loop: known to each member, not looked up.
    ended: bool
    waits: bool

    def __init__(self, value: str) -> None:
        self.ended = value in ("done", "failed", "cancelled")
        self.waits = value in ("pending", "held")


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload's decided home. `generation` rises with every new decision; an agent never goes back."""

    workload: str
    generation: int
    cluster: str
    pool: str
    class_name: str
    mode: ShareMode
    capacity: Capacity
    replicas: int
    decided_s: Instant
    start_s: Instant = 0.0
    bill: Bill = Bill()


class WorkloadStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`done_s` is finished work in seconds on the first accepted class, safe up to the last checkpoint.

    `saved_s` is when its pods said that they kept it (zero: none yet), None while it is counted by the clock.
    `leaving_s` is set when a placement was taken back and its cluster has not yet confirmed that nothing of it is
    left; only then may the workload get another home. Money and carbon are accrued up to `billed_until_s`, so that
    no hour is paid twice whatever is repeated. `*_before` counts the requests served in earlier homes, `waiting` is
    how many stood in its queues at the last look; None is unknown, which is not the same as none. `look_again_s` is
    until when a hold stands without being asked again.

    A move: `incoming` is a serving's next home while it warms up beside the present one; `moving_to` is where a
    training goes once it has left; `moved_s` is when the last move began. `foretold` is what was said of its start
    and end, at most once while it waited and once while it ran, so that ranges learn from what came of it.
    """

    phase: Phase = Phase.PENDING
    submitted_s: Instant = 0.0
    placement: Placement | None = None
    generation: int = 0
    leaving_s: Instant | None = None
    held: tuple[Verdict, ...] = ()
    look_again_s: Instant | None = None
    started_s: Instant | None = None
    finished_s: Instant | None = None
    done_s: Seconds = 0.0
    saved_s: Instant | None = None
    restarts: int = 0
    ready: int = 0
    billed_until_s: Instant = 0.0
    spent_micros: Micros = 0
    carbon_g: Grams = 0.0
    requests: int | None = None
    requests_good: int | None = None
    waiting: int | None = None
    requests_before: int | None = None
    requests_good_before: int | None = None
    message: str = ""
    incoming: Placement | None = None
    moving_to: str = ""
    moved_s: Instant | None = None
    foretold: tuple[Foretold, ...] = ()


class WorkloadRecord(msgspec.Struct, frozen=True):
    """`uid` tells two workloads of the same name apart; `version` is the record's ETag.

    `eta` is worked out for those who ask, never kept.
    """

    uid: str
    spec: Workload
    status: WorkloadStatus
    version: int = 1
    eta: Eta | None = None

    @property
    def name(self) -> str:
        return self.spec.name
