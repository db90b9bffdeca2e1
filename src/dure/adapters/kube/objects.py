"""The few fields of Kubernetes objects that Dure reads. Everything else is skipped while decoding."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from dure.model.units import Instant


class Owner(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: datetime.datetime | None = None
    deletion_timestamp: datetime.datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime.datetime | None = None


class NodeTaint(msgspec.Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class KubeNode(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""


class PodToleration(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodClaim(msgspec.Struct, frozen=True, rename="camel"):
    """In a spec: where the claim comes from. In a status: what it is called."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    node_selector: dict[str, str] = {}
    tolerations: tuple[PodToleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    affinity: dict[str, Any] = {}
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    preemption_policy: str = ""
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_gates: tuple[dict[str, str], ...] = ()
    overhead: dict[str, str] = {}


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    finished_at: datetime.datetime | None = None
    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime.datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaim, ...] = ()


class KubePod(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[Condition, ...] = ()
    completion_time: datetime.datetime | None = None
    succeeded: int = 0
    failed: int = 0


class KubeJob(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    status: JobStatus = JobStatus()


class KubePlacement(msgspec.Struct, frozen=True):
    """`spec.desired` and `status` are decoded where they are used."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class BudgetSpec(msgspec.Struct, frozen=True):
    selector: dict[str, Any] | None = None


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class KubeBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Meta = Meta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class QuotaStatus(msgspec.Struct, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class KubeQuota(msgspec.Struct, frozen=True):
    """A ResourceQuota."""

    metadata: Meta = Meta()
    status: QuotaStatus = QuotaStatus()


class KubePriority(msgspec.Struct, frozen=True):
    """A PriorityClass."""

    metadata: Meta = Meta()
    value: int = 0


class DeploymentSpec(msgspec.Struct, frozen=True):
    replicas: int = 1


class KubeDeployment(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: DeploymentSpec = DeploymentSpec()


class Plain(msgspec.Struct, frozen=True):
    """Any object of which only the metadata matter."""

    metadata: Meta = Meta()


def instant(moment: datetime.datetime | None) -> Instant | None:
    return moment.timestamp() if moment is not None else None


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    return next((one for one in conditions if one.type == kind), None)
