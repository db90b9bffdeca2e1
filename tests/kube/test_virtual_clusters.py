"""Virtual clusters with the real kubectl: two tenants who use the same names, and a host cluster that runs both."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.fixtures import LabFactory
from tests.kube.secure_etcd import secure_etcd
from tests.kube.virtual_world import Tenant, VirtualWorld, settled, virtual_world

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SHOP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {owner: WHO}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {word: WHO}
---
apiVersion: v1
kind: Secret
metadata: {name: unused}
stringData: {word: WHO}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: main
        image: registry.local/shop:1
        env: [{name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        envFrom: [{configMapRef: {name: settings}}]
        resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}
        volumeMounts: [{name: key, mountPath: /key}]
      volumes: [{name: key, secret: {secretName: key}}]
"""
WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.robots.example}
spec:
  group: robots.example
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
WIDGET = "apiVersion: robots.example/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n"
CLAIMS = """
apiVersion: v1
kind: Pod
metadata: {name: claims}
spec:
  containers: [{name: a, image: registry.local/x:1}]
  resourceClaims: [{name: gpu, resourceClaimName: some}]
"""
READER = ("--as=anna", "--as-group=system:authenticated")


def test_equal_names_of_two_tenants_never_meet_on_their_host(lab_factory: LabFactory, tmp_path: Path) -> None:
    with secure_etcd(tmp_path) as etcd, virtual_world(lab_factory(["host"]), tmp_path, etcd) as world:
        robots, vision = world.create("robots"), world.create("vision")
        equal_names_never_meet(world, {"robots": robots, "vision": vision})
        definitions_and_rights_are_their_own(world, robots, vision)


@pytest.mark.full
def test_a_virtual_cluster_outlives_the_plane_and_its_own_server(lab_factory: LabFactory, tmp_path: Path) -> None:
    with virtual_world(lab_factory(["host"]), tmp_path) as world:
        robots, vision = world.create("robots"), world.create("vision")
        for name, tenant in {"robots": robots, "vision": vision}.items():
            tenant.apply(SHOP.replace("WHO", name))
            settled(partial(_runs, tenant, 2), f"two pods of {name}")
        robots.apply(WIDGETS)
        settled(lambda: "widget" in robots.kubectl("apply", "-f", "-", stdin=WIDGET), "the tenant's own kind")
        what_the_host_refuses_is_told(robots)
        what_ends_on_one_side_ends_on_the_other(world, robots)
        it_lives_without_the_plane_and_comes_back(world, robots)
        a_lost_mark_costs_no_state(world, robots)
        deleting_leaves_nothing(world, robots, vision)


def equal_names_never_meet(world: VirtualWorld, tenants: dict[str, Tenant]) -> None:
    for name, tenant in tenants.items():
        tenant.apply(SHOP.replace("WHO", name))
    for name, tenant in tenants.items():
        settled(partial(_runs, tenant, 2), f"two pods of {name}")
        pods = tenant.get("pods")["items"]
        assert {one["spec"]["nodeName"] for one in pods} <= {"gpu-0", "gpu-1"}
        assert all(one["status"]["podIP"] for one in pods)
        tenant.kubectl("rollout", "status", "deployment/shop", "--timeout=60s")
        assert {one["metadata"]["name"] for one in tenant.get("nodes")["items"]} == {
            one["spec"]["nodeName"] for one in pods
        }
        hosted = world.hosted("pods", name)
        assert {one["metadata"]["annotations"]["dure.dev/virtual-uid"] for one in hosted} == {
            one["metadata"]["uid"] for one in pods
        }
        [secret] = world.hosted("secrets", name)
        assert base64.b64decode(secret["data"]["word"]).decode() == name, "only what a pod needs, and its own"
        main = hosted[0]["spec"]["containers"][0]
        assert main["env"] == [{"name": "ME", "value": hosted[0]["metadata"]["annotations"]["dure.dev/virtual-name"]}]
        [service] = world.hosted("services", name)
        assert service["spec"]["selector"] == {"app": "shop", "dure.dev/virtual-namespace": "default"}
        tenant.kubectl("create", "configmap", "later", "--from-literal=a=b")
    assert running(tenants["robots"]) == running(tenants["vision"]) == 2


def definitions_and_rights_are_their_own(world: VirtualWorld, robots: Tenant, vision: Tenant) -> None:
    robots.apply(WIDGETS)
    settled(lambda: "widget" in robots.kubectl("apply", "-f", "-", stdin=WIDGET), "the tenant's own kind")
    for other in (vision.kubectl, world.host.kubectl):
        with pytest.raises(LabError, match="doesn't have a resource type"):
            other("get", "widgets")
    robots.kubectl("create", "role", "looks", "--verb=get,list", "--resource=pods")
    robots.kubectl("create", "rolebinding", "anna", "--role=looks", "--user=anna")
    assert "shop" in robots.kubectl("get", "pods", *READER)
    with pytest.raises(LabError, match="forbidden"):
        robots.kubectl("get", "secrets", *READER)
    with pytest.raises(LabError, match="forbidden"):
        vision.kubectl("get", "pods", *READER)
    with pytest.raises(LabError, match="forbidden"):
        world.host.kubectl("get", "pods", "-n", "dure-robots", *READER)
    with pytest.raises(LabError, match=r"certificate|Unauthorized|credentials"):
        world.host.kubectl("get", "pods", "--server", world.host.server, kubeconfig=robots.kubeconfig)


def what_the_host_refuses_is_told(robots: Tenant) -> None:
    """The namespace's own rules hold for what comes out of a virtual cluster too."""
    robots.kubectl("run", "greedy", "--image=registry.local/x:1", "--privileged")
    robots.apply(CLAIMS)

    def told() -> bool:
        events = [one for one in robots.get("events")["items"] if one["reason"] == "NotSynced"]
        said = {one["involvedObject"]["name"]: one["message"] for one in events}
        return "privileged" in said["greedy"] and "resource claims are not synced" in said["claims"]

    settled(told, "events about what is not synced")
    robots.kubectl("delete", "pod", "greedy", "claims", "--wait=false")


def what_ends_on_one_side_ends_on_the_other(world: VirtualWorld, robots: Tenant) -> None:
    before = {one["metadata"]["uid"] for one in robots.get("pods", "-l", "app=shop")["items"]}
    victim = world.hosted("pods", "robots")[0]["metadata"]
    world.host.kubectl("delete", "pod", "-n", "dure-robots", victim["name"])
    settled(lambda: victim["annotations"]["dure.dev/virtual-uid"] not in uids(robots), "the end of the evicted pod")
    settled(lambda: running(robots) == 2, "another in its place")
    assert uids(robots) != before
    robots.kubectl("scale", "deployment/shop", "--replicas=1")
    settled(lambda: running(robots) == 1 and len(world.hosted("pods", "robots")) == 1, "one pod on either side")
    robots.kubectl("patch", "configmap", "settings", "-p", '{"data": {"owner": "changed"}}')
    settled(lambda: world.hosted("configmaps", "robots")[0]["data"]["owner"] == "changed", "the changed settings")


def a_lost_mark_costs_no_state(world: VirtualWorld, robots: Tenant) -> None:
    world.host.kubectl("label", "namespace", "dure-robots", "dure.dev/isolation-")
    settled(lambda: not answers(robots), "the end of its API server")
    world.host.kubectl("label", "namespace", "dure-robots", "dure.dev/isolation=own-virtual-cluster")
    settled(lambda: robots.get("widgets")["items"][0]["spec"] == {"size": 3}, "everything to be there again")


def it_lives_without_the_plane_and_comes_back(world: VirtualWorld, robots: Tenant) -> None:
    world.plane.kill()
    robots.kubectl("scale", "deployment/shop", "--replicas=3")
    settled(lambda: running(robots) == 3, "three pods while the plane is dead")
    world.server.kill()
    with pytest.raises(LabError):
        robots.kubectl("get", "pods", "--request-timeout=2s")
    assert len(world.hosted("pods", "robots")) == 3, "what runs goes on"
    world.server.start()
    settled(lambda: running(robots) == 3, "the same kubeconfig to work again")
    assert robots.get("widgets")["items"][0]["spec"] == {"size": 3}
    world.plane.start()
    world.wait_for_plane()


def deleting_leaves_nothing(world: VirtualWorld, robots: Tenant, vision: Tenant) -> None:
    world.delete("robots")
    with pytest.raises(LabError, match="not found"):
        world.host.kubectl("get", "namespace", "dure-robots")
    settled(lambda: not answers(robots), "the end of its API server")
    assert running(vision) == 2
    again = world.create("robots")
    assert again.get("pods")["items"] == [], "a new tenant of that name inherits nothing"
    with pytest.raises(LabError, match="no virtual cluster"):
        world.delete("search")


def running(tenant: Tenant) -> int:
    pods = tenant.get("pods", "-l", "app=shop")["items"]
    return sum(one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"] for one in pods)


def _runs(tenant: Tenant, wanted: int) -> bool:
    return running(tenant) == wanted


def uids(tenant: Tenant) -> set[str]:
    return {one["metadata"]["uid"] for one in tenant.get("pods", "-l", "app=shop")["items"]}


def answers(tenant: Tenant) -> bool:
    try:
        tenant.kubectl("get", "pods", "--request-timeout=2s")
    except LabError:
        return False
    return True
