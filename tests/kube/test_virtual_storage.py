"""Volume claims and services of virtual clusters, bound and addressed by the host cluster's own controllers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.fixtures import LabFactory
from tests.kube.virtual_world import VOLUMES, Tenant, VirtualWorld, settled, virtual_world

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.full]

CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
parameters: {secret: of-the-host}
allowVolumeExpansion: true
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /nowhere/NAME}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
GREEDY = CLAIM.replace("name: data", "name: greedy").replace("spec: {", "spec: {volumeName: disk-0, ")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: keeps}
spec:
  containers: [{name: main, image: registry.local/x:1}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"""
SERVICE = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {selector: {app: shop}, ports: [{port: 80}]}\n"
)
# Beside the host's own range; the owner of the host adds it once.
RANGE = """
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: virtual-clusters}
spec: {cidrs: [10.112.0.0/12]}
"""


def test_claims_are_bound_in_the_host_and_services_have_one_address_on_both_sides(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory(["host"], flags={"host": VOLUMES})
    host = lab["host"]
    host.kubectl("apply", "-f", "-", stdin=f"{CLASS}---{RANGE}")
    for number in range(3):
        host.kubectl("apply", "-f", "-", stdin=VOLUME.replace("NAME", f"disk-{number}"))
    with virtual_world(lab, tmp_path) as world:
        robots, vision = world.create("robots"), world.create("vision")
        for tenant in (robots, vision):
            settled(partial(_has_class, tenant), "the host's storage class")
            settled(partial(_applied, tenant, f"{SERVICE}---{CLAIM}---{POD}"), "the tenant's service account")
        equal_claims_have_a_volume_each(world, {"robots": robots, "vision": vision})
        services_have_one_address(world, {"robots": robots, "vision": vision})
        no_volume_can_be_named(robots)
        a_claim_can_grow(world, robots)
        another_of_that_name_does_not_get_what_the_first_held(world, robots)
        what_is_gone_is_lost(world, vision)


def equal_claims_have_a_volume_each(world: VirtualWorld, tenants: dict[str, Tenant]) -> None:
    for name, tenant in tenants.items():
        settled(partial(_is, "Bound", _phase, tenant), f"the claim of {name}")
        found = tenant.get("pvc", "data")
        assert found["status"]["capacity"] == {"storage": "5Gi"}
        assert "volumeName" not in found["spec"], "volumes are the host's business"
        [shown] = tenant.get("storageclass")["items"]
        assert "parameters" not in shown
        settled(partial(_is, "Running", _pod_phase, tenant), "its pod")
        [pod], [claim] = world.hosted("pods", name), world.hosted("pvc", name)
        [volume] = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert len({_volume(world, name) for name in tenants}) == 2


def services_have_one_address(world: VirtualWorld, tenants: dict[str, Tenant]) -> None:
    seen = set()
    for name, tenant in tenants.items():
        address = tenant.get("service", "shop")["spec"]["clusterIP"]
        settled(partial(_is, address, _address, world, name), f"the service of {name}")
        [pod] = world.hosted("pods", name)
        lines = {word: line["ip"] for line in pod["spec"]["hostAliases"] for word in line["hostnames"]}
        assert lines["shop"] == lines["shop.default.svc.cluster.local"] == address
        tenant.kubectl("delete", "service", "shop")
        tenant.apply(SERVICE)
        anew = tenant.get("service", "shop")["spec"]["clusterIP"]
        settled(partial(_is, anew, _address, world, name), f"the new service of {name}")
        seen |= {address, anew}
    ours = {address.rsplit(".", 2)[0] for address in seen}
    assert ours == {"10.112"}
    assert len(seen) >= 2


def no_volume_can_be_named(robots: Tenant) -> None:
    robots.apply(GREEDY)

    def told() -> bool:
        events = robots.get("events")["items"]
        return any("by name or label" in one["message"] for one in events if one["reason"] == "NotSynced")

    settled(told, "an event about the claim that names a volume")
    robots.kubectl("delete", "pvc", "greedy")


def a_claim_can_grow(world: VirtualWorld, robots: Tenant) -> None:
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    robots.kubectl("patch", "pvc", "data", "-p", json.dumps(grown))
    settled(lambda: world.hosted("pvc", "robots")[0]["spec"]["resources"] == grown["spec"]["resources"], "its size")


def another_of_that_name_does_not_get_what_the_first_held(world: VirtualWorld, robots: Tenant) -> None:
    before = _volume(world, "robots")
    robots.kubectl("delete", "pod", "keeps", "--now")
    robots.kubectl("delete", "pvc", "data")
    robots.apply(CLAIM)
    settled(lambda: _phase(robots) == "Bound", "the second claim")
    settled(lambda: _volume(world, "robots") != before, "another volume")


def what_is_gone_is_lost(world: VirtualWorld, vision: Tenant) -> None:
    vision.kubectl("delete", "pod", "keeps", "--now")
    settled(lambda: world.hosted("pods", "vision") == [], "the end of the pod")
    [claim] = world.hosted("pvc", "vision")
    world.host.kubectl("delete", "pvc", "-n", "dure-vision", claim["metadata"]["name"])
    settled(lambda: _phase(vision) == "Lost", "the loss to be told")
    assert world.hosted("pvc", "vision") == [], "an empty one in its place would look like all is well"


def _applied(tenant: Tenant, text: str) -> bool:
    """A new namespace has its service account a moment later, and no pod before."""
    try:
        tenant.apply(text)
    except LabError:
        return False
    return True


def _has_class(tenant: Tenant) -> bool:
    return [one["metadata"]["name"] for one in tenant.get("storageclass")["items"]] == ["disks"]


def _is(wanted: str, read: Callable[..., str], *of: object) -> bool:
    return read(*of) == wanted


def _pod_phase(tenant: Tenant) -> str:
    return str(tenant.get("pod", "keeps")["status"]["phase"])


def _phase(tenant: Tenant) -> str:
    return str(tenant.get("pvc", "data")["status"]["phase"])


def _volume(world: VirtualWorld, tenant: str) -> str:
    return str(world.hosted("pvc", tenant)[0]["spec"]["volumeName"])


def _address(world: VirtualWorld, tenant: str) -> str:
    return str(world.hosted("services", tenant)[0]["spec"]["clusterIP"])
