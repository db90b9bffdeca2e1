"""The DRA driver before a real kubelet and scheduler: claims get slices of the node, each once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.adapters.kube.rest import Api
from dure.adapters.kubelet import dra
from dure.device.plugin.claims import DRIVER, Driver
from dure.device.plugin.node import NodeConfig, read_node, units
from dure.device.plugin.runner import is_healthy
from lab.cluster import Cluster
from lab.lab import Lab
from tests.lab.objects import phase_is
from tests.node.objects import PODS, Json, Listening, node_file, pod

pytestmark = [pytest.mark.lab, pytest.mark.real_node]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
OFFERED = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["a"], real_nodes={"a": 1}) as lab:
        lab["a"].apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": DRIVER},
                "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
            }
        )
        yield lab["a"]


@pytest.fixture
def slices(tmp_path: Path) -> Iterator[Listening]:
    listening = Listening(tmp_path / "slices", "v-0", "v-1")
    yield listening
    listening.close_all()


@pytest.fixture
def driver(cluster: Cluster, tmp_path: Path, slices: Listening) -> Iterator[Driver]:
    path = node_file(
        tmp_path / "node.yaml", tmp_path / "slices", {"name": "v", "slices": 2, "memory_mib": 512, "dra": True}
    )
    config = read_node(path)
    node = cluster.real[0].folder
    with Api.from_kubeconfig(cluster.kubeconfig_path) as api:
        made = Driver("real-0", units(config), config, api, node / "kubelet", node / "cdi")
        with syncing(made, config):
            yield made
    cluster.kubectl("delete", "pods,resourceclaims", "--all", "--wait=true")


@contextlib.contextmanager
def syncing(driver: Driver, config: NodeConfig) -> Iterator[None]:
    """The plugin's own loop in a thread."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(0.1):
            driver.sync(frozenset(unit.id for unit in units(config) if not is_healthy(unit, config)))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        driver.close()


def claim(name: str) -> Json:
    request = {"name": "slice", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def claiming(name: str, command: str) -> Json:
    made = pod(name, command, resourceClaims=[{"name": "slice", "resourceClaimName": name}])
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "slice"}]}
    return made


def test_a_claim_becomes_a_slice_in_the_container(cluster: Cluster, driver: Driver) -> None:
    cluster.apply(claim("one"), claiming("one", "env; ls /run/dure/*/device.sock"))
    cluster.api.until(f"{PODS}/one", phase_is("Succeeded"), what="the end of the pod")
    said = cluster.kubectl("logs", "one")
    assert "DURE_MEMORY_MIB=256" in said
    assert said.endswith("/device.sock\n")


def test_two_claims_get_two_slices_and_a_third_waits_for_one_of_them(cluster: Cluster, driver: Driver) -> None:
    names = ("a", "b", "c")
    for name in names:
        cluster.apply(claim(name), claiming(name, "exec sleep 1000"))
    listed = cluster.api.until(
        PODS,
        lambda found: sum(one["status"].get("phase") == "Running" for one in found["items"]) == 2,
        what="two running pods",
    )
    assert len(driver.held()) == 2
    running = [one["metadata"]["name"] for one in listed["items"] if one["status"].get("phase") == "Running"]
    (waiting,) = set(names) - set(running)
    cluster.kubectl("delete", "pod", running[0], "--wait=true")
    cluster.kubectl("delete", "resourceclaim", running[0], "--wait=true")
    cluster.api.until(f"{PODS}/{waiting}", phase_is("Running"), what="the pod that waited")
    assert len(driver.held()) == 2


def test_a_slice_that_falls_ill_is_not_offered_until_it_is_well(
    cluster: Cluster, driver: Driver, slices: Listening
) -> None:
    offered(cluster, "v-0", "v-1")
    slices.close("v-1")
    offered(cluster, "v-0")
    slices.open("v-1")
    offered(cluster, "v-0", "v-1")


def offered(cluster: Cluster, *wanted: str) -> None:
    """Wait until these are the devices that the scheduler may give."""

    def published(listed: Json) -> bool:
        mine = [one["spec"] for one in listed["items"] if one["spec"]["driver"] == DRIVER]
        return sorted(device["name"] for spec in mine for device in spec.get("devices", ())) == sorted(wanted)

    cluster.api.until(OFFERED, published, what=f"{len(wanted)} slices on offer")


def test_after_a_kubelet_restart_claims_are_prepared_and_none_is_given_twice(
    cluster: Cluster, driver: Driver
) -> None:
    cluster.apply(claim("before"), claiming("before", "exec sleep 1000"))
    cluster.api.until(f"{PODS}/before", phase_is("Running"), what="a running pod")
    held = driver.held()
    cluster.kill("kubelet-0")
    cluster.start("kubelet-0")
    cluster.apply(claim("after"), claiming("after", "exec sleep 1000"))
    cluster.api.until(f"{PODS}/after", phase_is("Running"), what="a pod after the restart")
    assert held.items() < driver.held().items()


def test_a_slice_that_is_prepared_is_refused_to_another_claim_and_the_same_claim_may_ask_again(
    cluster: Cluster, driver: Driver
) -> None:
    cluster.apply(claim("first"), claiming("first", "exec sleep 1000"))
    cluster.api.until(f"{PODS}/first", phase_is("Running"), what="a running pod")
    found = cluster.api.get(f"{CLAIMS}/first")
    uid = found["metadata"]["uid"]
    asked = dra.Claims((dra.Claim("default", uid, "first"),))
    assert driver.prepare(asked).claims[uid].error == ""
    twin = claim("twin")
    made = cluster.api.post(CLAIMS, twin)
    cluster.api.patch(f"{CLAIMS}/twin/status", {"status": {"allocation": found["status"]["allocation"]}})
    other = dra.Claim("default", made["metadata"]["uid"], "twin")
    assert "is held by claim" in driver.prepare(dra.Claims((other,))).claims[other.uid].error
