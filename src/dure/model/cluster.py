"""Devices, nodes and pods as an agent sees them; clusters and pools as the plane sees them.

The plane sees pools, never nodes; an agent maps pools to nodes. That is what lets `place` grow to many
clusters. What is free is never stored: it follows from the pods that are bound.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.affinity import NO_RULES, Rules
from dure.model.claim import Allotted, Claim
from dure.model.demand import Demand
from dure.model.once import once
from dure.model.tariff import Capacity
from dure.model.tenant import Isolation
from dure.model.units import Instant, MiB, Milli, Seconds
from dure.model.workload import WorkloadType


class Slice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of one device held by a pod. `start` and `slots` place it on the memory axis (MIG, vNPU)."""

    device: str
    mode: ShareMode
    profile: str = ""
    start: int = 0
    slots: int = 0
    memory_mib: MiB = 0
    compute_milli: Milli = 0
    bandwidth_milli: Milli = 0


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """`mode` is how the device is cut now; it changes only while no tenant of another mode is on it."""

    id: str
    class_name: str
    mode: ShareMode = ShareMode.EXCLUSIVE
    link_group: int = 0
    healthy: bool = True


class Taint(msgspec.Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    """An empty key tolerates everything, as in Kubernetes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        return self.key == taint.key and (self.operator == "Exists" or self.value == taint.value)


class NodePhase(enum.StrEnum):
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """`cpu_milli` and `memory_mib` are what pods may ask for (allocatable); `offers` the devices to be claimed."""

    name: str
    pool: str
    devices: tuple[Device, ...]
    cpu_milli: Milli
    memory_mib: MiB
    capacity: Capacity = Capacity.OWNED
    share: tuple[ShareMode, ...] = (ShareMode.EXCLUSIVE,)
    phase: NodePhase = NodePhase.READY
    zone: str = ""
    rack: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    reclaim_at_s: Instant | None = None
    offers: tuple[str, ...] = ()

    def domain(self, topology: str) -> str | None:
        """Which domain of a topology the node is in: the value of its label, also where only the fields say it."""
        found = self.labels.get(topology)
        if found is not None:
            return found
        return {"kubernetes.io/hostname": self.name, "topology.kubernetes.io/zone": self.zone}.get(topology) or None


class PodPhase(enum.StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in _ENDED


# Asked for every pod in every turn of an agent.
_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """One replica. Bound when `node` is set; `slices` then says what it holds of which devices.

    `leaving`: it was told to go and holds its slices until it is gone. `preempts` is false for a pod that may wait
    before others but never push one out. `budgets` names the disruption budgets that it falls under. `allotted` are
    the devices that its `claims` hold; a pod with claims and without `classes` wants no other device. `saved_s` is
    when it kept its last checkpoint by its own word (zero: none yet), None where it says nothing.
    """

    name: str
    uid: str
    tenant: str
    type: WorkloadType
    demand: Demand
    classes: tuple[str, ...]
    workload: str = ""
    generation: int = 0
    pool: str = ""
    gang: int = 1
    index: int = 0
    priority: int = 0
    share: tuple[ShareMode, ...] = ()
    model: str = ""
    interruptible: bool = False
    isolation: Isolation = Isolation.SHARED
    checkpoint_s: Seconds = 0.0
    saved_s: Instant | None = None
    selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    phase: PodPhase = PodPhase.PENDING
    node: str = ""
    slices: tuple[Slice, ...] = ()
    created_s: Instant = 0.0
    started_s: Instant | None = None
    finished_s: Instant | None = None
    message: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    rules: Rules = NO_RULES
    leaving: bool = False
    preempts: bool = True
    budgets: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    allotted: tuple[Allotted, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the pod occupies its slices now."""
        return bool(self.node) and not self.phase.ended

    def unsaved_s(self, now_s: Instant) -> Seconds:
        """For how long it has worked since its last checkpoint; by the clock where it does not say when that was."""
        if self.started_s is None:
            return 0.0
        ran_s = max(0.0, now_s - self.started_s)
        if self.saved_s is not None:
            return min(ran_s, max(0.0, now_s - self.saved_s))
        return ran_s % self.checkpoint_s if self.checkpoint_s > 0 else ran_s


class ClusterState(msgspec.Struct, frozen=True):
    """One consistent look at a member cluster, as `pack` takes it.

    `budgets` says of each disruption budget how many of its pods may be taken away now.
    """

    cluster: str
    now_s: Instant
    version: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: dict[str, int] = {}


@once
def holders(state: ClusterState) -> dict[str, list[Pod]]:
    """By node, the pods that occupy something there, in the state's order; made once for all who look."""
    found: dict[str, list[Pod]] = {}
    for pod in state.pods:
        if pod.node and pod.phase not in _ENDED:
            found.setdefault(pod.node, []).append(pod)
    return found


class VNodePool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class of virtual nodes: what the plane may know of many real ones.

    `free_whole` lists the wholly free devices of each node, largest first; `largest_*` are the best a
    single shared device can still give; `slices` counts what still fits by profile name.
    """

    cluster: str
    name: str
    class_name: str
    capacity: Capacity
    share: tuple[ShareMode, ...] = (ShareMode.EXCLUSIVE,)
    nodes: int = 0
    nodes_ready: int = 0
    nodes_max: int = 0
    devices_per_node: int = 0
    devices: int = 0
    free_whole: tuple[int, ...] = ()
    free_milli: Milli = 0
    largest_memory_mib: MiB = 0
    largest_compute_milli: Milli = 0
    largest_bandwidth_milli: Milli = 0
    free_cpu_milli: Milli = 0
    free_host_memory_mib: MiB = 0
    largest_cpu_milli: Milli = 0
    largest_host_memory_mib: MiB = 0
    slices: dict[str, int] = {}
    boot_s: Seconds = 0.0
    warm: dict[str, int] = {}

    @property
    def free_devices(self) -> int:
        return sum(self.free_whole)


class ClusterInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What does not change by the second: where a cluster is and how it is reached."""

    name: str
    region: str = ""
    timezone: str = "UTC"
    grid: str = ""
    pue: float = 1.0
    reachable: bool = True
    observed_s: Instant = 0.0
    datasets: tuple[str, ...] = ()
    edge: bool = False
    latency_ms: float = 0.0
    metered_micros_per_gib: int = 0
