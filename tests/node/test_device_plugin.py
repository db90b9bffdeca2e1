"""The device plugin before a real kubelet: what it offers is counted, given, injected, and given once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.device.plugin.node import read_node
from dure.device.plugin.runner import Plugins
from lab.cluster import Cluster
from lab.lab import Lab
from tests.lab.objects import phase_is
from tests.node.objects import PODS, Listening, allocatable, node_file, pod

pytestmark = [pytest.mark.lab, pytest.mark.real_node]
VIRTUAL = "dure.dev/virtual"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["a"], real_nodes={"a": 1}) as lab:
        yield lab["a"]


@pytest.fixture
def slices(tmp_path: Path) -> Iterator[Listening]:
    listening = Listening(tmp_path / "slices", *(f"v{device}-{one}" for device in range(2) for one in range(2)))
    yield listening
    listening.close_all()


@pytest.fixture
def plugins(cluster: Cluster, tmp_path: Path, slices: Listening) -> Iterator[Plugins]:
    devices = [{"name": f"v{one}", "slices": 2, "memory_mib": 512, "link_group": one} for one in range(2)]
    path = node_file(tmp_path / "node.yaml", tmp_path / "slices", *devices)
    with turning(Plugins(read_node(path), cluster.real[0].folder / "kubelet")) as running:
        allocatable(cluster, VIRTUAL, 4)
        yield running
    cluster.kubectl("delete", "pods", "--all", "--wait=true")


@contextlib.contextmanager
def turning(plugins: Plugins) -> Iterator[Plugins]:
    """The plugin's own loop in a thread."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(0.1):
            plugins.turn()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield plugins
    finally:
        stop.set()
        thread.join()
        plugins.close()


def held(plugins: Plugins, cluster: Cluster, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Unit to pod, as soon as it is what is wanted."""
    found: dict[str, str] = {}

    def look(_: object) -> bool:
        found.clear()
        found.update({one: holder.owner.pod for one, holder in plugins.book.held.items() if holder.owner})
        return wanted(found)

    cluster.api.until("/version", look, what="the holders of units")
    return found


def test_a_container_gets_socket_slice_and_limits(cluster: Cluster, plugins: Plugins) -> None:
    cluster.apply(pod("one", "env; ls /run/dure/*/device.sock", VIRTUAL))
    cluster.api.until(f"{PODS}/one", phase_is("Succeeded"), what="the end of the pod")
    said = cluster.kubectl("logs", "one")
    assert "DURE_COMPUTE_MILLI=500" in said
    assert "DURE_MEMORY_MIB=256" in said
    assert "DURE_DEVICE=/run/dure/v0-0/device.sock" in said
    assert said.endswith("/run/dure/v0-0/device.sock\n")


def test_two_units_come_from_one_device(cluster: Cluster, plugins: Plugins) -> None:
    cluster.apply(pod("single", "exec sleep 1000", VIRTUAL))
    cluster.api.until(f"{PODS}/single", phase_is("Running"), what="a running pod")
    cluster.apply(pod("pair", "exec sleep 1000", VIRTUAL, count=2))
    cluster.api.until(f"{PODS}/pair", phase_is("Running"), what="a running pod")
    found = held(plugins, cluster, lambda now: len(now) == 3)
    assert {one.split("-")[0] for one, name in found.items() if name == "pair"} == {"v1"}


def test_two_devices_come_from_one_link_group(cluster: Cluster, tmp_path: Path) -> None:
    groups = {"p": 0, "q": 1, "r": 0, "s": 1}
    devices = [{"name": name, "memory_mib": 256, "link_group": group} for name, group in groups.items()]
    path = node_file(tmp_path / "node.yaml", tmp_path / "slices", *devices)
    listening = Listening(tmp_path / "slices", *(f"{name}-0" for name in groups))
    with turning(Plugins(read_node(path), cluster.real[0].folder / "kubelet")) as plugins:
        allocatable(cluster, VIRTUAL, 4)
        for name, count in (("single", 1), ("pair", 2)):
            cluster.apply(pod(name, "exec sleep 1000", VIRTUAL, count=count))
            cluster.api.until(f"{PODS}/{name}", phase_is("Running"), what="a running pod")
        found = held(plugins, cluster, lambda now: len(now) == 3)
    cluster.kubectl("delete", "pods", "--all", "--wait=true")
    listening.close_all()
    assert len({groups[one.split("-")[0]] for one, name in found.items() if name == "pair"}) == 1


def test_a_unit_that_falls_ill_is_not_given_until_it_is_well(
    cluster: Cluster, plugins: Plugins, slices: Listening
) -> None:
    slices.close("v1-0")
    allocatable(cluster, VIRTUAL, 3)
    slices.open("v1-0")
    allocatable(cluster, VIRTUAL, 4)


def test_after_a_kubelet_restart_it_is_registered_again_and_nothing_is_given_twice(
    cluster: Cluster, plugins: Plugins
) -> None:
    cluster.apply(*(pod(f"old-{one}", "exec sleep 1000", VIRTUAL) for one in range(3)))
    for one in range(3):
        cluster.api.until(f"{PODS}/old-{one}", phase_is("Running"), what="a running pod")
    before = held(plugins, cluster, lambda now: len(now) == 3)
    cluster.kill("kubelet-0")
    cluster.start("kubelet-0")
    cluster.apply(pod("new", "exec sleep 1000", VIRTUAL))
    cluster.api.until(f"{PODS}/new", phase_is("Running"), what="a pod that gets the last unit")
    after = held(plugins, cluster, lambda now: len(now) == 4)
    assert before.items() <= after.items()


def test_a_plugin_that_starts_anew_knows_who_holds_what(cluster: Cluster, plugins: Plugins, tmp_path: Path) -> None:
    cluster.apply(pod("kept", "exec sleep 1000", VIRTUAL))
    cluster.api.until(f"{PODS}/kept", phase_is("Running"), what="a running pod")
    found = held(plugins, cluster, lambda now: len(now) == 1)
    again = Plugins(read_node(tmp_path / "node.yaml"), cluster.real[0].folder / "kubelet")
    assert {one: holder.owner.pod for one, holder in again.book.held.items() if holder.owner} == found
    cluster.kubectl("delete", "pod", "kept", "--wait=true")
    held(plugins, cluster, lambda now: not now)
