"""What a host cluster gets to see of a virtual one."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.virtual.names import host_name
from dure.adapters.virtual.translate import (
    data_down,
    fixed,
    node_up,
    origin,
    pod_down,
    pod_obstacle,
    references,
    service_down,
    status_up,
)

Json = dict[str, Any]
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)


def pod(**spec: Any) -> Json:
    return {
        "metadata": {"name": "a", "namespace": "shop", "uid": "u1", "finalizers": ["f"],
                     "labels": {"app": "x", "dure.dev/tenant": "other"}, "ownerReferences": [{"name": "rs"}]},
        "spec": {"containers": [{"name": "main", "image": "i"}], **spec},
    }  # fmt: skip


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_different_objects_never_have_the_same_host_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (host_name(*one) == host_name(*other)) == (one == other)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", host_name(*one))


def test_names_that_read_the_same_when_joined_are_told_apart() -> None:
    assert host_name("c", "a-x-b") != host_name("b-x-c", "a")


def test_nothing_of_the_host_can_be_named_by_a_pod() -> None:
    made = pod_down(
        pod(nodeName="n", serviceAccountName="admin", priorityClassName="system-node-critical", priority=9), "robots"
    )
    assert not {"nodeName", "serviceAccountName", "priorityClassName", "priority"} & made["spec"].keys()
    assert made["spec"]["automountServiceAccountToken"] is False
    assert not {"ownerReferences", "finalizers"} & made["metadata"].keys()
    assert made["metadata"]["labels"] == {
        "app": "x", "dure.dev/tenant": "robots", "dure.dev/virtual-namespace": "shop",
    }  # fmt: skip
    assert origin(made) == ("shop", "a", "u1")


def test_references_lead_to_the_tenants_own_copies_and_the_servers_token_stays_away() -> None:
    token = {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    mixed = {"name": "m", "projected": {"sources": [{"configMap": {"name": "c2"}}, {"serviceAccountToken": {}}]}}
    container = {
        "name": "main", "image": "i",
        "env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "P", "value": "v"}],
        "envFrom": [{"configMapRef": {"name": "c3"}}],
        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}, {"name": "s", "mountPath": "/s"}],
    }  # fmt: skip
    found = pod(
        containers=[container],
        volumes=[token, mixed, {"name": "s", "secret": {"secretName": "s1"}}, {"name": "e", "emptyDir": {}}],
        imagePullSecrets=[{"name": "s3"}],
    )
    spec = pod_down(found, "robots")["spec"]
    own = {name: host_name("shop", name) for name in ("c2", "c3", "s1", "s2", "s3")}
    assert spec["volumes"] == [
        {"name": "m", "projected": {"sources": [{"configMap": {"name": own["c2"]}}]}},
        {"name": "s", "secret": {"secretName": own["s1"]}},
        {"name": "e", "emptyDir": {}},
    ]
    [main] = spec["containers"]
    assert main["env"] == [
        {"name": "K", "valueFrom": {"secretKeyRef": {"name": own["s2"], "key": "k"}}},
        {"name": "ME", "value": "a"},
        {"name": "P", "value": "v"},
    ]
    assert main["envFrom"] == [{"configMapRef": {"name": own["c3"]}}]
    assert main["volumeMounts"] == [{"name": "s", "mountPath": "/s"}]
    assert spec["imagePullSecrets"] == [{"name": own["s3"]}]
    assert set(references(found)) == {
        ("configmaps", "c2"), ("configmaps", "c3"), ("secrets", "s1"), ("secrets", "s2"), ("secrets", "s3"),
    }  # fmt: skip


def test_what_is_not_carried_is_said() -> None:
    assert pod_obstacle(pod()) == ""
    assert "resource claims" in pod_obstacle(pod(resourceClaims=[{"name": "gpu"}]))


def test_volumes_of_a_pod_are_the_tenants_own_claims() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    scratch = {"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    assert pod_down(pod(volumes=[claim, scratch]), "robots")["spec"]["volumes"] == [
        {"name": "v", "persistentVolumeClaim": {"claimName": host_name("shop", "c"), "readOnly": True}},
        {"name": "s", "persistentVolumeClaim": {"claimName": host_name("shop", "a-s")}},
    ]


def test_a_service_keeps_its_address_where_the_host_has_that_range() -> None:
    found = {**pod(), "spec": {"ports": [], "clusterIP": "10.112.0.9"}}
    made = service_down(found, "robots", [ip_network("10.96.0.0/16"), ip_network("10.112.0.0/22")])
    assert made["spec"]["clusterIP"] == "10.112.0.9"
    assert "clusterIP" not in service_down(found, "robots", [ip_network("10.96.0.0/16")])["spec"]
    assert fixed({"spec": {"clusterIP": "10.96.0.1"}}, made)
    assert not fixed({"spec": {"clusterIP": "10.112.0.9"}}, made)
    assert not fixed({"spec": {"clusterIP": "10.96.0.1"}}, service_down(found, "robots"))


def test_a_service_selects_its_own_virtual_namespace_alone() -> None:
    found = pod()
    found["spec"] = {"selector": {"app": "x"}, "ports": [{"port": 80, "nodePort": 30000}], "clusterIP": "10.112.0.9"}
    made = service_down(found, "robots")["spec"]
    assert made == {"selector": {"app": "x", "dure.dev/virtual-namespace": "shop"}, "ports": [{"port": 80}]}
    found["spec"]["clusterIP"] = "None"
    assert service_down(found, "robots")["spec"]["clusterIP"] == "None"


def test_a_tokens_secret_is_an_ordinary_one_in_the_host() -> None:
    found = {**pod(), "type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}}
    assert data_down(found, "Secret", "robots")["type"] == "Opaque"


def test_what_a_tenant_sees_of_host_objects_is_only_theirs() -> None:
    assert status_up({"status": {"phase": "Running", "qosClass": "Burstable"}}) == {"phase": "Running"}
    node, status = node_up(
        {
            "metadata": {"name": "n", "labels": {"zone": "a", "dure.dev/pool": "p"}, "annotations": {"secret": "x"}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"capacity": {"cpu": "8"}, "images": [{"names": ["other-tenant"]}], "addresses": [{}]},
        },
        ("127.0.0.1", 4321),
    )
    assert node["metadata"] == {"name": "n", "labels": {"zone": "a"}}
    assert status == {
        "capacity": {"cpu": "8"},
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 4321}},
    }
