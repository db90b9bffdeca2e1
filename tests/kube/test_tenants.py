"""A tenant's own token, with the rights that `dure render tenant` gives it, reaches nothing of anybody else.

What there is to be reached is asked of the API server itself: every kind it serves, with every verb.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from dure.adapters.kube import crds, rbac
from dure.adapters.kube.rest import Api
from dure.manifest.render import Setting, render
from dure.model.errors import DureError, NotAllowed
from dure.model.tenant import Role, Tenant
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.small_world import CATALOGUE, pool
from tests.fixtures.small_world import cluster as spec_with

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OWN, OTHER = "dure-vision", "dure-search"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate")
# What Kubernetes lets everybody do who is known at all: ask who one is and what one may do.
ABOUT_ONESELF = {"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}


class Kind(NamedTuple):
    group: str
    version: str
    resource: str
    namespaced: bool

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, kueue={"test"}) as lab:
        tenants = tuple(
            Tenant(name, quota={"big": 4}, roles={f"system:serviceaccount:dure-{name}:runner": Role.SUBMITTER})
            for name in ("vision", "search")
        )
        setting = Setting(spec_with(pool("big", "big")), CATALOGUE.classes, tenants=tenants)
        objects = [one for part in render(setting, ("tenant",)).values() for one in part]
        accounts = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner", "namespace": namespace}}
            for namespace in (OWN, OTHER)
        ]
        lab["test"].apply(*crds.definitions(), rbac.readers())
        lab["test"].apply(*objects)
        lab["test"].apply(*accounts, secret(OTHER), placement(OTHER), placement(OWN))
        yield lab["test"]


def secret(namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": namespace}}


def placement(namespace: str) -> Json:
    return {
        "apiVersion": "dure.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"uid": namespace, "workload": "job", "generation": 1, "desired": {}},
    }


@pytest.fixture(scope="module")
def tenant(cluster: Cluster) -> Iterator[Api]:
    with Api.from_kubeconfig(cluster.kubeconfig_of(OWN, "runner")) as api:
        yield api


@pytest.fixture(scope="module")
def kinds(cluster: Cluster) -> list[Kind]:
    """Everything this server serves, subresources included."""
    groups = cluster.api.get("/apis")["groups"]
    versions = [("", "v1"), *((one["name"], one["preferredVersion"]["version"]) for one in groups)]
    found = []
    for group, version in versions:
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        served = cluster.api.get(base)["resources"]
        found += [Kind(group, version, one["name"], one["namespaced"]) for one in served]
    assert len(found) > 100
    return found


def allowed(api: Api, kind: Kind, verb: str, namespace: str) -> bool:
    """The authorizer's own word about who asks."""
    resource, _, part = kind.resource.partition("/")
    asked = {"group": kind.group, "resource": resource, "subresource": part, "verb": verb, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer: Json = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, dict)
    return bool(answer["status"]["allowed"])


def reach(api: Api, kinds: list[Kind], namespace: str) -> set[tuple[str, str]]:
    """What of all kinds and verbs is allowed in a namespace; everywhere if it is empty."""
    cells = [(kind, verb) for kind in kinds for verb in VERBS]
    with ThreadPoolExecutor(8) as lanes:
        answers = lanes.map(lambda cell: allowed(api, cell[0], cell[1], namespace), cells)
        return {(kind.resource, verb) for (kind, verb), yes in zip(cells, answers, strict=True) if yes}


def test_nothing_is_allowed_in_the_namespace_of_another_tenant(tenant: Api, kinds: list[Kind]) -> None:
    namespaced = [kind for kind in kinds if kind.namespaced]
    assert reach(tenant, namespaced, OTHER) == set()


def test_nothing_is_allowed_over_all_namespaces_nor_outside_of_them(tenant: Api, kinds: list[Kind]) -> None:
    found = reach(tenant, kinds, "")
    assert {resource for resource, _ in found} <= ABOUT_ONESELF
    assert {verb for _, verb in found} <= {"create"}


def test_at_home_it_may_work_and_look_but_not_bind_nor_grant(tenant: Api, kinds: list[Kind]) -> None:
    found = reach(tenant, [kind for kind in kinds if kind.namespaced], OWN)
    assert {("pods", "create"), ("jobs", "create"), ("secrets", "get"), ("placements", "list")} <= found
    changed = {resource for resource, verb in found if verb not in ("get", "list", "watch")}
    assert not changed & {"pods/binding", "roles", "rolebindings", "resourcequotas", "limitranges", "placements"}


def test_real_requests_for_things_of_others_are_refused(tenant: Api, kinds: list[Kind]) -> None:
    """Not only the authorizer's word: each kind is listed, read, watched and written for real."""
    plain = [kind for kind in kinds if "/" not in kind.resource]
    tried = 0
    for kind in plain:
        if kind.resource in ABOUT_ONESELF:
            continue
        for path in {kind.base + (f"/namespaces/{OTHER}" if kind.namespaced else ""), kind.base}:
            everything = f"{path}/{kind.resource}"
            for attempt in (
                lambda url=everything: tenant.get(url, dict),
                lambda url=everything: tenant.get(url, dict, watch="true", timeoutSeconds="1"),
                lambda url=everything: tenant.get(f"{url}/job", dict),
                lambda url=everything: tenant.post(url, {"metadata": {"name": "mine"}}, dict),
                lambda url=everything: tenant.patch(f"{url}/job", {"metadata": {"labels": {"mine": "yes"}}}, dict),
                lambda url=everything: tenant.delete(f"{url}/job"),
            ):
                assert isinstance(failure_of(attempt), NotAllowed), everything
                tried += 1
    assert tried > 500


def failure_of(attempt: object) -> DureError | None:
    try:
        attempt()  # type: ignore[operator]
    except DureError as error:
        return error
    return None


def test_a_tenant_sees_its_own_placements_only(cluster: Cluster, tenant: Api) -> None:
    base = "/apis/dure.dev/v1alpha1"
    mine: Json = tenant.get(f"{base}/namespaces/{OWN}/placements", dict)
    assert [one["metadata"]["namespace"] for one in mine["items"]] == [OWN]
    with pytest.raises(NotAllowed):
        tenant.get(f"{base}/namespaces/{OTHER}/placements/job", dict)


def test_every_tenant_has_namespace_quota_limits_network_rights_and_queue(cluster: Cluster) -> None:
    for namespace, name in ((OWN, "vision"), (OTHER, "search")):
        labels = cluster.api.get(f"/api/v1/namespaces/{namespace}")["metadata"]["labels"]
        assert labels["dure.dev/tenant"] == name
        quota = cluster.api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/dure")["spec"]["hard"]
        assert quota["requests.nvidia.com/gpu"] == "4"
        text = cluster.kubectl(
            "get", "limitranges,networkpolicies,rolebindings,localqueues", "-n", namespace, "-o", "name"
        )
        kinds = {line.split("/")[0].split(".")[0] for line in text.split()}
        assert kinds == {"limitrange", "networkpolicy", "rolebinding", "localqueue"}
