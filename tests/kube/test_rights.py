"""The agent with the account that `dure render agent` prints: nothing is refused to it, and nothing is left unused.

The API server's own audit log says what was asked, so that no list of calls has to be kept true by hand.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from dure.adapters.clock import RealClock
from dure.adapters.kube import rbac
from dure.adapters.kube.rest import Api
from dure.adapters.kube.seats import Seat
from dure.adapters.kube.secret import fetch_credential
from dure.cli.render import command as render
from dure.embedded.members import Member
from dure.model.accelerator import ShareMode
from dure.model.decision import Evict, Resize
from dure.model.errors import Conflict, InvalidInput, NotAllowed
from dure.model.reason import Verdict
from dure.model.report import Observed
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.small_world import CATALOGUE, desired, pool, service, training
from tests.fixtures.small_world import cluster as spec_with
from tests.kube.world import FixedPlane, install_crds, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

AGENT = "system:serviceaccount:dure-system:dure-agent"
NODES = """
nodes:
- {group: big, count: 2, gpu: {count: 4}, labels: {dure.dev/pool: big}}
- group: cut
  gpu: {count: 2}
  labels: {dure.dev/pool: cut, nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success}
  mig_layouts: {all-balanced: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}, all-disabled: {}}
"""


class Right(NamedTuple):
    """One verb on one kind of object."""

    verb: str
    group: str
    resource: str


# Asked of the authorizer while a request is handled, which the audit log does not show; they have tests of their own.
FINALIZERS = Right("update", "dure.dev", "placements/finalizers")
ALLOTTING = Right("patch", "resource.k8s.io", "resourceclaims/binding")
DRIVER = "gpu.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(
        ["test"], off={"test": {"kube-scheduler"}}, default_run_s=1.0, audit={"test": AGENT}, first=install_crds
    ) as lab:
        lab["test"].add_nodes(NODES)
        text = CliRunner().invoke(render, ["agent", "--cluster", "test", "--plane", "http://127.0.0.1:1"]).output
        lab["test"].kubectl("apply", "-f", "-", stdin=text)
        lab["test"].kubectl("delete", "deployment", "-n", "dure-system", "dure-agent")
        yield lab["test"]


@pytest.fixture(scope="module")
def events(cluster: Cluster) -> list[Json]:
    """What the agent asked of the server while it did everything it can do."""
    plane = FixedPlane()
    api = Api.from_kubeconfig(cluster.kubeconfig_of("dure-system", "dure-agent"))
    redeem_the_token(cluster, api)
    pools = (pool("big", "big"), pool("cut", "big", devices=2))
    member = Member(spec_with(*pools), CATALOGUE, api, plane, RealClock(), "one")
    member.start()
    try:
        live(cluster, plane, member)
    finally:
        member.stop()
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    return [line for line in lines if line["user"]["username"] == AGENT and "objectRef" in line]


def redeem_the_token(cluster: Cluster, api: Api) -> None:
    token = base64.b64encode(b"once").decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "dure-agent"}, "data": {"join-token": token}}
    cluster.api.post("/api/v1/namespaces/dure-system/secrets", secret)
    bought = [fetch_credential(api, "dure-system", "dure-agent", lambda token, _: f"for-{token}") for _ in range(2)]
    assert bought == ["for-once", "for-once"]


def live(cluster: Cluster, plane: FixedPlane, member: Member) -> None:
    """Place, bind, explain, finish, serve, move on to another generation, allot, evict, cut, take back."""
    allot_a_device(cluster)
    job, web = desired(training("fit", gang=3)), desired(service("web", replicas=1))
    cluster.api.post("/api/v1/namespaces/default/pods", user_pod("huge", count=64))
    plane.desired = (job, web)
    member.runner.wake()
    until(lambda: any(one.workload == "fit" and one.succeeded == 3 for one in _seen(plane)), "a job that is done")
    until(lambda: any(one.workload == "web" and one.ready == 1 for one in _seen(plane)), "a replica")
    events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dhuge"
    cluster.api.until(events, lambda found: bool(found["items"]), what="an event that explains")
    plane.desired = (web, desired(training("long", duration_s=9e4)))
    member.runner.wake()
    until(lambda: any(one.workload == "long" and one.bound for one in _seen(plane)), "a job that runs")
    plane.desired = (web, desired(training("long", duration_s=9e4), generation=2))
    member.runner.wake()
    until(
        lambda: any((one.workload, one.generation) == ("long", 2) and one.bound for one in _seen(plane)), "its heir"
    )
    refuse_a_second_seat(member)
    why = Verdict("big", None, "room for a pod", "of higher priority")
    held = next(pod for pod in member.cluster.fetch_state().pods if pod.workload == "web" and pod.holds)
    member.cluster.evict([Evict(held.name, held.uid, held.workload, why)])
    node = next(node for node in member.cluster.fetch_state().nodes if node.pool == "cut")
    member.cluster.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
    plane.desired = ()
    member.runner.wake()
    until(lambda: not cluster.api.get("/apis/dure.dev/v1alpha1/placements")["items"], "nothing left")


def allot_a_device(cluster: Cluster) -> None:
    """A pod that claims a device is bound once the device is its own; it needs no accelerator of a pool."""
    cluster.apply(*dynamic_devices(), claim("mine"))
    pod = user_pod("claiming", count=0, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    cluster.api.post("/api/v1/namespaces/default/pods", pod)
    path = "/api/v1/namespaces/default/pods/claiming"
    cluster.api.until(path, lambda found: bool(found["spec"].get("nodeName")), what="a bound pod that claims")


def dynamic_devices() -> list[Json]:
    api_version = "resource.k8s.io/v1"
    spec = {
        "driver": DRIVER,
        "nodeName": "big-0",
        "pool": {"name": "big-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    }
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return [
        {"apiVersion": api_version, "kind": "ResourceSlice", "metadata": {"name": "big-0"}, "spec": spec},
        {
            "apiVersion": api_version,
            "kind": "DeviceClass",
            "metadata": {"name": "lab"},
            "spec": {"selectors": selectors},
        },
    ]


def claim(name: str) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "lab", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def refuse_a_second_seat(member: Member) -> None:
    """A bind that the server refuses makes the agent ask what became of the pod."""
    pod = next(pod for pod in member.cluster.fetch_state().pods if pod.workload == "web" and pod.holds)
    elsewhere = next(n.name for n in member.cluster.fetch_state().nodes if n.pool == "big" and n.name != pod.node)
    with pytest.raises(Conflict):
        member.cluster.bind_pod(pod.name, Seat(elsewhere, pod.slices))


def _seen(plane: FixedPlane) -> tuple[Observed, ...]:
    return plane.reports[-1].observed if plane.reports else ()


def granted(rules: list[Json]) -> set[Right]:
    return {
        Right(verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(events: list[Json]) -> set[Right]:
    found = set()
    for event in events:
        about = event["objectRef"]
        if event["responseStatus"]["code"] >= 400:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        found.add(Right(event["verb"], about.get("apiGroup", ""), resource))
        if event["verb"] == "patch" and event["responseStatus"]["code"] == 201:
            # An apply that makes an object is authorised as a create as well.
            found.add(Right("create", about.get("apiGroup", ""), resource))
    return found


def test_every_right_is_used_and_nothing_else_is_asked_for(events: list[Json]) -> None:
    given = granted(rbac.rules()) | granted(rbac.home_rules())
    unused = given - used(events) - {FINALIZERS, ALLOTTING}
    assert not unused, "take it out of the role, or do in `live` what needs it"
    assert used(events) <= given


def test_nothing_is_refused_but_to_change_the_definitions_of_resources(events: list[Json]) -> None:
    refused = [event for event in events if event["responseStatus"]["code"] in (401, 403)]
    assert {event["objectRef"]["resource"] for event in refused} <= {"customresourcedefinitions"}


def test_rights_of_its_own_namespace_are_used_there_and_on_two_named_objects_only(events: list[Json]) -> None:
    at_home = [event["objectRef"] for event in events if event["objectRef"]["resource"] in ("leases", "secrets")]
    assert {about["namespace"] for about in at_home} == {"dure-system"}
    assert {about.get("name", "dure-agent") for about in at_home} == {"dure-agent"}


def test_the_printed_manifests_bind_these_roles_to_that_account(cluster: Cluster) -> None:
    text = CliRunner().invoke(render, ["agent", "--cluster", "test", "--plane", "http://127.0.0.1:1"]).output
    objects = [one for one in yaml.safe_load_all(text) if one["kind"].endswith("Binding") and "roleRef" in one]
    assert [one["roleRef"]["kind"] for one in objects] == ["ClusterRole", "Role"]
    for one in objects:
        assert one["subjects"] == [{"kind": "ServiceAccount", "name": "dure-agent", "namespace": "dure-system"}]


UNSEEN = (
    Right("create", "", "namespaces"),
    Right("create", "", "services"),
    Right("create", "apps", "deployments"),
    Right("create", "batch", "jobs"),
    Right("create", "dure.dev", "placements"),
    FINALIZERS,
)


@pytest.mark.parametrize("missing", UNSEEN, ids=lambda right: f"{right.verb}-{right.resource.replace('/', '-')}")
def test_without_a_right_that_only_the_authorizer_sees_the_apply_is_refused(cluster: Cluster, missing: Right) -> None:
    path, body = applied(missing)
    name = f"less-{UNSEEN.index(missing)}"
    with Api.from_kubeconfig(granted_all_but(cluster, "all")) as api:
        api.apply(path, body, dict, dry_run=True)
    with Api.from_kubeconfig(granted_all_but(cluster, name, missing)) as api, pytest.raises(NotAllowed):
        api.apply(path, body, dict, dry_run=True)


def test_without_the_right_to_allot_devices_a_claim_stays_as_it_is(cluster: Cluster) -> None:
    cluster.apply(*dynamic_devices(), claim("spare"))
    result = {"request": "gpu", "driver": DRIVER, "pool": "big-0", "device": "gpu-1"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = f"{CLAIMS}/spare/status"
    less = granted_all_but(cluster, "less-allotting", ALLOTTING)
    with Api.from_kubeconfig(less) as api, pytest.raises(InvalidInput, match="resourceclaims/binding"):
        api.patch(path, body, dict)
    with Api.from_kubeconfig(granted_all_but(cluster, "all")) as api:
        api.patch(path, body, dict)


def granted_all_but(cluster: Cluster, name: str, *missing: Right) -> Path:
    """A kubeconfig of a user who has the agent's rights without these."""
    rules = [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        for right in sorted(granted(rbac.rules()) - set(missing))
    ]
    api_version, user = "rbac.authorization.k8s.io/v1", {"kind": "User", "name": name}
    role = {"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {
        "apiVersion": api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{**user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    cluster.apply(role, binding)
    return cluster.kubeconfig_for(name)


def applied(right: Right) -> tuple[str, Json]:
    """An object of that kind which does not exist yet; for the finalizers a Job that blocks its owner's deletion."""
    if right == FINALIZERS:
        owner = {"apiVersion": "dure.dev/v1alpha1", "kind": "Placement", "name": "p", "uid": "u"}
        path, body = applied(Right("create", "batch", "jobs"))
        body["metadata"]["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]
        return path, body
    containers, chosen = [{"name": "c", "image": "none"}], {"a": "b"}
    kind, version, spec = {
        "namespaces": ("Namespace", "v1", {}),
        "services": ("Service", "v1", {"ports": [{"port": 80}]}),
        "jobs": ("Job", "batch/v1", {"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}),
        "placements": (
            "Placement",
            "dure.dev/v1alpha1",
            {"uid": "u", "workload": "w", "generation": 1, "desired": {}},
        ),
        "deployments": (
            "Deployment",
            "apps/v1",
            {
                "selector": {"matchLabels": chosen},
                "template": {"metadata": {"labels": chosen}, "spec": {"containers": containers}},
            },
        ),
    }[right.resource]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    where = "" if right.resource == "namespaces" else "/namespaces/default"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}, "spec": spec}
    return f"{base}{where}/{right.resource}/new", body
