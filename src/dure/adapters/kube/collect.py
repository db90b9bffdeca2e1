"""What people have put into a live cluster, as manifests that can be judged: for `dure lint --cluster`.

Left out is what nobody wrote: objects that a controller made for another one, the server's own fields, and the number
of replicas, which in a live object is whatever an autoscaler made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dure.adapters.kube.compare import bare
from dure.adapters.kube.rest import Api
from dure.model.errors import NotAllowed, NotFound

Json = dict[str, Any]
_PAGE = "500"
_KINDS = {
    "/api/v1": ("services",),
    "/apis/apps/v1": ("deployments", "statefulsets", "daemonsets"),
    "/apis/batch/v1": ("jobs", "cronjobs"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/autoscaling/v2": ("horizontalpodautoscalers",),
    "/apis/keda.sh/v1alpha1": ("scaledobjects", "scaledjobs", "triggerauthentications"),
    "/apis/karpenter.sh/v1": ("nodepools",),
    "/apis/karpenter.k8s.aws/v1": ("ec2nodeclasses",),
    "/apis/monitoring.coreos.com/v1": ("servicemonitors", "podmonitors", "prometheusrules", "prometheuses"),
}


class Collected(NamedTuple):
    """`objects` by a name that `kubectl get` understands; `unseen` are the kinds that this identity may not list."""

    objects: dict[str, Json]
    unseen: tuple[str, ...]


def collect(api: Api) -> Collected:
    """Every object of the kinds that rules look at; kinds that are not installed are simply not there."""
    objects: dict[str, Json] = {}
    unseen: list[str] = []
    for base, plurals in _KINDS.items():
        for plural in plurals:
            try:
                for each in _listed(api, f"{base}/{plural}"):
                    metadata = each["metadata"]
                    objects["/".join(filter(None, (plural, metadata.get("namespace", ""), metadata["name"])))] = each
            except NotFound:
                continue
            except NotAllowed:
                unseen.append(plural)
    return Collected(objects, tuple(unseen))


def _listed(api: Api, path: str) -> Iterator[Json]:
    after = ""
    while True:
        page = api.get(path, dict, limit=_PAGE, **({"continue": after} if after else {}))
        kind = str(page["kind"]).removesuffix("List")
        for each in page["items"]:
            if not any(owner.get("controller") for owner in each["metadata"].get("ownerReferences", ())):
                yield _written({"apiVersion": page["apiVersion"], "kind": kind, **each})
        after = page["metadata"].get("continue", "")
        if not after:
            return


def _written(found: Json) -> Json:
    made = bare(found)
    if isinstance(made.get("spec"), dict):
        made["spec"] = {key: value for key, value in made["spec"].items() if key != "replicas"}
    return made
