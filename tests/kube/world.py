"""Lab clusters with Dure's agent in this process: what the tests of the scheduler share."""

from __future__ import annotations

import time
from collections.abc import Callable

from dure.adapters.clock import RealClock
from dure.adapters.kube.cluster import install
from dure.adapters.kube.rest import Api
from dure.embedded.members import Member
from dure.model.accelerator import ShareMode
from dure.model.cluster import ClusterInfo
from dure.model.defrag import DefragWish
from dure.model.errors import Temporary
from dure.model.fleet import ClusterSpec, Connect, PoolSpec
from dure.model.report import Desired, Report
from dure.model.tariff import Tariff
from dure.ports import PlanePort
from lab.cluster import Cluster
from lab.rest import Json
from tests.fixtures.small_world import CATALOGUE

PATIENCE_S = 120.0


class FixedPlane:
    """Wants what it is told to want; `away` plays a plane that is down."""

    def __init__(self, *desired: Desired) -> None:
        self.desired = desired
        self.reports: list[Report] = []
        self.away = False

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        self._check()
        return self.desired

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        self._check()
        return None

    def write_report(self, report: Report) -> None:
        self._check()
        self.reports.append(report)

    def _check(self) -> None:
        if self.away:
            raise Temporary("the plane is away")


def until(reached: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> float:
    """Looks again and again at what other processes do; answers how many seconds it took."""
    began_s = time.monotonic()
    while not reached():
        assert time.monotonic() < began_s + patience_s, f"waited {patience_s:.0f} s in vain for {what}"
        time.sleep(0.05)
    return time.monotonic() - began_s


def spec_of(cluster: Cluster, **classes: str) -> ClusterSpec:
    """A pool for each keyword, with nodes that carry its name as their label."""
    pools = tuple(
        PoolSpec(
            name=name,
            class_name=class_name,
            tariff=Tariff(cluster.name, name, class_name),
            devices=8,
            share=(ShareMode.EXCLUSIVE,),
        )
        for name, class_name in classes.items()
    )
    return ClusterSpec(ClusterInfo(cluster.name), Connect(kubeconfig=str(cluster.kubeconfig_path)), pools)


def api_of(cluster: Cluster) -> Api:
    return Api.from_kubeconfig(cluster.kubeconfig_path)


def install_crds(cluster: Cluster) -> None:
    with api_of(cluster) as api:
        install(api)


def empty(cluster: Cluster) -> None:
    """Takes every Placement, pod and node away, so that the next test finds the cluster as new."""
    api, placements = cluster.api, "/apis/dure.dev/v1alpha1"
    for one in api.get(f"{placements}/placements")["items"]:
        meta = one["metadata"]
        api.delete(f"{placements}/namespaces/{meta['namespace']}/placements/{meta['name']}")
    until(lambda: not api.get("/apis/batch/v1/jobs")["items"], "no jobs")
    api.delete("/api/v1/namespaces/default/pods")
    until(lambda: not api.get("/api/v1/pods")["items"], "no pods")
    for node in api.get("/api/v1/nodes")["items"]:
        api.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def member_of(cluster: Cluster, spec: ClusterSpec, plane: PlanePort, api: Api | None = None) -> Member:
    return Member(spec, CATALOGUE, api or api_of(cluster), plane, RealClock())


def user_pod(
    name: str, resource: str = "nvidia.com/gpu", count: int = 1, scheduler: str = "dure", **spec: object
) -> Json:
    limits = {resource: str(count)} if count else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "yes"}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {"name": "main", "image": "lab/none", "resources": {"limits": limits, "requests": {"cpu": "100m"}}}
            ],
            **spec,
        },
    }
