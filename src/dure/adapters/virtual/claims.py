"""Volume claims of a virtual cluster as the host gets them; their state and the host's storage classes back. Pure.

A claim may ask for a size and a class, never for a volume by name or label: volumes are the host's. What a claim
holds is a tenant's data, so a host claim stands for one uid, and one that is gone is told as lost instead of being
replaced by an empty one.
"""

from __future__ import annotations

from typing import Any

from dure.adapters.kube.names import GROUP
from dure.adapters.virtual.decide import Step, leaving, within
from dure.adapters.virtual.names import host_name
from dure.adapters.virtual.translate import head, origin

Json = dict[str, Any]
# On every class that is shown: one without it is the tenant's own.
OF_HOST = f"{GROUP}/of-host"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_ASKED = ("accessModes", "resources", "storageClassName", "volumeMode")
_TOLD = ("phase", "accessModes", "capacity", "conditions")
_HELD = ("Bound", "Lost")
# Not its parameters: they may name servers and secrets of the host.
_SHOWN = ("provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion")
_SOURCES = ("dataSource", "dataSourceRef")


def claim_obstacle(claim: Json) -> str:
    """Why a claim cannot be carried to the host; empty when it can."""
    spec = claim["spec"]
    if spec.get("volumeName") or spec.get("selector"):
        return "a claim cannot choose a volume of the host by name or label: ask for a size and a class"
    if spec.get("volumeAttributesClassName"):
        return "classes of volume attributes are not synced: choose a storage class"
    for source in (spec[key] for key in _SOURCES if spec.get(key)):
        if source.get("kind") != "PersistentVolumeClaim" or source.get("namespace"):
            return "a volume can be copied from a claim of its own namespace alone"
    return ""


def claim_down(claim: Json, tenant: str) -> Json:
    spec = claim["spec"]
    made = {key: spec[key] for key in _ASKED if key in spec}
    if source := next((spec[key] for key in _SOURCES if spec.get(key)), None):
        name = host_name(claim["metadata"]["namespace"], source["name"])
        made["dataSource"] = {"kind": "PersistentVolumeClaim", "name": name}
    return {**head(claim, "v1", "PersistentVolumeClaim", tenant), "spec": made}


def claim_up(host: Json | None) -> Json:
    """The status that the tenant sees; without a host claim there is nothing left of what it held."""
    if host is None:
        return {"phase": "Lost"}
    return {key: value for key, value in host.get("status", {}).items() if key in _TOLD}


def claim_step(virtual: Json | None, host: Json | None, wanted: Json | None) -> Step:
    """`wanted` is what `claim_down` makes of the virtual claim, or nothing where it cannot be carried."""
    if virtual is None:
        return Step.NOTHING if host is None or leaving(host) else Step.DELETE_HOST
    if host is not None and origin(host)[2] != virtual["metadata"]["uid"]:
        return Step.NOTHING if leaving(host) else Step.DELETE_HOST
    if host is None and virtual.get("status", {}).get("phase") not in _HELD:
        return Step.NOTHING if leaving(virtual) else Step.CREATE
    if host is not None and not leaving(host) and wanted is not None and not within(wanted, host):
        return Step.UPDATE
    return Step.NOTHING if within(claim_up(host), virtual.get("status", {})) else Step.REPORT


def class_up(host: Json) -> Json:
    metadata = host["metadata"]
    default = metadata.get("annotations", {}).get(DEFAULT_CLASS)
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": metadata["name"],
            "labels": {OF_HOST: "true"},
            "annotations": {DEFAULT_CLASS: default} if default else {},
        },
        **{key: host[key] for key in _SHOWN if key in host},
    }
