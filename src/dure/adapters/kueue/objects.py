"""The few fields of Kueue's objects that routing reads, in both served versions (v1beta2, v1beta1)."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from dure.adapters.kube.objects import Condition, Meta

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")


class Quota(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    nominal_quota: str | int = "0"
    borrowing_limit: str | int | None = None
    lending_limit: str | int | None = None


class FlavorQuotas(msgspec.Struct, frozen=True):
    name: str = ""
    resources: tuple[Quota, ...] = ()


class ResourceGroup(msgspec.Struct, frozen=True):
    flavors: tuple[FlavorQuotas, ...] = ()


class Preemption(msgspec.Struct, frozen=True, rename="camel"):
    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"


class QueueSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`cohort` is the name that v1beta1 has for `cohortName`."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    cohort: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    preemption: Preemption = Preemption()


class Used(msgspec.Struct, frozen=True):
    name: str = ""
    total: str | int = "0"
    borrowed: str | int = "0"


class FlavorUsage(msgspec.Struct, frozen=True):
    name: str = ""
    resources: tuple[Used, ...] = ()


class QueueStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0


class ClusterQueue(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class LocalQueueSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_queue: str = ""
    stop_policy: str = "None"


class LocalQueue(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


class Other(msgspec.Struct, frozen=True):
    """A Cohort, ResourceFlavor or MultiKueueCluster: handed on as it is."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class PodTemplate(msgspec.Struct, frozen=True):
    spec: dict[str, Any] = {}


class PodSet(msgspec.Struct, frozen=True):
    count: int = 1
    template: PodTemplate = PodTemplate()


class ClassRef(msgspec.Struct, frozen=True):
    name: str = ""


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`priorityClassName` is what v1beta1 has for `priorityClassRef`."""

    queue_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    priority: int = 0
    active: bool = True
    priority_class_ref: ClassRef = ClassRef()
    priority_class_name: str = ""

    @property
    def class_name(self) -> str:
        return self.priority_class_ref.name or self.priority_class_name


class Admission(msgspec.Struct, frozen=True, rename="camel"):
    cluster_queue: str = ""


class CheckState(msgspec.Struct, frozen=True):
    name: str = ""
    state: str = ""


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    admission_checks: tuple[CheckState, ...] = ()
    nominated_cluster_names: tuple[str, ...] = ()
    cluster_name: str | None = None


class Workload(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def since(self, kind: str) -> datetime.datetime | None:
        """When this condition became true, if it is."""
        for one in self.status.conditions:
            if one.type == kind and one.status == "True":
                return one.last_transition_time
        return None

    def has(self, kind: str) -> bool:
        return any(one.type == kind and one.status == "True" for one in self.status.conditions)

    @property
    def job(self) -> str:
        return next((one.name for one in self.metadata.owner_references if one.kind == "Job"), self.metadata.name)


class JobSpec(msgspec.Struct, frozen=True):
    suspend: bool = False


class JobState(msgspec.Struct, frozen=True, rename="camel"):
    start_time: datetime.datetime | None = None
    completion_time: datetime.datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """A Job with a queue, as the gateway follows it."""

    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobState = JobState()
