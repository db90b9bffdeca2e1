"""A cluster's machines for the node planner: what waits, what runs where, and starting, emptying and ending nodes.

Called by `agent.nodes`. New machines are asked for in one of two ways: as Karpenter NodeClaims of a NodePool, whose
provider then boots them, or, in a cluster of KWOK's fake nodes, as the Node objects themselves. What is being stopped
carries the reason as an annotation, so that it goes on after a restart.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from dure.adapters.kube import names
from dure.adapters.kube.rest import Api
from dure.model.errors import Conflict, NotFound, Temporary
from dure.model.quantity import mib, mib_down, milli
from dure.scale.nodes.spot import Guest
from dure.scale.nodes.state import NewNode, Node, Offer, Pod, Size

Json = dict[str, Any]
Maker = Literal["karpenter", "kwok"]

GPU = "nvidia.com/gpu"
POOL = "karpenter.sh/nodepool"
TYPE = "node.kubernetes.io/instance-type"
CAPACITY = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
CLASS = "dure.dev/class"
TEMPLATE = "dure.dev/template"
STOPPING = "dure.dev/stopping"
DRAINING = "dure.dev/draining"
KEEP = "karpenter.sh/do-not-disrupt"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


class Machines:
    """One cluster. A node is known by the offer of its type, capacity and zone; others are not planned with.

    `templates` are the names, by pool, that new machines carry of what they were made from.
    """

    def __init__(
        self, api: Api, offers: Iterable[Offer], maker: Maker, templates: Mapping[str, str] | None = None
    ) -> None:
        self._api = api
        self._offers: dict[tuple[str, str, str], Offer] = {
            (offer.type_name, offer.capacity, offer.zone): offer for offer in offers
        }
        self._maker, self._templates = maker, dict(templates or {})

    def fetch(self) -> tuple[tuple[Pod, ...], tuple[Node, ...]]:
        """Pods that no node holds yet, and the nodes with theirs."""
        there = self._nodes()
        by_node: dict[str, list[Pod]] = {node["metadata"]["name"]: [] for node in there}
        waiting: list[Pod] = []
        for pod in self._api.get("/api/v1/pods", Json)["items"]:
            place = _place(pod)
            if _counts(pod) and place in by_node:
                by_node[place].append(_pod(pod))
            elif _counts(pod) and not pod["spec"].get("nodeName"):
                waiting.append(_pod(pod))
        nodes = [self._node(node, tuple(by_node[node["metadata"]["name"]])) for node in there]
        return tuple(waiting), tuple(node for node in nodes if node is not None)

    def booting(self) -> int:
        """Machines that were asked for and are not nodes yet."""
        if self._maker == "kwok":
            return sum(not _ready(node) for node in self._nodes())
        claims = self._api.get(CLAIMS, Json)["items"]
        return sum(not _condition(claim, "Initialized") for claim in claims)

    def start(self, new: NewNode, instead_of: str = "") -> str:
        """Ask for a machine. The same wish made twice asks for one machine, until that one is there.

        Then it is a new wish: the scheduler has given the room that was bought for these pods to others.
        `instead_of` names the node that it replaces, which may have been made for the very same pods.
        """
        path = CLAIMS if self._maker == "karpenter" else "/api/v1/nodes"
        up = "Initialized" if self._maker == "karpenter" else "Ready"
        for attempt in itertools.count():
            name = _name(new, instead_of, attempt)
            body = self._claim(name, new) if self._maker == "karpenter" else _fake(name, new, self._marks(new))
            try:
                self._api.post(path, body, Json)
            except Conflict:
                if self._is(f"{path}/{name}", up):
                    continue
            return name
        raise AssertionError("there is always another name")

    def _marks(self, new: NewNode) -> dict[str, str]:
        template = self._templates.get(new.pool, "")
        return {POOL: new.pool, TEMPLATE: template} if template else {POOL: new.pool}

    def _is(self, path: str, condition: str) -> bool:
        try:
            return _condition(self._api.get(path, Json), condition)
        except NotFound:
            return False

    def stop(self, node: str, reason: str) -> None:
        """Cordon it and write down why; `empty` and `end` do the rest."""
        body = {"metadata": {"annotations": {STOPPING: reason}}, "spec": {"unschedulable": True}}
        self._api.patch(f"/api/v1/nodes/{node}", body, Json)

    def stopping(self) -> dict[str, str]:
        """Nodes that are on their way out, with the reason."""
        found = ((node["metadata"]["name"], _annotations(node).get(STOPPING)) for node in self._nodes())
        return {name: reason for name, reason in found if reason}

    def notices(self) -> dict[str, float]:
        """Nodes whose end the cloud has announced, with the second at which they go."""
        found = ((node["metadata"]["name"], _annotations(node).get(names.RECLAIM_AT, "")) for node in self._nodes())
        return {name: float(text) for name, text in found if text.replace(".", "", 1).isdigit()}

    def guests(self, node: str) -> tuple[Guest, ...]:
        """Pods on a node as a reclaim sees them: how long each needs to finish, and whether it serves."""
        return tuple(
            Guest(
                _full_name(pod),
                float(pod["spec"].get("terminationGracePeriodSeconds", 30)),
                _owner(pod) == "ReplicaSet",
                int(pod["spec"].get("priority", 0)),
            )
            for pod in self._pods_on(node)
        )

    def mark(self, pod: str) -> None:
        """No new requests for this one: routers leave out what carries the label."""
        namespace, _, name = pod.partition("/")
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            self._api.patch(path, {"metadata": {"labels": {DRAINING: "true"}}}, Json)
        except NotFound:
            return

    def evict(self, pod: str) -> bool:
        """Through the eviction API, so that disruption budgets are kept; False when one says not now."""
        namespace, _, name = pod.partition("/")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            self._api.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body, Json)
        except NotFound:
            return True
        except Temporary:
            return False
        return True

    def end(self, node: str) -> bool:
        """Remove a node that holds nothing any more; with Karpenter its claim, which ends the machine."""
        if self._pods_on(node):
            return False
        try:
            if self._maker == "karpenter":
                for claim in self._api.get(CLAIMS, Json)["items"]:
                    if claim.get("status", {}).get("nodeName") == node:
                        self._api.delete(f"{CLAIMS}/{claim['metadata']['name']}")
            else:
                self._api.delete(f"/api/v1/nodes/{node}")
        except NotFound:
            return True
        return True

    def _nodes(self) -> list[Json]:
        items: list[Json] = self._api.get("/api/v1/nodes", Json)["items"]
        return items

    def _pods_on(self, node: str) -> list[Json]:
        found = self._api.get("/api/v1/pods", Json, fieldSelector=f"spec.nodeName={node}")["items"]
        return [pod for pod in found if _counts(pod)]

    def _node(self, node: Json, pods: tuple[Pod, ...]) -> Node | None:
        labels = node["metadata"].get("labels", {})
        offer = self._offers.get((labels.get(TYPE, ""), labels.get(CAPACITY, "on-demand"), labels.get(ZONE, "")))
        if offer is None:
            return None
        has = node["status"].get("allocatable", {})
        size = (milli(has.get(GPU, "0")), milli(has.get("cpu", "0")), mib_down(has.get("memory", "0")))
        leaving = STOPPING in _annotations(node) or "deletionTimestamp" in node["metadata"]
        cordoned = bool(node["spec"].get("unschedulable"))
        return Node(
            node["metadata"]["name"],
            labels.get(POOL, ""),
            offer,
            size,
            pods,
            ready=_ready(node) and not cordoned,
            deleting=leaving,
            template=labels.get(TEMPLATE, ""),
            started_s=datetime.fromisoformat(node["metadata"]["creationTimestamp"]).timestamp(),
        )

    def _claim(self, name: str, new: NewNode) -> Json:
        """What the pool's template says, narrowed to what was planned."""
        pool = self._api.get(f"/apis/karpenter.sh/v1/nodepools/{new.pool}", Json)
        spec = dict(pool["spec"]["template"]["spec"])
        planned = {TYPE: new.offer.type_name, CAPACITY: new.offer.capacity}
        if new.offer.zone:
            planned[ZONE] = new.offer.zone
        others = [one for one in spec.get("requirements", ()) if one["key"] not in planned]
        wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in planned.items()]
        labels = {**pool["spec"]["template"].get("metadata", {}).get("labels", {}), **self._marks(new)}
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": new.pool, "blockOwnerDeletion": True}
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": name,
                "labels": labels,
                "ownerReferences": [{**owner, "uid": pool["metadata"]["uid"]}],
            },
            "spec": {**spec, "requirements": [*others, *wanted], "resources": {"requests": _requests(new)}},
        }


def _fake(name: str, new: NewNode, marks: dict[str, str]) -> Json:
    """A machine of KWOK: the object is all there is."""
    gpu, cpu, memory = new.offer.size
    has = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "110"} | ({GPU: str(gpu // 1000)} if gpu else {})
    labels = {
        "kubernetes.io/hostname": name,
        "type": "kwok",
        **marks,
        TYPE: new.offer.type_name,
        CAPACITY: new.offer.capacity,
        ZONE: new.offer.zone,
        CLASS: new.offer.gpu_class,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in labels.items() if value},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {},
        "status": {"capacity": has, "allocatable": has},
    }


def _name(new: NewNode, instead_of: str, attempt: int) -> str:
    """From the pods it is for: planned again before its node is there, it is the same machine."""
    pods = sorted(pod.name for pod in new.pods)
    text = " ".join([new.pool, new.offer.type_name, new.offer.capacity, instead_of, *pods, *["again"] * attempt])
    return f"{new.pool}-{hashlib.blake2b(text.encode(), digest_size=5).hexdigest()}"


def _requests(new: NewNode) -> dict[str, str]:
    gpu, cpu, memory = (sum(pod.size[axis] for pod in new.pods) for axis in range(3))
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpu // 1000)} if gpu else {})


def _pod(pod: Json) -> Pod:
    selector = pod["spec"].get("nodeSelector", {})
    return Pod(
        _full_name(pod),
        _size(pod),
        (selector[CLASS],) if CLASS in selector else (),
        (selector[ZONE],) if ZONE in selector else (),
        spot_ok=selector.get(CAPACITY) != "on-demand",
        priority=int(pod["spec"].get("priority", 0)),
        pinned=_annotations(pod).get(KEEP) == "true",
    )


def _size(pod: Json) -> Size:
    gpu = cpu = memory = 0
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        asked = {**resources.get("limits", {}), **resources.get("requests", {})}
        gpu += milli(asked.get(GPU, "0"))
        cpu += milli(asked.get("cpu", "0"))
        memory += mib(asked.get("memory", "0"))
    return gpu, cpu, memory


def _counts(pod: Json) -> bool:
    """A pod that needs a place: not ended, and not a daemon, which comes and goes with its node."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") and _owner(pod) != "DaemonSet"


def _place(pod: Json) -> str:
    """Its node, or the one on which the scheduler makes room for it: who preempts others needs no new machine."""
    return str(pod["spec"].get("nodeName") or pod.get("status", {}).get("nominatedNodeName") or "")


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", ())
    return str(owners[0]["kind"]) if owners else ""


def _full_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _annotations(thing: Json) -> dict[str, str]:
    found: dict[str, str] = thing["metadata"].get("annotations", {})
    return found


def _ready(node: Json) -> bool:
    return _condition(node, "Ready")


def _condition(thing: Json, kind: str) -> bool:
    conditions = thing.get("status", {}).get("conditions", ())
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
