"""Several agents for one real cluster: one acts, another takes over, and who was paused does nothing any more."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dure.adapters.kube.lease import fence
from lab.cluster import Cluster
from lab.errors import ApiError
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.waiting import free_port, until_done
from tests.kube.chaos import FLEET, JOB, Process
from tests.kube.checker import overcommitted
from tests.kube.world import user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/dure-system/leases/dure-agent"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["m"], off={"m": {"kube-scheduler"}}, default_run_s=100_000.0) as lab:
        cluster = lab["m"]
        cluster.add_nodes([{"group": "big", "count": 4, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dure-system"}}, *fence())
        yield cluster


class Pair:
    """A plane, reached by streams, and two agents that share its credential in folders of their own."""

    def __init__(self, cluster: Cluster, folder: Path, stack: contextlib.ExitStack) -> None:
        self.cluster, self.folder, self._stack = cluster, folder, stack
        (folder / "fleet.yaml").write_text(FLEET)
        rest, stream = free_port(), free_port()
        places = ("--fleet", str(folder / "fleet.yaml"), "--state", str(folder / "plane"))
        self.plane = Process(folder / "plane.log", "up", *places, "--port", str(rest), "--grpc-port", str(stream))
        self.plane.start()
        self._stack.callback(self.plane.close)
        token = until_done(lambda: (folder / "plane" / "token").read_text().strip(), "the plane's token")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/yaml"}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{rest}", headers=headers, trust_env=False)
        stack.callback(self.http.close)
        join = until_done(lambda: self.http.post("/v1/clusters/m/join-tokens").raise_for_status(), "a join token")
        shared = (
            "--cluster",
            "m",
            "--plane",
            f"grpc://127.0.0.1:{stream}",
            "--kubeconfig",
            str(cluster.kubeconfig_path),
        )
        self.agents = {
            name: Process(folder / f"{name}.log", "agent", *shared, *more, "--state", str(folder / name))
            for name, more in (("a", ("--join", str(join.json()["token"]))), ("b", ()))
        }
        for agent in self.agents.values():
            stack.callback(agent.close)
        self.agents["a"].start()
        until_done(lambda: self.holder() or _not_yet("no leader"), "a first leader")
        (folder / "b").mkdir()
        shutil.copy(folder / "a" / "agent-m.credential", folder / "b" / "agent-m.credential")
        self.agents["b"].start()

    def holder(self) -> str:
        """Which of the two has the lease, by the name it keeps in its folder; empty before the first one."""
        try:
            identity = self.cluster.api.get(LEASE)["spec"].get("holderIdentity", "")
        except ApiError:
            return ""
        kept = {name: self.folder / name / "agent-m.id" for name in self.agents}
        return next(
            (name for name, path in kept.items() if path.exists() and path.read_text().strip() == identity), ""
        )

    def token(self) -> str:
        spec = self.cluster.api.get(LEASE)["spec"]
        return f"{spec['holderIdentity']}/{spec['leaseTransitions']}"

    def run(self, name: str) -> set[str]:
        """A gang of four until all are bound; answers in which terms of office that was done."""
        text = JOB.replace("NAME", name).replace("GANG", "4")
        until_done(lambda: self.http.post("/v1/workloads", content=text).raise_for_status(), f"{name} to be taken")
        pods = until_done(lambda: self._bound(name), f"{name} to be bound")
        return {pod["metadata"]["annotations"]["dure.dev/leader"] for pod in pods}

    def _bound(self, name: str) -> list[Json]:
        pods: list[Json] = self.cluster.api.get(f"/api/v1/pods?labelSelector=dure.dev/workload%3D{name}")["items"]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        return bound if len(bound) == 4 else _not_yet(f"{len(bound)} of {len(pods)}")


def _not_yet(what: str) -> Any:
    raise ValueError(what)


@pytest.fixture
def pair(cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        yield Pair(cluster, tmp_path, stack)


def test_one_acts_the_other_takes_over_and_a_paused_one_does_nothing_any_more(pair: Pair) -> None:
    first = pair.holder()
    assert pair.run("alone") == {pair.token()}
    second = next(name for name in pair.agents if name != first)
    ready = pair.folder / second / "agent-m.id"
    until_done(lambda: ready.exists() or _not_yet("not there"), "the second agent")

    pair.agents[first].kill()
    assert pair.run("after-the-kill") == {pair.token()}
    assert pair.holder() == second

    pair.agents[first].start()
    paused = pair.agents[second].pid
    stale = pair.token()
    os.kill(paused, signal.SIGSTOP)
    try:
        assert pair.run("after-the-pause") == {pair.token()}
        assert pair.holder() == first
    finally:
        os.kill(paused, signal.SIGCONT)
    after = [pair.run(f"after-it-woke-{one}") for one in range(3)]
    assert all(stale not in terms for terms in after)
    assert overcommitted(pair.cluster.api) == []


def test_the_server_itself_refuses_a_bind_of_an_earlier_term(cluster: Cluster) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "dure-agent", "namespace": "dure-system"},
        "spec": {"holderIdentity": "heir", "leaseTransitions": 8, "leaseDurationSeconds": 15},
    }
    cluster.apply(lease)
    for number in range(2):
        cluster.api.post(PODS, user_pod(f"fenced-{number}"))
    until_done(lambda: refused(lambda: bind(cluster, "fenced-0", "paused/7")), "the policy to be in force")
    until_done(lambda: bind(cluster, "fenced-0", "heir/8"), "a bind of the present term")
    with pytest.raises(ApiError, match="does not lead"):
        bind(cluster, "fenced-1", "heir/7")
    bind(cluster, "fenced-1", "")
    for number in range(2):
        assert cluster.api.get(f"{PODS}/fenced-{number}")["spec"]["nodeName"] == "big-0"
        with pytest.raises(ApiError, match="does not lead"):
            evict(cluster, f"fenced-{number}", "paused/7")
        evict(cluster, f"fenced-{number}", "heir/8")


def bind(cluster: Cluster, pod: str, term: str) -> bool:
    cluster.api.post(f"{PODS}/{pod}/binding", {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": _named(pod, term),
        "target": {"apiVersion": "v1", "kind": "Node", "name": "big-0"},
    })  # fmt: skip
    return True


def evict(cluster: Cluster, pod: str, term: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": _named(pod, term)}
    cluster.api.post(f"{PODS}/{pod}/eviction", body)


def _named(pod: str, term: str) -> Json:
    return {"name": pod, "namespace": "default", "annotations": {"dure.dev/leader": term} if term else {}}


def refused(do: Callable[[], object]) -> bool:
    """Once it is; a policy that is new takes a moment to be in force, and dry runs would not tell."""
    try:
        do()
    except ApiError as error:
        if "does not lead" in str(error):
            return True
        raise ValueError(str(error)) from error
    raise AssertionError("the server took it")
