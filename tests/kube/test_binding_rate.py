"""50 GPU nodes, 500 pods: everything bound, nothing twice, and how fast beside kube-scheduler in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dure.model.report import Desired
from lab.cluster import Cluster
from lab.fixtures import LabFactory
from lab.rest import Json
from tests.fixtures.small_world import desired, training
from tests.kube.checker import broken_gangs, overcommitted
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES = [
    {"group": "big", "count": 40, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}},
    {
        "group": "cut",
        "count": 10,
        "gpu": {"count": 4},
        "mig": {"1g.5gb": 7},
        "labels": {"dure.dev/pool": "cut"},
    },
]
WHOLE, MIG, GANGS, MEMBERS = 200, 220, 10, 8


def singles(scheduler: str) -> list[Json]:
    pods = [user_pod(f"whole-{one}", scheduler=scheduler) for one in range(WHOLE)]
    return pods + [user_pod(f"mig-{one}", "nvidia.com/mig-1g.5gb", scheduler=scheduler) for one in range(MIG)]


def create(cluster: Cluster, pods: Sequence[Json]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pod: cluster.api.post("/api/v1/namespaces/default/pods", pod), pods))


class Ruler:
    """`tests.kube.ruler` in a process of its own, so that it costs neither scheduler anything of its own."""

    def __init__(self, cluster: Cluster, wanted: int) -> None:
        command = [sys.executable, "-m", "tests.kube.ruler", str(cluster.kubeconfig_path), str(wanted)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._line() == "ready"

    def rate(self) -> float:
        with self._process:
            return float(json.loads(self._line())["rate"])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def gangs() -> list[Desired]:
    return [desired(training(f"gang-{one}", gang=MEMBERS), pool="big") for one in range(GANGS)]


def clean(cluster: Cluster) -> None:
    cluster.api.delete("/api/v1/namespaces/default/pods?labelSelector=test")
    until(lambda: not cluster.api.get("/api/v1/pods")["items"], "no pods")


def test_500_pods_on_50_nodes_are_bound_rightly_and_as_fast_as_by_kube_scheduler(
    lab_factory: LabFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = lab_factory(["test"], default_run_s=100_000.0)["test"]
    cluster.add_nodes(NODES)
    total = WHOLE + MIG + GANGS * MEMBERS
    cluster.kill("kube-scheduler")
    plain = [user_pod(f"gang-{one}", scheduler="default-scheduler") for one in range(GANGS * MEMBERS)]
    create(cluster, [*singles("default-scheduler"), *plain])
    ruler = Ruler(cluster, total)
    cluster.start("kube-scheduler", wait=False)
    theirs = ruler.rate()
    assert overcommitted(cluster.api) == []
    cluster.kill("kube-scheduler")
    clean(cluster)

    install_crds(cluster)
    plane = FixedPlane(*gangs())
    spec = spec_of(cluster, big="big", cut="big")
    maker = member_of(cluster, spec, plane)
    maker.cluster.start()
    for one in plane.desired:
        maker.cluster.apply(one)
    until(lambda: len(maker.cluster.fetch_state().pods) == GANGS * MEMBERS, "the gangs' pods")
    maker.cluster.stop()
    create(cluster, singles("dure"))
    member = member_of(cluster, spec, plane)
    ruler = Ruler(cluster, total)
    member.start()
    ours = ruler.rate()
    member.stop()

    assert overcommitted(cluster.api) == []
    assert broken_gangs(cluster.api) == []
    with capsys.disabled():
        print(f"\nbinding rate: dure {ours:.0f}/s, kube-scheduler {theirs:.0f}/s, ratio {ours / theirs:.2f}")
