"""Volume claims of a tenant: what the host gets of them, what comes back, and that data is never exchanged."""

from __future__ import annotations

from typing import Any

import pytest

from dure.adapters.virtual.claims import (
    DEFAULT_CLASS,
    OF_HOST,
    claim_down,
    claim_obstacle,
    claim_step,
    claim_up,
    class_up,
)
from dure.adapters.virtual.decide import Step
from dure.adapters.virtual.names import host_name

Json = dict[str, Any]
SIZE = {"requests": {"storage": "1Gi"}}


def claim(uid: str = "u1", phase: str = "Pending", *, leaving: bool = False, **spec: Any) -> Json:
    metadata = {"name": "data", "namespace": "shop", "uid": uid, "labels": {"app": "x"}}
    if leaving:
        metadata |= {"deletionTimestamp": "now"}
    return {
        "metadata": metadata,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": SIZE, **spec},
        "status": {"phase": phase},
    }


def hosted(of: Json, *, leaving: bool = False, **status: Any) -> Json:
    """As the host's server shows it: with what was asked for, and what it has added itself."""
    made = claim_down(of, "robots")
    made["spec"] |= {"volumeName": "pvc-1", "storageClassName": of["spec"].get("storageClassName", "usual")}
    made["metadata"] |= {"uid": "h1", **({"deletionTimestamp": "now"} if leaving else {})}
    return {**made, "status": status}


def test_a_claim_asks_for_size_and_class_under_a_name_of_its_own() -> None:
    made = claim_down(claim(storageClassName="fast", volumeMode="Block"), "robots")
    assert made["metadata"]["name"] == host_name("shop", "data")
    assert made["metadata"]["labels"]["dure.dev/tenant"] == "robots"
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"], "resources": SIZE, "storageClassName": "fast", "volumeMode": "Block",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"volumeName": "pv-of-somebody"}, "by name or label"),
        ({"selector": {"matchLabels": {"owner": "vision"}}}, "by name or label"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, "its own namespace alone"),
        (
            {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "s", "namespace": "vision"}},
            "its own namespace",
        ),
        ({"volumeAttributesClassName": "gold"}, "storage class"),
    ],
)
def test_nothing_of_the_host_can_be_named_by_a_claim(spec: Json, word: str) -> None:
    assert word in claim_obstacle(claim(**spec))


def test_a_copy_is_made_of_the_tenants_own_claim() -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "old"}
    asked = claim(dataSource=source, dataSourceRef=source)
    assert claim_obstacle(asked) == claim_obstacle(claim()) == ""
    assert claim_down(asked, "robots")["spec"]["dataSource"] == {**source, "name": host_name("shop", "old")}


@pytest.mark.parametrize(
    ("virtual", "host", "step"),
    [
        (claim(), None, Step.CREATE),
        (claim(leaving=True), None, Step.NOTHING),
        (claim(), hosted(claim(), phase="Pending"), Step.NOTHING),
        (claim(), hosted(claim(), phase="Bound", capacity={"storage": "1Gi"}), Step.REPORT),
        (claim(phase="Bound"), hosted(claim(), phase="Bound"), Step.NOTHING),
        (claim(resources={"requests": {"storage": "2Gi"}}), hosted(claim()), Step.UPDATE),
        # What it held is gone: an empty one in its place would look like all is well.
        (claim(phase="Bound"), None, Step.REPORT),
        (claim(phase="Lost"), None, Step.NOTHING),
        # Another of the same name does not get what the first held.
        (claim("u2"), hosted(claim("u1"), phase="Bound"), Step.DELETE_HOST),
        (claim("u2"), hosted(claim("u1"), leaving=True), Step.NOTHING),
        (None, hosted(claim()), Step.DELETE_HOST),
        (None, hosted(claim(), leaving=True), Step.NOTHING),
        (None, None, Step.NOTHING),
    ],
)
def test_the_next_step_follows_from_both_sides(virtual: Json | None, host: Json | None, step: Step) -> None:
    wanted = claim_down(virtual, "robots") if virtual is not None else None
    assert claim_step(virtual, host, wanted) is step


def test_the_tenant_sees_the_state_of_its_claim_and_no_volume() -> None:
    found = hosted(claim(), phase="Bound", capacity={"storage": "1Gi"}, allocatedResourceStatuses={"x": "y"})
    assert claim_up(found) == {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    assert claim_up(None) == {"phase": "Lost"}


def test_of_a_storage_class_a_tenant_sees_what_it_can_choose_by() -> None:
    found = {
        "metadata": {"name": "fast", "uid": "u", "annotations": {DEFAULT_CLASS: "true", "note": "of the host"}},
        "provisioner": "disks.example", "parameters": {"secret": "of-the-host"}, "allowVolumeExpansion": True,
    }  # fmt: skip
    assert class_up(found) == {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast", "labels": {OF_HOST: "true"}, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "disks.example", "allowVolumeExpansion": True,
    }  # fmt: skip
