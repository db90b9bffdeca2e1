"""`ClusterPort` on a real API server.

The agent calls it. Reads come from mirrors of nodes, pods, Jobs and Placements; every write may be repeated. What
must survive is in the cluster's etcd: placements and promised seats in `Placement`, held slices on the pods
themselves. The locks guard only memory; no call to the server is made under them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from dure.adapters.kube import claims, crds, lease, manifests, names
from dure.adapters.kube.cutting import cut_node
from dure.adapters.kube.dra import Devices
from dure.adapters.kube.dra_objects import KubeClaim, KubeClass, KubeSlice
from dure.adapters.kube.instances import with_instances
from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.objects import (
    KubeBudget,
    KubeDeployment,
    KubeJob,
    KubeNode,
    KubePlacement,
    KubePod,
    KubePriority,
    KubeQuota,
    Plain,
)
from dure.adapters.kube.progress import desired_of, observed
from dure.adapters.kube.quotas import shortage
from dure.adapters.kube.rest import STRATEGIC, Api
from dure.adapters.kube.seats import Seat, reservation, reserved_of
from dure.adapters.kube.upkeep import Upkeep
from dure.adapters.kube.view import View
from dure.adapters.legality import check_binds, check_mode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, VNodePool
from dure.model.decision import Bind, Evict, Resize
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Temporary
from dure.model.fleet import ClusterSpec
from dure.model.report import Desired, Observed
from dure.model.units import Instant, Seconds
from dure.ports import Clock

Json = dict[str, Any]
SYNC_S = 60.0

_log = structlog.get_logger("dure.kube")


class KubeCluster:
    """Call `start` first; `catalogue` is the given one with classes for the instances a device plugin offers."""

    def __init__(self, spec: ClusterSpec, catalogue: Catalogue, api: Api, clock: Clock) -> None:
        self.spec = spec
        self.api = api
        self.catalogue = with_instances(catalogue)
        self.changed = threading.Event()
        self.nodes = Mirror(api, "/api/v1/nodes", KubeNode, self._note_change)
        self.pods = Mirror(api, "/api/v1/pods", KubePod, self._note_change)
        self.jobs = Mirror(api, "/apis/batch/v1/jobs", KubeJob, self._note_change, names.UID)
        self.deployments = Mirror(api, "/apis/apps/v1/deployments", KubeDeployment, self._note_change, names.UID)
        self.placements = Mirror(
            api, f"/apis/{names.API_VERSION}/{crds.PLACEMENTS}", KubePlacement, self._note_change
        )
        self.budgets = Mirror(
            api, "/apis/policy/v1/poddisruptionbudgets", KubeBudget, self._note_change, optional=True
        )
        self.priorities = Mirror(
            api, "/apis/scheduling.k8s.io/v1/priorityclasses", KubePriority, self._note_change, optional=True
        )
        self.namespaces = Mirror(api, "/api/v1/namespaces", Plain, self._note_change, names.TENANT)
        self.quotas = Mirror(api, "/api/v1/resourcequotas", KubeQuota, self._note_change, optional=True)
        self.slices = Mirror(api, f"{claims.PATH}/resourceslices", KubeSlice, self._note_change, optional=True)
        self.claims = Mirror(api, f"{claims.PATH}/resourceclaims", KubeClaim, self._note_change, optional=True)
        self.classes = Mirror(api, f"{claims.PATH}/deviceclasses", KubeClass, self._note_change, optional=True)
        self._clock = clock
        self.lock = threading.RLock()
        self._changes = 1
        self._built = 0
        self._view = View(spec.pools, self.catalogue)
        self._promised: dict[str, Seat] = {}
        self._unsure: set[str] = set()
        self._installed = False
        # Set by whoever elects a leader: what binds and evictions say of their term of office.
        self.token: Callable[[], str] = lambda: ""
        self._upkeep = Upkeep(self)

    @property
    def name(self) -> str:
        return self.spec.info.name

    @property
    def _mirrors(self) -> tuple[Mirror[Any], ...]:
        own = (self.nodes, self.pods, self.jobs, self.deployments, self.placements, self.namespaces)
        return (*own, self.budgets, self.priorities, self.quotas, self.slices, self.claims, self.classes)

    def begin(self) -> None:
        """Begin to watch; until the first lists are here every cycle is `Temporary`."""
        for mirror in self._mirrors:
            mirror.start()

    def start(self, timeout_s: Seconds = SYNC_S) -> None:
        """Begin to watch and return when the first lists are here."""
        self.begin()
        for mirror in self._mirrors:
            mirror.wait_synced(timeout_s)

    def catch_up(self, timeout_s: Seconds = SYNC_S) -> None:
        """List everything anew: who takes over must see the last thing that was done before."""
        self._install()
        for mirror in self._mirrors:
            mirror.refresh()
        for mirror in self._mirrors:
            mirror.wait_synced(timeout_s)

    def claim(self) -> dict[str, str]:
        """The annotation that names this agent's term of office; none where nobody is elected."""
        token = self.token()
        return {names.LEADER: token} if token else {}

    def stop(self) -> None:
        for mirror in self._mirrors:
            mirror.stop()
        for mirror in self._mirrors:
            mirror.join()
        self.api.close()

    def tend(self) -> None:
        self._install()
        for mirror in self._mirrors:
            mirror.wait_synced(0.0)
        self._resolve_unsure()
        self._release_claims()
        self._upkeep.tend()

    def fetch_state(self) -> ClusterState:
        self._resolve_unsure()
        with self.lock:
            view = self.view()
            return ClusterState(
                cluster=self.name,
                now_s=self._clock.now(),
                version=str(view.version),
                nodes=tuple(view.nodes.values()),
                pods=tuple(view.pods.values()),
                budgets=view.budgets,
            )

    def fetch_observed(self) -> tuple[Observed, ...]:
        with self.lock:
            by_uid = self.pods_by_uid()
        found = []
        for uid, placement in sorted(self.placements_by_uid().items()):
            desired = desired_of(placement)
            seen = self._observed(placement, desired, by_uid.get(uid, ()))
            found.append(self._with_quota(placement, desired, seen))
        return tuple(found)

    def _observed(self, placement: KubePlacement, desired: Desired, pods: Sequence[Pod]) -> Observed:
        job = self.jobs.get(f"{placement.metadata.namespace}/{manifests.job_name(desired)}")
        return observed(placement, desired, pods, job, self._clock.now())

    def _with_quota(self, placement: KubePlacement, desired: Desired, seen: Observed) -> Observed:
        """Pods that are missing for want of quota are not there to say so themselves."""
        quotas = self.quotas.objects().values()
        if not quotas or seen.message or seen.finished_s is not None or seen.pods >= manifests.replicas_of(desired):
            return seen
        message = shortage(quotas, placement.metadata.namespace, self._upkeep.ask(desired).resources)
        return replace(seen, message=message) if message else seen

    def apply(self, desired: Desired) -> None:
        if not any(pool.name == desired.placement.pool for pool in self.spec.pools):
            raise InvalidInput(f"cluster {self.name} has no pool '{desired.placement.pool}'")
        before = self.placements_by_uid().get(desired.uid)
        if before is not None and int(before.spec["generation"]) >= desired.placement.generation:
            return
        if before is not None:
            # A checkpoint that lies here is as good as the plane's word, which may be hours old.
            seen = self._observed(before, desired_of(before), self.pods_by_uid().get(desired.uid, ()))
            desired = replace(desired, done_s=max(desired.done_s, seen.done_s))
        self._upkeep.ensure_namespace(desired.spec.tenant)
        path = crds.placement_path(names.namespace_of(desired.spec.tenant), manifests.placement_name(desired))
        try:
            written = self.api.apply(path, manifests.placement(desired), KubePlacement)
        except InvalidInput as error:
            if "older generation" in error.message:
                return
            raise
        self.placements.note(written)
        self._upkeep.tend_one(written)

    def delete(self, uid: str) -> None:
        """In the foreground: the Placement, and so the workload, is seen here until its last pod is gone."""
        placement = self.placements_by_uid().get(uid)
        if placement is None or placement.metadata.deletion_timestamp is not None:
            return
        path = crds.placement_path(placement.metadata.namespace, placement.metadata.name)
        self.api.delete(path, propagation="Foreground", uid=placement.metadata.uid)
        with contextlib.suppress(NotFound):
            self.placements.note(self.api.get(path, KubePlacement))

    def bind(self, binds: Sequence[Bind]) -> None:
        """Check, promise, write a gang's seats down, then bind one by one."""
        with self.lock:
            pods = self._promise(binds)
        gang = any(pod.gang > 1 for pod in pods)
        try:
            if gang:
                self._reserve(pods, binds)
        except DureError:
            self._take_back([bind.pod for bind in binds])
            raise
        refused: DureError | None = None
        for bind in binds:
            try:
                self.bind_pod(bind.pod, Seat(bind.node, bind.slices, bind.claims))
            except (Conflict, NotFound, Temporary) as error:
                refused = refused or error
                _log.info("a bind was refused", pod=bind.pod, error=str(error))
        # A gang's seats are written down: upkeep binds whoever sits there in the end.
        if refused is not None and not gang:
            raise refused

    def bind_pod(self, name: str, seat: Seat) -> None:
        """One Binding, which writes the slices onto the pod in the same transaction. Bound there already is fine."""
        found = self.pods.get(name)
        if found is None:
            self._take_back([name])
            raise Conflict(f"pod {name} is gone")
        namespace, _, pod = name.rpartition("/")
        annotations = {names.SLICE: msgspec.json.encode(seat.slices).decode(), **self.claim()}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace, "uid": found.metadata.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": seat.node},
        }
        with self.lock:
            self._promised[name] = seat
        try:
            if seat.claims:
                claims.reserve(self.api, self.claims, self.classes.objects(), found, seat.node, seat.claims)
            self.api.send(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)
        except Temporary:
            # It may have been done: nobody else gets the seat until the server has been asked.
            with self.lock:
                self._unsure.add(name)
            raise
        except DureError as error:
            # Refused for good or for now: it must not cost the others their turn, nor keep a seat that nobody gets.
            self._look_again(name)
            now = self.pods.get(name)
            if now is not None and now.spec.node_name == seat.node:
                return
            if not isinstance(error, (Conflict, NotFound)):
                _log.warning("the server does not take a bind", pod=name, error=str(error))
            raise Conflict(f"pod {name} cannot be bound: {error.message}") from error

    def evict(self, evicts: Sequence[Evict]) -> None:
        """Through the Eviction API, so that PodDisruptionBudgets are asked; a gang leaves as one."""
        with self.lock:
            view = self.view()
            held = {one.pod: view.pods.get(one.pod) for one in evicts}
        for one in evicts:
            pod = held[one.pod]
            if pod is None or pod.uid != one.uid or not pod.holds or pod.leaving:
                continue
            self._upkeep.evict(pod, one.reason)

    def resize(self, resizes: Sequence[Resize]) -> None:
        for wish in resizes:
            with self.lock:
                view = self.view()
                node = view.nodes.get(wish.node)
                device = next((one for one in node.devices if one.id == wish.device), None) if node else None
                if node is None or device is None:
                    raise Conflict(f"device {wish.device} of node {wish.node} is gone")
                check_mode(node, device, wish.mode, view.holding(node.name))
                busy = bool(view.holding(node.name))
            if device.mode is not wish.mode:
                self.nodes.note(cut_node(self.api, self.nodes.get(wish.node), wish, busy, self._clock))
                # Its devices may be others now: what is bound next is checked against those.
                self.view()

    def explain(self, pod: str, message: str) -> None:
        """A condition that kubectl and autoscalers read, and an event for people."""
        found = self.pods.get(pod)
        if found is None or found.spec.node_name:
            return
        namespace, _, name = pod.rpartition("/")
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message[:2048]}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        try:
            self.pods.note(self.api.patch(path, {"status": {"conditions": [told]}}, KubePod, STRATEGIC))
        except NotFound:
            return
        self._upkeep.tell(found, "FailedScheduling", message)

    def publish(self, pools: tuple[VNodePool, ...]) -> None:
        """Show the pools as objects of their own: `kubectl get vnodepools`."""
        for pool in pools:
            path = f"/apis/{names.API_VERSION}/{crds.POOLS}/{pool.name}"
            self.api.apply(path, manifests.pool(pool), Plain)
            self.api.patch(f"{path}/status", {"status": manifests.pool_status(pool)}, Plain)

    def view(self) -> View:
        """The present view; the caller holds the lock while it reads."""
        with self.lock:
            if self._built != self._changes:
                self._built = self._changes
                pods = self.pods.objects()
                self._promised = {
                    name: seat
                    for name, seat in self._promised.items()
                    if name in self._unsure or (name in pods and not pods[name].spec.node_name)
                }
                self._view.rebuild(
                    self.nodes.objects(),
                    pods,
                    self.placements_by_uid(),
                    self._promised,
                    self.budgets.objects(),
                    Devices(self.slices.objects(), self.claims.objects(), self.classes.objects()),
                )
            return self._view

    def pods_by_uid(self) -> dict[str, list[Pod]]:
        """Pods of every workload that are not on their way out."""
        with self.lock:
            return self.view().staying()

    def placements_by_uid(self) -> dict[str, KubePlacement]:
        return {str(one.spec.get("uid")): one for one in self.placements.objects().values()}

    def write_status(self, placement: KubePlacement, changes: Json) -> None:
        self._upkeep.write_status(placement, changes)

    def now(self) -> Instant:
        return self._clock.now()

    def _install(self) -> None:
        if not self._installed:
            self._installed = install(self.api)

    def _note_change(self) -> None:
        with self.lock:
            self._changes += 1
        self.changed.set()

    def _promise(self, binds: Sequence[Bind]) -> list[Pod]:
        """Seats for all, or `Conflict`. Hundreds come at once, so the view at hand is used as long as it says yes."""
        view = self._view
        try:
            check_binds(view, self.catalogue, binds)
        except Conflict:
            view = self.view()
            check_binds(view, self.catalogue, binds)
        pods = [view.pods[bind.pod] for bind in binds]
        for bind in binds:
            self._promised[bind.pod] = Seat(bind.node, bind.slices, bind.claims)
            view.seat(bind.pod, self._promised[bind.pod])
        return pods

    def _reserve(self, pods: Sequence[Pod], binds: Sequence[Bind]) -> None:
        placement = self.placements_by_uid().get(pods[0].uid)
        if placement is None:
            raise Conflict(f"{pods[0].workload} has no placement here any more")
        generation = int(placement.spec["generation"])
        seats = {pod.index: Seat(bind.node, bind.slices, bind.claims) for pod, bind in zip(pods, binds, strict=True)}
        self._upkeep.write_status(
            placement, {"reserved": reservation(generation, {**reserved_of(placement), **seats})}
        )

    def _take_back(self, pods: Sequence[str]) -> None:
        with self.lock:
            for pod in pods:
                self._promised.pop(pod, None)
            self._note_change()

    def _look_again(self, name: str) -> None:
        """Ask the server about one pod and forget what was promised to it."""
        namespace, _, pod = name.rpartition("/")
        try:
            self.pods.note(self.api.get(f"/api/v1/namespaces/{namespace}/pods/{pod}", KubePod))
        except NotFound:
            self.pods.forget(name)
        with self.lock:
            self._unsure.discard(name)
            found = self.pods.get(name)
            if found is None or not found.spec.node_name:
                self._promised.pop(name, None)
            self._note_change()

    def _release_claims(self) -> None:
        """Devices that were allotted to a pod whose bind was not made after all."""
        if not self.claims.objects():
            return
        with self.lock:
            pending = [pod for pod in self.pods.objects().values() if not pod.spec.node_name]
            waiting = [pod for pod in pending if pod.metadata.key not in self._promised]
        mine = [pod for pod in waiting if pod.spec.scheduler_name == names.SCHEDULER]
        with contextlib.suppress(Conflict, NotFound):
            claims.release(self.api, self.claims, mine)

    def _resolve_unsure(self) -> None:
        for name in sorted(self._unsure):
            self._look_again(name)


def install(api: Api) -> bool:
    """Make the custom resource definitions what this version needs, and the policies that fence old leaders.

    They are in force a moment later. An agent that may not do that lives with what `dure render agent` has brought,
    and one whose server knows no such policies with its own checks.
    """
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    wanted = [(f"{definitions}/{one['metadata']['name']}", one) for one in crds.definitions()]
    wanted += [(lease.path_of(one), one) for one in lease.fence()]
    for path, body in wanted:
        try:
            api.apply(path, body, Plain)
        except (NotAllowed, NotFound):
            break
    return True
