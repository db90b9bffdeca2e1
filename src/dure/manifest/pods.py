"""Pod templates wherever they are: containers, what they ask for, where they may run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from dure.manifest.document import Document, Json, Path, mapping, sequence, text
from dure.model.cluster import Taint, Toleration

_TEMPLATES: dict[str, Path] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "ScaledJob": ("spec", "jobTargetRef", "template"),
}
CAPACITY_TYPE = "karpenter.sh/capacity-type"
# Labels that nodes get from elsewhere than a pool's own template: any pool may have them.
_WELL_KNOWN = (
    "kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "karpenter.k8s.aws/",
    "nvidia.com/",
)
_SPOT_LABELS = {
    CAPACITY_TYPE: "spot", "eks.amazonaws.com/capacityType": "SPOT", "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}  # fmt: skip
_DEVICE_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi")


class PodSite(msgspec.Struct, frozen=True, eq=False):
    """A pod template in a document. `path` leads to it, the pod's spec is below."""

    document: Document
    path: Path
    template: Json

    @property
    def spec_path(self) -> Path:
        return (*self.path, "spec")

    @property
    def spec(self) -> Json:
        return mapping(self.template.get("spec"))

    @property
    def labels(self) -> Json:
        return mapping(mapping(self.template.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Json:
        return mapping(mapping(self.template.get("metadata")).get("annotations"))

    def containers(self, init: bool = False) -> Iterator[tuple[Path, Json]]:
        for key in ("containers", "initContainers") if init else ("containers",):
            for index, each in enumerate(sequence(self.spec.get(key))):
                if isinstance(each, dict):
                    yield (*self.spec_path, key, index), each

    @property
    def images(self) -> str:
        return " ".join(text(each.get("image")) for _, each in self.containers(init=True))

    @property
    def devices(self) -> dict[str, Any]:
        """Accelerators that the containers ask for, by resource name."""
        return {
            name: amount
            for _, container in self.containers()
            for part in ("requests", "limits")
            for name, amount in mapping(mapping(container.get("resources")).get(part)).items()
            if name.startswith(_DEVICE_RESOURCES)
        }

    @property
    def claims_devices(self) -> bool:
        """Asks for accelerators as a resource or by dynamic resource allocation."""
        return bool(self.devices) or bool(sequence(self.spec.get("resourceClaims")))

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(
            Toleration(
                key=text(each.get("key")),
                operator=text(each.get("operator")) or "Equal",
                value=text(each.get("value")),
                effect=text(each.get("effect")),
            )
            for each in map(mapping, sequence(self.spec.get("tolerations")))
        )

    def tolerates(self, taint: Taint) -> bool:
        return any(each.tolerates(taint) for each in self.tolerations)

    def selects(self) -> dict[str, frozenset[str]]:
        """Node labels that are required, with the values allowed: nodeSelector, and affinity with a single term."""
        wanted = {key: frozenset({text(value)}) for key, value in mapping(self.spec.get("nodeSelector")).items()}
        affinity = mapping(mapping(self.spec.get("affinity")).get("nodeAffinity"))
        required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
        terms = sequence(required.get("nodeSelectorTerms"))
        if len(terms) == 1:
            for each in map(mapping, sequence(mapping(terms[0]).get("matchExpressions"))):
                if each.get("operator") == "In":
                    wanted[text(each.get("key"))] = frozenset(map(text, sequence(each.get("values"))))
                elif each.get("operator") == "Exists":
                    wanted.setdefault(text(each.get("key")), frozenset())
        return wanted

    @property
    def on_spot(self) -> bool:
        """Meant for spot nodes: selects them, or tolerates a taint that only they have."""
        selects = self.selects()
        if any(selects.get(key) == frozenset({value}) for key, value in _SPOT_LABELS.items()):
            return True
        return any(
            (each.key in _SPOT_LABELS and (each.value == _SPOT_LABELS[each.key] or each.operator == "Exists"))
            or "spot" in each.key.lower()
            for each in self.tolerations
        )

    @property
    def grace_s(self) -> float:
        found = self.spec.get("terminationGracePeriodSeconds")
        return float(found) if isinstance(found, int | float) else 30.0


def pod_sites(document: Document) -> Iterator[PodSite]:
    path = _TEMPLATES.get(document.kind)
    if path is None:
        return
    template = document.data if not path else document.at(path)
    if isinstance(template, dict):
        yield PodSite(document, path, template)


def well_known(label: str) -> bool:
    return label.startswith(_WELL_KNOWN) or label == CAPACITY_TYPE


def words_of(container: Json) -> list[str]:
    """Command and arguments as words; a script inside of them is split too."""
    lines = [text(each) for key in ("command", "args") for each in sequence(container.get(key))]
    return [word for line in lines for word in split(line)]


def split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()
