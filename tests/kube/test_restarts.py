"""The mirrors over restarts of API server and etcd: no event missed, none seen twice, no needless list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dure.adapters.clock import RealClock
from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.seats import Seat
from dure.model.decision import Bind
from dure.model.errors import Temporary
from lab.cluster import Cluster
from lab.errors import ApiError
from lab.lab import Lab
from tests.fixtures.small_world import CATALOGUE, desired, training, whole
from tests.kube.checker import bound_pods, overcommitted
from tests.kube.world import api_of, install_crds, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds) as lab:
        lab["test"].add_nodes([{"group": "big", "count": 2, "gpu": {"count": 4}, "labels": {"dure.dev/pool": "big"}}])
        yield lab


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return lab["test"]


@pytest.fixture
def port(cluster: Cluster) -> Iterator[KubeCluster]:
    port = KubeCluster(spec_of(cluster, big="big"), CATALOGUE, api_of(cluster), RealClock())
    port.start()
    yield port
    for seen in port.fetch_observed():
        port.delete(seen.uid)
    until(lambda: port.fetch_observed() == () and port.fetch_state().pods == (), "a clean cluster")
    port.stop()


def labelled(cluster: Cluster, value: str) -> None:
    cluster.api.patch("/api/v1/nodes/big-0", {"metadata": {"labels": {"round": value}}})


def seen(port: KubeCluster) -> str:
    return next(node.labels.get("round", "") for node in port.fetch_state().nodes if node.name == "big-0")


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd"])
def test_a_change_during_a_restart_is_seen_once_the_server_is_back(
    lab: Lab, cluster: Cluster, port: KubeCluster, victim: str
) -> None:
    labelled(cluster, f"before-{victim}")
    until(lambda: seen(port) == f"before-{victim}", "the first label")
    if victim == "etcd":
        lab.etcd.kill()
        lab.etcd.start()
    else:
        cluster.restart(victim)
    until(lambda: _written(cluster, f"after-{victim}"), "a write")
    until(lambda: seen(port) == f"after-{victim}", "the second label")


def test_the_same_state_again_is_no_new_version(port: KubeCluster) -> None:
    first = port.fetch_state()
    assert port.fetch_state().version == first.version


def test_a_gang_whose_agent_died_after_the_promise_is_bound_to_the_end_by_the_next(
    cluster: Cluster, port: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port.apply(desired(training("t", gang=4)))
    until(lambda: len(port.fetch_state().pods) == 4, "four pods")
    pods = sorted(port.fetch_state().pods, key=lambda pod: pod.index)
    node = next(node for node in port.fetch_state().nodes if node.name == "big-0")
    real = port.bind_pod
    calls: list[str] = []

    def dies_after_two(name: str, seat: Seat) -> None:
        calls.append(name)
        if len(calls) > 2:
            raise Temporary("killed here")
        real(name, seat)

    monkeypatch.setattr(port, "bind_pod", dies_after_two)
    seats = [Bind(pod.name, pod.uid, node.name, whole(dev.id)) for pod, dev in zip(pods, node.devices, strict=True)]
    port.bind(seats)
    assert len(bound_pods(cluster.api)) == 2

    heir = KubeCluster(spec_of(cluster, big="big"), CATALOGUE, api_of(cluster), RealClock())
    heir.start()
    assert all(pod.holds for pod in heir.fetch_state().pods), "nobody else may get the promised seats"
    heir.tend()
    heir.stop()
    assert len(bound_pods(cluster.api)) == 4
    assert overcommitted(cluster.api) == []


def test_a_gang_whose_job_was_made_but_not_noted_is_bound_to_the_end(
    cluster: Cluster, port: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job's template may not be changed any more, so whoever comes next must take it as it is."""

    def server_away(*_: object) -> None:
        raise Temporary("connection lost")

    with monkeypatch.context() as patched:
        patched.setattr(port._upkeep, "write_status", server_away)
        with pytest.raises(Temporary):
            port.apply(desired(training("t", gang=4)))
    until(lambda: len(port.fetch_state().pods) == 4, "four pods")
    pods = sorted(port.fetch_state().pods, key=lambda pod: pod.index)
    node = next(node for node in port.fetch_state().nodes if node.name == "big-0")
    seats = [Bind(pod.name, pod.uid, node.name, whole(dev.id)) for pod, dev in zip(pods, node.devices, strict=True)]
    with monkeypatch.context() as patched:
        patched.setattr(port, "bind_pod", server_away)
        port.bind(seats)
    assert bound_pods(cluster.api) == []
    port.tend()
    port.tend()
    assert len(bound_pods(cluster.api)) == 4
    (placement,) = port.placements.objects().values()
    assert placement.status["applied"] == 1


def test_a_bind_whose_answer_was_lost_is_not_given_to_anybody_else(
    cluster: Cluster, port: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port.apply(desired(training("t")))
    until(lambda: len(port.fetch_state().pods) == 1, "a pod")
    (pod,) = port.fetch_state().pods
    real = port.api.send

    def answer_lost(path: str, body: object) -> None:
        real(path, body)
        raise Temporary("connection lost")

    monkeypatch.setattr(port.api, "send", answer_lost)
    with pytest.raises(Temporary):
        port.bind([Bind(pod.name, pod.uid, "big-0", whole("big-0.0"))])
    monkeypatch.undo()
    (pod,) = port.fetch_state().pods
    assert (pod.node, [part.device for part in pod.slices]) == ("big-0", ["big-0.0"])


def _written(cluster: Cluster, value: str) -> bool:
    try:
        labelled(cluster, value)
    except (ApiError, OSError):
        return False
    return True
