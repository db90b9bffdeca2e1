"""A Karpenter NodePool as rules see it: which instance types, capacity and pods it is for."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.manifest.document import Document, Json, Path, mapping, number, sequence, text
from dure.manifest.pods import CAPACITY_TYPE, PodSite, well_known
from dure.model.cluster import Taint
from dure.model.offer import InstanceOffer

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
TYPE = "node.kubernetes.io/instance-type"
FAMILY = "karpenter.k8s.aws/instance-family"
SIZE = "karpenter.k8s.aws/instance-size"
CATEGORY = "karpenter.k8s.aws/instance-category"
GPU_NAME = "karpenter.k8s.aws/instance-gpu-name"
GPU_COUNT = "karpenter.k8s.aws/instance-gpu-count"
GPU_MEMORY = "karpenter.k8s.aws/instance-gpu-memory"
# What pins the kind of accelerator, in a pool's requirements or in a pod's selector.
PINNING = (TYPE, FAMILY, GPU_NAME, GPU_MEMORY, "nvidia.com/gpu.product", "nvidia.com/gpu.memory")
_GPU_FAMILY = ("p2", "p3", "p4", "p5", "p6", "g3", "g4", "g5", "g6", "g7", "gr6", "inf", "trn", "dl")


class Pool(msgspec.Struct, frozen=True, eq=False):
    """`offers` are the known instance types that the requirements allow; empty when none is known."""

    document: Document
    offers: tuple[InstanceOffer, ...]

    @property
    def name(self) -> str:
        return self.document.name

    @property
    def template(self) -> Json:
        return mapping(mapping(mapping(self.document.spec.get("template")).get("spec")))

    @property
    def labels(self) -> Json:
        return mapping(mapping(mapping(self.document.spec.get("template")).get("metadata")).get("labels"))

    @property
    def limits(self) -> Json:
        return mapping(self.document.spec.get("limits"))

    @property
    def weight(self) -> float:
        return number(self.document.spec.get("weight")) or 0.0

    @property
    def disruption(self) -> Json:
        return mapping(self.document.spec.get("disruption"))

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints that keep pods away for good; startup taints go by themselves."""
        return tuple(
            Taint(text(each.get("key")), text(each.get("value")), text(each.get("effect")))
            for each in map(mapping, sequence(self.template.get("taints")))
            if each.get("effect") in ("NoSchedule", "NoExecute")
        )

    def allowed(self, key: str) -> frozenset[str] | None:
        """Values a node of this pool may have for a label; None when anything goes."""
        return _allowed(self.template, key)

    @property
    def capacity_types(self) -> frozenset[str]:
        """Karpenter takes on-demand where nothing is said."""
        return self.allowed(CAPACITY_TYPE) or frozenset({"on-demand"})

    @property
    def spot_only(self) -> bool:
        return self.capacity_types == {"spot"}

    @property
    def gpu(self) -> bool:
        named = [*self.limits, *(taint.key for taint in self.taints)]
        if any("gpu" in each.lower() or "neuron" in each.lower() for each in named):
            return True
        keys = [text(each.get("key")) for each in map(mapping, sequence(self.template.get("requirements")))]
        if any("gpu" in key or "accelerator" in key for key in keys):
            return True
        types = [*(self.allowed(TYPE) or ()), *(self.allowed(FAMILY) or ())]
        return bool(types) and all(each.startswith(_GPU_FAMILY) for each in types)

    def takes(self, site: PodSite) -> bool:
        """Whether a node of this pool can have the labels that the pod wants."""
        return all(self._has(key, values) for key, values in site.selects().items())

    def _has(self, key: str, values: frozenset[str]) -> bool:
        if key == "karpenter.sh/nodepool":
            return self.name in values
        if key == CAPACITY_TYPE:
            return bool(self.capacity_types & values) if values else True
        if key in self.labels:
            return not values or text(self.labels[key]) in values
        known = self.allowed(key)
        if known is not None:
            return not values or bool(known & values)
        return well_known(key)

    def missing(self, site: PodSite) -> list[Taint]:
        """Taints of the pool that the pod does not tolerate."""
        return [taint for taint in self.taints if not site.tolerates(taint)]


def read_pool(document: Document, offers: tuple[InstanceOffer, ...]) -> Pool:
    template = mapping(mapping(document.spec.get("template")).get("spec"))
    pinned = any(_allowed(template, key) for key in (TYPE, FAMILY, CATEGORY, GPU_NAME))
    bounded = {text(each.get("key")) for each in map(mapping, sequence(template.get("requirements")))}
    if not pinned and not any("gpu" in key for key in bounded):
        return Pool(document, ())
    return Pool(document, tuple(offer for offer in offers if _fits(template, offer)))


def _fits(template: Json, offer: InstanceOffer) -> bool:
    facts: dict[str, Any] = {
        TYPE: offer.name,
        FAMILY: offer.family,
        SIZE: offer.size,
        CATEGORY: offer.family[0],
        GPU_NAME: offer.gpu,
        GPU_COUNT: str(offer.devices),
        "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
    }
    return all(_allows(template, key, value) for key, value in facts.items())


def _requirements(template: Json, key: str) -> list[Json]:
    return [each for each in map(mapping, sequence(template.get("requirements"))) if each.get("key") == key]


def _allowed(template: Json, key: str) -> frozenset[str] | None:
    found: frozenset[str] | None = None
    for each in _requirements(template, key):
        if each.get("operator") == "In":
            values = frozenset(map(text, sequence(each.get("values"))))
            found = values if found is None else found & values
    return found


def _allows(template: Json, key: str, value: str) -> bool:
    for each in _requirements(template, key):
        values = [text(one) for one in sequence(each.get("values"))]
        operator = each.get("operator")
        if (operator == "In" and value not in values) or (operator == "NotIn" and value in values):
            return False
        bound, found = number(values[0]) if values else None, number(value)
        if bound is None or found is None:
            continue
        fails = {"Gt": found <= bound, "Lt": found >= bound, "Gte": found < bound, "Lte": found > bound}
        if fails.get(text(operator), False):
            return False
    return True
