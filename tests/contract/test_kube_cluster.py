"""The cluster contract on real API servers, with the lab's fake nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from dure.adapters.clock import RealClock
from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.manifests import job_name
from dure.adapters.kube.progress import desired_of
from dure.adapters.kube.rest import Api
from dure.model.cluster import ClusterState, PodPhase
from dure.model.decision import Bind, Evict, Resize
from dure.model.fleet import ClusterSpec
from dure.model.report import Desired, Observed
from dure.model.workload import WorkloadType
from dure.ports import ClusterPort
from lab.cluster import Cluster
from lab.lab import Lab
from tests.contract.agent_contract import AgentContract
from tests.contract.cluster_contract import ClusterContract, Harness, pods_of
from tests.fixtures.small_world import CATALOGUE
from tests.kube.world import install_crds, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]


class SettledCluster:
    """The port under test, which returns only when the cluster's controllers have answered to what was asked."""

    def __init__(self, inner: KubeCluster) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    def tend(self) -> None:
        self.inner.tend()

    def fetch_state(self) -> ClusterState:
        return self.inner.fetch_state()

    def fetch_observed(self) -> tuple[Observed, ...]:
        return self.inner.fetch_observed()

    def apply(self, desired: Desired) -> None:
        self.inner.apply(desired)
        until(lambda: self._settled(desired.uid), f"the pods of {desired.spec.name}")

    def delete(self, uid: str) -> None:
        self.inner.delete(uid)
        until(lambda: not self._traces(uid), f"{uid} to be gone")

    def bind(self, binds: Sequence[Bind]) -> None:
        self.inner.bind(binds)

    def evict(self, evicts: Sequence[Evict]) -> None:
        self.inner.evict(evicts)
        for one in evicts:
            until(lambda uid=one.uid: self._settled(uid), f"{one.workload} after an eviction")  # type: ignore[misc]

    def resize(self, resizes: Sequence[Resize]) -> None:
        self.inner.resize(resizes)

    def explain(self, pod: str, message: str) -> None:
        self.inner.explain(pod, message)

    def _settled(self, uid: str) -> bool:
        """As many pods as wanted, none of them on its way out; none at all for a lost gang."""
        self.inner.tend()
        placement = self.inner.placements_by_uid()[uid]
        lost = placement.status.get("lostGeneration") == placement.spec["generation"]
        pods = [pod for pod in self.inner.pods.objects().values() if pod.metadata.labels.get("dure.dev/uid") == uid]
        if any(pod.leaving for pod in pods):
            return False
        if placement.status.get("applied") != placement.spec["generation"]:
            return False
        owners = {owner.name for pod in pods for owner in pod.metadata.owner_references}
        if placement.spec["type"] == WorkloadType.SERVING:
            return len(owners) == 1 and len(pods) == placement.spec["replicas"]
        return owners <= {job_name(desired_of(placement))} and len(pods) == (
            0 if lost else placement.spec["replicas"]
        )

    def _traces(self, uid: str) -> bool:
        return uid in self.inner.placements_by_uid() or bool(pods_of(self.inner, uid))


class KubeHarness:
    """One lab cluster for all tests; nodes and workloads are made for each and taken away after it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.port: SettledCluster | None = None

    def make(self, spec: ClusterSpec) -> ClusterPort:
        groups = [
            {
                "group": pool.name,
                "count": pool.nodes,
                "cpu": pool.cpu_milli // 1000,
                "memory": f"{pool.memory_mib}Mi",
                "gpu": {"count": pool.devices},
                "labels": {"dure.dev/pool": pool.name},
            }
            for pool in spec.pools
        ]
        self.cluster.add_nodes(groups)
        inner = KubeCluster(spec, CATALOGUE, Api.from_kubeconfig(self.cluster.kubeconfig_path), RealClock())
        inner.start()
        self.port = SettledCluster(inner)
        until(
            lambda: all(not node.taints for node in self._port.fetch_state().nodes), "nodes without a start-up taint"
        )
        return self.port

    def come_up(self) -> None:
        until(
            lambda: all(pod.phase is not PodPhase.STARTING for pod in self._port.fetch_state().pods), "running pods"
        )

    def finish(self, uid: str) -> None:
        self.come_up()
        for pod in pods_of(self._port, uid):
            namespace, _, name = pod.name.partition("/")
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            self.cluster.api.patch(path, {"metadata": {"annotations": {"lab.dure.dev/run-seconds": "0"}}})
        until(lambda: all(pod.phase is PodPhase.SUCCEEDED for pod in pods_of(self._port, uid)), f"{uid} to finish")

    def clean(self) -> None:
        if self.port is None:
            return
        for seen in self.port.fetch_observed():
            self.port.delete(seen.uid)
        self.port.inner.stop()
        for name in [node.name for node in self.port.fetch_state().nodes]:
            self.cluster.api.delete(f"/api/v1/nodes/{name}")

    @property
    def _port(self) -> SettledCluster:
        assert self.port is not None
        return self.port


@pytest.fixture(scope="module")
def lab_cluster() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds) as lab:
        yield lab["test"]


class TestKubeCluster(ClusterContract, AgentContract):
    @pytest.fixture
    def harness(self, lab_cluster: Cluster) -> Iterator[Harness]:
        harness = KubeHarness(lab_cluster)
        yield harness
        harness.clean()
