"""Containers of two tenants on slices of one accelerator: both compute, within their parts, and leave at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.lab import Lab
from tests.kube.world import until
from tests.lab.objects import has_condition
from tests.node.serving import Client, NodeProcesses, node_processes, server_pod, serving_image
from tests.node.traffic import CORES, FEW, PROBE, SLICES, Load, p95_ms

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
TEAMS = ("red", "blue")
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Lab(["a"], real_nodes={"a": 1}) as lab:
        found = lab["a"]
        for team in TEAMS:
            found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
            path = f"/api/v1/namespaces/{team}/serviceaccounts/default"
            found.api.until(path, lambda _: True, what="the namespace's account")
        found.real[0].load(serving_image(tmp_path_factory.mktemp("image")))
        yield found


@pytest.fixture(params=[(2, 0)], ids=["halves"])
def node(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[NodeProcesses]:
    """Slices, and cores that they share."""
    with node_processes(cluster, tmp_path / "node", *request.param) as made:
        yield made
        for team in TEAMS:
            cluster.kubectl("delete", "pods", "--all", "-n", team, "--grace-period=0", "--force")
        until(lambda: not made.held(), "the units are free again")


def servers(cluster: Cluster) -> dict[str, Client]:
    cluster.apply(*(server_pod("server", team) for team in TEAMS))
    return {team: Client(ready(cluster, team)) for team in TEAMS}


def ready(cluster: Cluster, team: str) -> str:
    path = f"/api/v1/namespaces/{team}/pods/server"
    found = cluster.api.until(path, has_condition("Ready"), what="a server that is ready")
    return str(found["status"]["podIP"])


def kill_container(cluster: Cluster, team: str) -> None:
    """kill -9 of its process, seen from outside."""
    found = cluster.api.get(f"/api/v1/namespaces/{team}/pods/server")
    container = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    node = cluster.real[0]
    node.run(node.ctr, "--address", str(node.address), "-n", "k8s.io", "tasks", "kill", "-s", "KILL", container)


def ask_often(client: Client, times: int) -> list[int]:
    return [client.infer() for _ in range(times)]


def test_two_tenants_compute_side_by_side_and_a_killed_container_frees_its_slice(
    cluster: Cluster, node: NodeProcesses
) -> None:
    clients = servers(cluster)
    answers: dict[str, list[int]] = {}
    threads = [
        threading.Thread(target=lambda team=team: answers.update({team: ask_often(clients[team], 100)}))
        for team in TEAMS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {team: [200] * 100 for team in TEAMS}
    until(lambda: len(node.held()) == 2, "both units have a holder")
    told = clients["red"].get("/metrics")[1].decode()
    assert 'vllm:e2e_request_latency_seconds_count{model_name="recommender"} 100.0' in told
    freed = node.daemon.log.read_text().count("a slice is free")
    kill_container(cluster, "red")
    until(lambda: node.daemon.log.read_text().count("a slice is free") > freed, "the daemon lets go")
    assert clients["blue"].infer() == 200
    until(lambda: Client(ready(cluster, "red")).infer() == 200, "the container that was started again")
    assert len(node.held()) == 2


@pytest.mark.parametrize("node", [(SLICES, CORES)], ids=["small"], indirect=True)
def test_a_greedy_tenant_gets_no_more_than_its_slice_and_slows_nobody_else(
    cluster: Cluster, node: NodeProcesses
) -> None:
    loads = {team: Load(client.host, client.port) for team, client in servers(cluster).items()}
    blue, red = loads["blue"], loads["red"]
    alone, begin_s = blue.capacity(FEW, PROBE, PATIENCE_S), blue.now_s
    try:
        # Four times as many inside: whoever serves them in the order of their coming gives it four fifths.
        red.offer(4 * FEW)
        until(lambda: len(red.seen) >= PROBE, "a backlog", PATIENCE_S)
        begin = len(red.seen), red.now_s
        beside_s, beside = blue.now_s, blue.capacity(FEW, PROBE, PATIENCE_S)
        greedy = (len(red.seen) - begin[0]) / (red.now_s - begin[1])
    finally:
        for load in loads.values():
            load.stop()
    waited = p95_ms(blue.between(0.0, begin_s)), p95_ms(blue.between(beside_s, blue.now_s))
    print(f"answers/s: {alone:.1f} alone, {beside:.1f} beside a greedy one, which gets {greedy:.1f}")
    print(f"p95: {waited[0]} ms alone, {waited[1]} ms beside it")
    assert greedy < 1.5 * beside
    assert [load.failed for load in loads.values()] == [[], []]


def test_a_killed_daemon_is_recovered_from_and_no_slice_is_lost(cluster: Cluster, node: NodeProcesses) -> None:
    clients = servers(cluster)
    until(lambda: len(node.held()) == 2, "both units have a holder")
    before = node.held()
    node.daemon.kill()
    assert clients["red"].infer() in (503, 0)
    node.daemon.start()
    for team in TEAMS:
        until(lambda team=team: clients[team].infer() == 200, f"{team} computes again")  # type: ignore[misc]
    assert node.held() == before


def test_kubelet_and_runtime_may_be_killed_while_tenants_compute(cluster: Cluster, node: NodeProcesses) -> None:
    clients = servers(cluster)
    until(lambda: len(node.held()) == 2, "both units have a holder")
    before = node.held()
    for program in ("kubelet-0", "containerd-0"):
        cluster.kill(program)
        assert {team: clients[team].infer() for team in TEAMS} == {"red": 200, "blue": 200}
    for program in ("containerd-0", "kubelet-0"):
        cluster.start(program)
    node.plugin.kill()
    node.plugin.start()
    for team in TEAMS:
        ready(cluster, team)
    assert {team: clients[team].infer() for team in TEAMS} == {"red": 200, "blue": 200}
    assert node.held() == before
