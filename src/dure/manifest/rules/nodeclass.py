"""Traps in Karpenter's EC2NodeClass: images that drift, network cards that are not attached, disks paid twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dure.manifest.document import mapping, sequence, text
from dure.manifest.manifests import Manifests
from dure.manifest.quantity import quantity
from dure.manifest.rule import Hit, Rule, Severity

_EFA = "vpc.amazonaws.com/efa"
_GIB = 2.0**30
_LARGE_ROOT_GIB = 200
_FREE_IOPS = 3000


def _drifting_image(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("EC2NodeClass"):
        for index, term in enumerate(map(mapping, sequence(document.spec.get("amiSelectorTerms")))):
            if text(term.get("alias")).endswith("@latest"):
                path = ("spec", "amiSelectorTerms", index, "alias")
                yield Hit(document, path, f"'{term['alias']}' replaces every node whenever a new image is released")


def _efa_not_attached(manifests: Manifests) -> Iterator[Hit]:
    asked = any(
        _EFA in mapping(mapping(container.get("resources")).get(part))
        for site in manifests.pods
        for _, container in site.containers()
        for part in ("requests", "limits")
    )
    for document in manifests.of("EC2NodeClass"):
        listed = "efa" in str(document.spec.get("networkInterfaces", "")).lower()
        if (
            re.search(r"modprobe\s+efa|efa[_-]installer", text(document.spec.get("userData")))
            and not asked
            and not listed
        ):
            message = "The EFA driver is loaded, but no network card is attached: nothing asks for one"
            yield Hit(document, ("spec", "userData"), message)
    for site in manifests.pods:
        for path, container in site.containers(init=True):
            said = " ".join(text(each) for key in ("command", "args") for each in sequence(container.get(key)))
            if re.search(r"modprobe\s+efa", said) and not asked:
                yield Hit(
                    site.document, path, "Loading the EFA driver attaches no network card: nothing asks for one"
                )


def _paid_twice(manifests: Manifests) -> Iterator[Hit]:
    for document in manifests.of("EC2NodeClass"):
        if document.spec.get("instanceStorePolicy") != "RAID0":
            continue
        for index, each in enumerate(map(mapping, sequence(document.spec.get("blockDeviceMappings")))):
            volume = mapping(each.get("ebs"))
            size = (quantity(volume.get("volumeSize")) or 0) / _GIB
            iops = quantity(volume.get("iops")) or 0
            if size >= _LARGE_ROOT_GIB or iops > _FREE_IOPS:
                paid = f"{size:.0f}Gi" + (f" with {iops:.0f} IOPS" if iops > _FREE_IOPS else "")
                path = ("spec", "blockDeviceMappings", index, "ebs")
                yield Hit(
                    document, path, f"Images and pods live on the RAID0 of local disks; {paid} of root stay unused"
                )


RULES = (
    Rule(
        "DURE027",
        Severity.WARNING,
        "Nodes follow the latest image by themselves.",
        "An alias with @latest makes every node drift when a new image is released: all of them are replaced, with a "
        "driver nobody has tried.",
        "Pin a version (al2023@v20260101) and raise it on purpose.",
        "amiSelectorTerms: [{alias: al2023@latest}]",
        "amiSelectorTerms: [{alias: al2023@v20260101}]",
        _drifting_image,
    ),
    Rule(
        "DURE028",
        Severity.WARNING,
        "The EFA driver is loaded, but no EFA network card is attached.",
        "Cards are attached when pods request vpc.amazonaws.com/efa (4 on p4d, 32 on p5, 1 on g5.48xlarge) or the "
        "node "
        "class lists them. Otherwise collectives run over TCP, many times slower, without an error.",
        "Request vpc.amazonaws.com/efa in the pods, or list networkInterfaces in the node class.",
        "userData: |\n  modprobe efa",
        "resources:\n  limits: {nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}",
        _efa_not_attached,
    ),
    Rule(
        "DURE029",
        Severity.WARNING,
        "A large, fast root volume is paid for beside local disks that do its work.",
        "With instanceStorePolicy RAID0 images, logs and emptyDirs are on the local disks; the root volume holds the "
        "system only.",
        "Make the root volume about 100Gi without extra IOPS, or leave out RAID0.",
        "instanceStorePolicy: RAID0\nblockDeviceMappings: [{ebs: {volumeSize: 500Gi, iops: 10000}}]",
        "instanceStorePolicy: RAID0\nblockDeviceMappings: [{ebs: {volumeSize: 100Gi}}]",
        _paid_twice,
    ),
)
