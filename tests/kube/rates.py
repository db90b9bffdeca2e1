"""Pods on GPU nodes, bound by kube-scheduler and by Dure in turn on one cluster, with one ruler.

python -m tests.kube.rates 5      # rounds of 500 pods on 50 nodes; a line for each, the ratio of the medians
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.small_world import desired, training
from tests.kube.checker import broken_gangs, overcommitted
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until, user_pod

MEMBERS = 8


class Crowd(NamedTuple):
    """Nodes, and so many pods for whole devices, for slices, and gangs of eight, that fit on them."""

    big: int
    cut: int
    whole: int
    mig: int
    gangs: int

    @property
    def pods(self) -> int:
        return self.whole + self.mig + self.gangs * MEMBERS

    def nodes(self) -> list[Json]:
        big = {"gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}
        cut = {"gpu": {"count": 4}, "mig": {"1g.5gb": 7}, "labels": {"dure.dev/pool": "cut"}}
        return [{"group": "big", "count": self.big, **big}, {"group": "cut", "count": self.cut, **cut}]


FEW = Crowd(big=8, cut=2, whole=40, mig=44, gangs=2)
MANY = Crowd(big=40, cut=10, whole=200, mig=220, gangs=10)


def theirs(cluster: Cluster, crowd: Crowd) -> float:
    """Pods per second of kube-scheduler, which gets the gangs as single pods; it is off before and after."""
    plain = [user_pod(f"gang-{one}", scheduler="default-scheduler") for one in range(crowd.gangs * MEMBERS)]
    _create(cluster, [*_singles(crowd, "default-scheduler"), *plain])
    ruler = Ruler(cluster, crowd.pods)
    cluster.start("kube-scheduler", wait=False)
    rate = ruler.rate()
    cluster.kill("kube-scheduler")
    assert overcommitted(cluster.api) == []
    _clean(cluster)
    return rate


def ours(cluster: Cluster, crowd: Crowd) -> float:
    """Pods per second of the agent; the checker finds no device given twice and no gang in parts."""
    plane = FixedPlane(*(desired(training(f"gang-{one}", gang=MEMBERS), pool="big") for one in range(crowd.gangs)))
    spec = spec_of(cluster, big="big", cut="big")
    maker = member_of(cluster, spec, plane)
    maker.cluster.start()
    for one in plane.desired:
        maker.cluster.apply(one)
    until(lambda: len(maker.cluster.fetch_state().pods) == crowd.gangs * MEMBERS, "the gangs' pods")
    maker.cluster.stop()
    _create(cluster, _singles(crowd, "dure"))
    member = member_of(cluster, spec, plane)
    ruler = Ruler(cluster, crowd.pods)
    member.start()
    rate = ruler.rate()
    assert overcommitted(cluster.api) == []
    assert broken_gangs(cluster.api) == []
    plane.desired = ()
    member.runner.wake()
    _clean(cluster)
    member.stop()
    return rate


class Ruler:
    """`tests.kube.ruler` in a process of its own, so that it takes no scheduler's time."""

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


def _singles(crowd: Crowd, scheduler: str) -> list[Json]:
    pods = [user_pod(f"whole-{one}", scheduler=scheduler) for one in range(crowd.whole)]
    slices = "nvidia.com/mig-1g.5gb"
    return pods + [user_pod(f"mig-{one}", slices, scheduler=scheduler) for one in range(crowd.mig)]


def _create(cluster: Cluster, pods: Sequence[Json]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pod: cluster.api.post("/api/v1/namespaces/default/pods", pod), pods))


def _clean(cluster: Cluster) -> None:
    # Hundreds at once may take a busy server longer than it has for an answer; it goes on all the same.
    with contextlib.suppress(OSError):
        cluster.api.delete("/api/v1/namespaces/default/pods?labelSelector=test")
    until(lambda: not cluster.api.get("/api/v1/pods")["items"], "no pods", patience_s=300.0)


def main(rounds: int) -> None:
    found: list[tuple[float, float]] = []
    with Lab(["test"], default_run_s=100_000.0, first=install_crds) as lab:
        cluster = lab["test"]
        cluster.add_nodes(MANY.nodes())
        cluster.kill("kube-scheduler")
        for number in range(rounds):
            # Whoever is second finds a warmer server, so they take turns.
            first, second = (theirs, ours) if number % 2 == 0 else (ours, theirs)
            one, two = first(cluster, MANY), second(cluster, MANY)
            found.append((two, one) if first is theirs else (one, two))
            print(f"dure {found[-1][0]:.0f}/s, kube-scheduler {found[-1][1]:.0f}/s, load {os.getloadavg()[0]:.1f}")
    dure, kube = (statistics.median(side) for side in zip(*found, strict=True))
    print(f"medians: dure {dure:.0f}/s, kube-scheduler {kube:.0f}/s, ratio {dure / kube:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
