"""Services of a tenant by name, in the /etc/hosts of its pods."""

from __future__ import annotations

from typing import Any

from dure.adapters.virtual.service_names import MOST, aliases
from dure.adapters.virtual.translate import pod_down, service_down

Json = dict[str, Any]


def hosted(namespace: str, name: str, address: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": "u"}
    made = service_down({"metadata": metadata, "spec": {"ports": [{"port": 80}]}}, "robots")
    made["spec"]["clusterIP"] = address
    return made


def test_a_service_has_its_usual_names_with_the_address_that_the_host_gave() -> None:
    found = aliases("default", [hosted("other", "db", "10.96.0.7"), hosted("default", "shop", "10.96.0.9")])
    assert found == [
        {
            "ip": "10.96.0.9",
            "hostnames": ["shop.default.svc.cluster.local", "shop.default.svc", "shop.default", "shop"],
        },
        {"ip": "10.96.0.7", "hostnames": ["db.other.svc.cluster.local", "db.other.svc", "db.other"]},
    ]


def test_what_has_no_address_of_its_own_has_no_name() -> None:
    assert aliases("default", [hosted("default", "peers", "None"), hosted("default", "elsewhere", "")]) == []


def test_of_too_many_the_pods_own_namespace_comes_first() -> None:
    crowd = [hosted("a", f"s{number}", f"10.96.{number // 256}.{number % 256}") for number in range(MOST + 5)]
    found = aliases("z", [*crowd, hosted("z", "mine", "10.97.0.1")])
    assert len(found) == MOST
    assert found[0]["hostnames"][-1] == "mine"


def test_a_tenants_own_lines_come_first_and_a_pod_in_the_hosts_network_gets_none() -> None:
    found = aliases("shop", [hosted("shop", "db", "10.96.0.7")])
    pod = {
        "metadata": {"name": "a", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}]},
    }
    assert pod_down(pod, "robots", found)["spec"]["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["db"]}, *found]
    plain = {**pod, "spec": {"containers": [], "hostNetwork": True}}
    assert "hostAliases" not in pod_down(plain, "robots", found)["spec"]
