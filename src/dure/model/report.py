"""What passes between the plane and an agent: desired placements down, the cluster's whole view up.

Both are levels, not edges: counters are cumulative and a message may be lost, late or come twice.
"""

from __future__ import annotations

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.cluster import Slice, VNodePool
from dure.model.decision import Decision
from dure.model.defrag import DefragAnswer
from dure.model.pulse import Pulse
from dure.model.spell import PoolSpells
from dure.model.tenant import Isolation
from dure.model.units import Instant, Seconds
from dure.model.workload import Placement, Workload


class Desired(msgspec.Struct, frozen=True):
    """What should run on one cluster: the workload, its decided home, and the work that is already done."""

    uid: str
    spec: Workload
    placement: Placement
    done_s: Seconds = 0.0
    isolation: Isolation = Isolation.SHARED


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cluster knows of one workload. `lost` says why its pods went away before they were done.

    `done_s` is work finished under this generation's placement and safe (checkpointed, or the pod succeeded),
    in seconds on the first accepted class, what was done before included. `saved_s` is when its pods say that they
    kept the last checkpoint (zero: none yet); None where they say nothing and safe work is counted by the clock.
    `requests` are those answered, `waiting` those in the queues of its engines at this moment; None where nobody can
    count them, `pulse` where engines show none.
    """

    uid: str
    workload: str
    generation: int
    pods: int = 0
    bound: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    started_s: Instant | None = None
    finished_s: Instant | None = None
    done_s: Seconds = 0.0
    saved_s: Instant | None = None
    requests: int | None = None
    requests_good: int | None = None
    waiting: int | None = None
    lost: str = ""
    message: str = ""
    pulse: Pulse | None = None


class Held(msgspec.Struct, frozen=True):
    """One slice of a device and who holds it, for people who look at the fleet."""

    slice: Slice
    pod: str
    workload: str
    tenant: str


class DeviceView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device as the dashboard draws it. The plane never decides on these."""

    id: str
    node: str
    pool: str
    class_name: str
    mode: ShareMode
    healthy: bool = True
    node_phase: str = "ready"
    cluster: str = ""
    held: tuple[Held, ...] = ()


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent's whole view at one moment, and what it decided since its last report.

    `told_s` is when these decisions were told first: a report that repeats them, because nobody answered, has the
    same, so that they count once. `defrag` is its answer to the newest wish it has heard, for as long as it knows of
    it. `spells` is what was seen of its spot pools; an older agent says nothing of it.
    """

    cluster: str
    at_s: Instant
    version: str
    pools: tuple[VNodePool, ...]
    observed: tuple[Observed, ...]
    devices: tuple[DeviceView, ...] = ()
    decisions: tuple[Decision, ...] = ()
    defrag: DefragAnswer | None = None
    told_s: Instant = 0.0
    spells: tuple[PoolSpells, ...] = ()
