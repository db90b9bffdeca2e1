"""What has to happen to placements over time: objects made, gangs bound to the end, losses noted, status told.

Called by `cluster` at the start of every cycle and after a write. Level-triggered: it looks at what is there, does
the next step of each placement and may be killed after any line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from dure.adapters.kube import crds, manifests, names
from dure.adapters.kube.nodes import is_cut, replicas_of
from dure.adapters.kube.objects import KubeDeployment, KubeJob, KubePlacement, KubePod, Plain
from dure.adapters.kube.progress import desired_of, observed, status_of
from dure.adapters.kube.seats import reserved_of
from dure.model.accelerator import ShareMode
from dure.model.cluster import Pod, PodPhase
from dure.model.errors import Conflict, DureError, NotAllowed, NotFound, Temporary
from dure.model.reason import Verdict
from dure.model.report import Desired
from dure.model.workload import WorkloadType

if TYPE_CHECKING:
    from dure.adapters.kube.cluster import KubeCluster

Json = dict[str, Any]
_FRESH: Json = {"startedSeconds": None, "finishedSeconds": None, "reserved": None, "lost": "", "lostGeneration": 0}

_log = structlog.get_logger("dure.kube")


class Upkeep:
    def __init__(self, cluster: KubeCluster) -> None:
        self._cluster = cluster

    def tend(self) -> None:
        for placement in self._cluster.placements.objects().values():
            try:
                self.tend_one(placement)
            except Temporary:
                raise
            except DureError as error:
                _log.warning("a placement is tended later", placement=placement.metadata.key, error=str(error))

    def tend_one(self, placement: KubePlacement) -> None:
        if placement.metadata.deletion_timestamp is not None:
            return
        desired = desired_of(placement)
        generation = desired.placement.generation
        if placement.status.get("lostGeneration") == generation:
            self._delete_jobs(desired, up_to=generation)
        elif placement.status.get("remake") == generation:
            self._remake(placement, desired)
        elif int(placement.status.get("applied", 0)) < generation:
            self._make(placement, desired)
        elif desired.spec.type is WorkloadType.SERVING:
            self._keep_serving(placement, desired)
        else:
            self._look_after(placement, desired)
        self._tell(placement.metadata.key)

    def ensure_namespace(self, tenant: str) -> None:
        """Made when it is missing, also again when somebody has deleted it."""
        name, namespaces = names.namespace_of(tenant), self._cluster.namespaces
        if namespaces.get(name) is None:
            namespaces.note(self._cluster.api.apply(f"/api/v1/namespaces/{name}", manifests.namespace(tenant), Plain))

    def write_status(self, placement: KubePlacement, changes: Json) -> KubePlacement:
        path = crds.placement_path(placement.metadata.namespace, placement.metadata.name, "status")
        written = self._cluster.api.patch(path, {"status": changes}, KubePlacement)
        self._cluster.placements.note(written)
        return written

    def evict(self, pod: Pod, reason: Verdict) -> None:
        """A budget that says no is no error: the pod stays and is asked again when it still must go."""
        namespace, _, name = pod.name.rpartition("/")
        found = self._cluster.pods.get(pod.name)
        if found is None:
            return
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace, "annotations": self._cluster.claim()},
            "deleteOptions": {"preconditions": {"uid": found.metadata.uid}},
        }
        try:
            self._cluster.api.send(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        except NotFound:
            return
        except Temporary as error:
            _log.info("the eviction was refused", pod=pod.name, error=str(error))
            return
        self.tell(found, "Preempted", reason.sentence)
        placement = self._cluster.placements_by_uid().get(pod.uid)
        if placement is not None and pod.type is not WorkloadType.SERVING:
            self._lose(placement, desired_of(placement), _why(reason))

    def tell(self, pod: KubePod, reason: str, message: str) -> None:
        """An event on the pod; one that cannot be written is not worth an error."""
        meta = pod.metadata
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta.name[:200]}.", "namespace": meta.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": names.SCHEDULER},
            "reportingComponent": names.SCHEDULER,
            "count": 1,
        }
        try:
            self._cluster.api.send(f"/api/v1/namespaces/{meta.namespace}/events", body)
        except (NotFound, Conflict, NotAllowed, Temporary) as error:
            _log.info("no event written", pod=meta.key, error=str(error))

    def _make(self, placement: KubePlacement, desired: Desired) -> None:
        """The objects of this generation, once nothing of an earlier one runs any more."""
        cluster, generation = self._cluster, desired.placement.generation
        if desired.spec.type is WorkloadType.SERVING:
            self._apply_serving(placement, desired)
        else:
            self._delete_jobs(desired, up_to=generation - 1)
            if self._older_pods(desired):
                return
            namespace, name = placement.metadata.namespace, manifests.job_name(desired)
            job = cluster.jobs.get(f"{namespace}/{name}")
            if job is None:
                body = manifests.job(desired, self._owner(placement), self.ask(desired))
                job = cluster.api.apply(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", body, KubeJob)
                cluster.jobs.note(job)
            # Who was killed before this line finds the Job made, whose template nobody may change, perhaps with pods
            # that have seats.
            fresh = {key: value for key, value in _FRESH.items() if key != "reserved" or not reserved_of(placement)}
            asked = job.metadata.annotations.get(names.ASKED, "")
            self.write_status(placement, {**fresh, "applied": generation, "asked": asked})

    def _remake(self, placement: KubePlacement, desired: Desired) -> None:
        """The same generation anew, with pods that ask for what the nodes now offer. None of the old ones was bound,
        and none is bound any more: the new Job is made when the last of them is gone."""
        generation, label = desired.placement.generation, names.label_value(desired.uid)
        self._delete_jobs(desired, up_to=generation)
        jobs = [one.metadata for one in self._cluster.jobs.objects().values()]
        pods = [one.metadata for one in self._cluster.pods.objects().values()]
        if not any(one.labels.get(names.UID) == label for one in (*jobs, *pods)):
            self.write_status(placement, {"remake": 0, "applied": generation - 1})

    def _asks_anew(self, placement: KubePlacement, desired: Desired) -> bool:
        """Whether nodes were cut in another way after its pods were made, none of which has a seat yet."""
        asked, cluster = placement.status.get("asked"), self._cluster
        if not asked or desired.spec.demand.whole or desired.placement.mode is ShareMode.EXCLUSIVE:
            return False
        if any(pod.node for pod in cluster.pods_by_uid().get(desired.uid, ())):
            return False
        return bool(asked != self.ask(desired).shape)

    def _keep_serving(self, placement: KubePlacement, desired: Desired) -> None:
        """A Deployment that somebody deleted or changed is made again what it should be; the server counts."""
        found = self._cluster.deployments.get(placement.metadata.key)
        if found is not None and found.metadata.deletion_timestamp is not None:
            return
        same = found is not None and found.metadata.generation == placement.status.get("deployed")
        if not same or self._asks_anew(placement, desired):
            self._apply_serving(placement, desired)

    def _apply_serving(self, placement: KubePlacement, desired: Desired) -> None:
        """Rolled by its own controller, the new replicas before the old ones go."""
        api, namespace, name = self._cluster.api, placement.metadata.namespace, placement.metadata.name
        owner = self._owner(placement)
        asked = self.ask(desired)
        body = manifests.deployment(desired, owner, asked, counted=not self._scaled(placement, desired))
        made = api.apply(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", body, KubeDeployment)
        self._cluster.deployments.note(made)
        api.apply(f"/api/v1/namespaces/{namespace}/services/{name}", manifests.service(desired, owner), Plain)
        applied = {"applied": desired.placement.generation, "deployed": made.metadata.generation}
        self.write_status(placement, {**applied, "asked": asked.shape})

    def _scaled(self, placement: KubePlacement, desired: Desired) -> bool:
        """Whether somebody else, the cluster's autoscaler say, has scaled it since, within what the workload allows.

        So it is scaled also while the plane is gone; the plane's next decision sets the number again.
        """
        found = self._cluster.deployments.get(placement.metadata.key)
        if found is None or placement.status.get("applied") != desired.placement.generation:
            return False
        allowed, count = desired.spec.replicas, found.spec.replicas
        return count != manifests.replicas_of(desired) and allowed.min <= count <= allowed.max

    def ask(self, desired: Desired) -> manifests.Ask:
        """What each pod of it asks of its node."""
        cluster = self._cluster
        profile = cluster.catalogue.accelerator(desired.placement.class_name)
        with cluster.lock:
            here = [node.name for node in cluster.view().nodes.values() if node.pool == desired.placement.pool]
        found = [node for name in here if (node := cluster.nodes.get(name)) is not None]
        cut = any(is_cut(node.status.allocatable, profile) for node in found)
        replicas = max((replicas_of(node.metadata.labels) for node in found), default=1)
        asked = manifests.ask(desired, cluster.catalogue, cluster.now(), cut=cut, replicas=replicas)
        return asked._replace(priority_class=self._priority_class(desired.spec.priority))

    def _priority_class(self, priority: int) -> str:
        """The cluster's own name for a priority, so that kubelets and other schedulers see it too."""
        found = self._cluster.priorities.objects().values()
        return min((one.metadata.name for one in found if one.value == priority and priority), default="")

    def _owner(self, placement: KubePlacement) -> Json:
        return manifests.owner_of(placement.metadata.name, placement.metadata.uid)

    def _older_pods(self, desired: Desired) -> bool:
        """Pods of earlier Jobs, those that are still ending among them."""
        job = manifests.job_name(desired)
        label = names.label_value(desired.uid)
        for pod in self._cluster.pods.objects().values():
            mine = pod.metadata.labels.get(names.UID) == label
            if mine and not any(owner.name == job for owner in pod.metadata.owner_references):
                return True
        return False

    def _delete_jobs(self, desired: Desired, *, up_to: int) -> None:
        label = names.label_value(desired.uid)
        kept = manifests.job_name(desired) if up_to < desired.placement.generation else ""
        for job in self._cluster.jobs.objects().values():
            meta = job.metadata
            if meta.labels.get(names.UID) == label and meta.name != kept and meta.deletion_timestamp is None:
                self._cluster.api.delete(f"/apis/batch/v1/namespaces/{meta.namespace}/jobs/{meta.name}", uid=meta.uid)

    def _look_after(self, placement: KubePlacement, desired: Desired) -> None:
        """Bind members whose seats are written down; note a gang that cannot be whole again."""
        if placement.status.get("finishedSeconds") is not None:
            return
        cluster = self._cluster
        job = cluster.jobs.get(f"{placement.metadata.namespace}/{manifests.job_name(desired)}")
        if job is None or job.metadata.deletion_timestamp is not None:
            self._lose(placement, desired, "its Job was deleted by somebody else")
            return
        seats = reserved_of(placement)
        if not seats and self._asks_anew(placement, desired):
            self.write_status(placement, {"remake": desired.placement.generation})
        if not seats:
            return
        with cluster.lock:
            nodes = cluster.view().nodes
            seated = {pod.index: pod for pod in cluster.pods_by_uid().get(desired.uid, ())}
        for index, seat in sorted(seats.items()):
            pod = seated.get(index)
            found = cluster.pods.get(pod.name) if pod is not None else None
            if pod is None or found is None or found.spec.node_name or pod.phase not in _WAITING:
                continue
            if seat.node not in nodes:
                self._lose(placement, desired, f"node {seat.node} is gone")
                return
            cluster.bind_pod(pod.name, seat)

    def _lose(self, placement: KubePlacement, desired: Desired, why: str) -> None:
        """First the note, then the deed: whoever is killed in between finds the note."""
        cluster = self._cluster
        seen = next((one for one in cluster.fetch_observed() if one.uid == desired.uid), None)
        done_s = seen.done_s if seen is not None else desired.done_s
        generation = desired.placement.generation
        note = {"lost": why, "lostGeneration": generation, "doneSeconds": done_s, "reserved": None}
        self.write_status(placement, note)
        self._delete_jobs(desired, up_to=generation)

    def _tell(self, key: str) -> None:
        """The status for people; a server that is away is told later."""
        cluster = self._cluster
        placement = cluster.placements.get(key)
        if placement is None:
            return
        desired = desired_of(placement)
        job = cluster.jobs.get(f"{placement.metadata.namespace}/{manifests.job_name(desired)}")
        pods = cluster.pods_by_uid().get(desired.uid, ())
        seen = observed(placement, desired, pods, job, cluster.now())
        changes = status_of(seen, placement, cluster.now())
        if changes:
            try:
                self.write_status(placement, changes)
            except DureError as error:
                _log.info("status told later", placement=key, error=str(error))


_WAITING = (PodPhase.PENDING, PodPhase.STARTING)


def _why(verdict: Verdict) -> str:
    code = verdict.reason or "Evicted"
    return code if verdict.sentence in (code, "fits") else f"{code}: {verdict.sentence}"
