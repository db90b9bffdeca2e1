"""Writing claims: an allocation and the pod it is kept for, before the pod is bound; and taking it back.

An allocation belongs to an attempt to bind. Whoever finds one of a pod that waits and has no promise, even an agent
that starts anew, takes it back. Only the very state of a claim that was looked at is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dure.adapters.kube.dra_objects import KubeClaim, KubeClass
from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.objects import KubePod
from dure.adapters.kube.rest import Api
from dure.model.claim import Allotted
from dure.model.errors import Conflict, NotFound

Json = dict[str, Any]
PATH = "/apis/resource.k8s.io/v1"
_FINALIZER = "resource.kubernetes.io/delete-protection"
_MOST_CONSUMERS = 256


def reserve(
    api: Api,
    mirror: Mirror[KubeClaim],
    classes: Mapping[str, KubeClass],
    pod: KubePod,
    node: str,
    given: Sequence[Allotted],
) -> None:
    """Every claim of the pod is allocated on this node and kept for it; `Conflict` if one has changed meanwhile."""
    for name in dict.fromkeys(one.claim for one in given):
        claim = mirror.get(name)
        if claim is None:
            raise Conflict(f"claim {name} is gone")
        try:
            _reserve_one(api, mirror, classes, pod, node, claim, [one for one in given if one.claim == name])
        except NotFound as error:
            raise Conflict(f"claim {name} is gone") from error


def release(api: Api, mirror: Mirror[KubeClaim], waiting: Iterable[KubePod]) -> None:
    """Take back what was allocated for pods that wait and were promised nothing."""
    uids = {pod.metadata.uid for pod in waiting if pod.spec.resource_claims}
    if not uids:
        return
    for claim in mirror.objects().values():
        consumers = claim.status.reserved_for
        if consumers and all(one.uid in uids for one in consumers):
            mirror.note(_write(api, claim, {"allocation": None, "reservedFor": None}))


def _reserve_one(
    api: Api,
    mirror: Mirror[KubeClaim],
    classes: Mapping[str, KubeClass],
    pod: KubePod,
    node: str,
    claim: KubeClaim,
    given: Sequence[Allotted],
) -> None:
    consumers = claim.status.reserved_for
    if any(one.uid == pod.metadata.uid for one in consumers):
        return
    if len(consumers) >= _MOST_CONSUMERS:
        raise Conflict(
            f"claim {claim.metadata.key} is kept for {len(consumers)} pods, which is the most there can be"
        )
    me = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    status: Json = {"reservedFor": [*({"resource": c.resource, "name": c.name, "uid": c.uid} for c in consumers), me]}
    if claim.status.allocation is None:
        claim = _protected(api, claim)
        status["allocation"] = _allocation(claim, classes, node, given)
    mirror.note(_write(api, claim, status))


def _protected(api: Api, claim: KubeClaim) -> KubeClaim:
    """The finalizer by which its controller knows that devices must be given back before the claim goes."""
    if _FINALIZER in claim.metadata.finalizers:
        return claim
    finalizers = [*claim.metadata.finalizers, _FINALIZER]
    body = {"metadata": {"finalizers": finalizers, "resourceVersion": claim.metadata.resource_version}}
    return api.patch(_path(claim), body, KubeClaim)


def _allocation(claim: KubeClaim, classes: Mapping[str, KubeClass], node: str, given: Sequence[Allotted]) -> Json:
    results = []
    for one in given:
        driver, _, rest = one.device.partition("/")
        pool, _, device = rest.rpartition("/")
        results.append({"request": one.request, "driver": driver, "pool": pool, "device": device})
    config: list[Json] = []
    for request in claim.spec.devices.requests:
        found = classes.get(request.exactly.device_class_name) if request.exactly else None
        config.extend(
            {**one, "source": "FromClass", "requests": [request.name]} for one in (found.spec.config if found else ())
        )
    config.extend({**one, "source": "FromClaim"} for one in claim.spec.devices.config)
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"devices": {"results": results, "config": config}, "nodeSelector": {"nodeSelectorTerms": [here]}}


def _write(api: Api, claim: KubeClaim, status: Json) -> KubeClaim:
    body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
    return api.patch(f"{_path(claim)}/status", body, KubeClaim)


def _path(claim: KubeClaim) -> str:
    return f"{PATH}/namespaces/{claim.metadata.namespace}/resourceclaims/{claim.metadata.name}"
