"""Embedded and real agree: the same workloads on a memory cluster and on a lab cluster of the same nodes."""

from __future__ import annotations

import pytest

from dure.adapters.clock import RealClock, VirtualClock
from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.agent.loop import Agent
from dure.model.accelerator import ShareMode
from dure.model.report import Desired
from dure.ports import ClusterPort
from lab.fixtures import LabFactory
from tests.contract.cluster_contract import REQUIRED, mates, ruled
from tests.fixtures.small_world import CATALOGUE, cluster, desired, fraction, pool, service, training
from tests.kube.world import FixedPlane, api_of, install_crds, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

POOLS = (pool("big", "big", nodes=3, devices=6), pool("small", "small", nodes=2, devices=2))
WANTED: tuple[Desired, ...] = (
    desired(training("a", gang=3)),
    desired(training("b", devices=4)),
    desired(fraction("c"), mode=ShareMode.MIG),
    desired(fraction("d", memory_mib=9000), mode=ShareMode.MIG),
    desired(fraction("e"), pool="small", mode=ShareMode.MPS),
    desired(service("f", replicas=1), pool="small"),
    desired(training("g", gang=2), pool="small"),
    ruled(training("h", gang=2), affinity={"podAntiAffinity": {REQUIRED: [mates("h")]}}),
    ruled(training("i"), affinity={"podAffinity": {REQUIRED: [mates("h")]}}),
    ruled(
        training("j"), topologySpreadConstraints=[{**mates("j"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    ),
)
Seats = dict[tuple[str, int], tuple[str, tuple[str, ...], tuple[int, ...]]]


def seats(port: ClusterPort) -> Seats:
    return {
        (pod.workload, pod.index): (
            pod.node,
            tuple(part.device for part in pod.slices),
            tuple(part.start for part in pod.slices),
        )
        for pod in port.fetch_state().pods
        if pod.node
    }


def test_the_same_workloads_get_the_same_seats_on_both(lab_factory: LabFactory) -> None:
    clock = VirtualClock(1000.0)
    spec = cluster(*POOLS)
    memory = MemoryCluster(spec, CATALOGUE, clock, hazards=CALM, provision=False)
    lab = lab_factory(["test"], off={"test": {"kube-scheduler"}}, default_run_s=100_000.0, first=install_crds)["test"]
    groups = [
        {"group": one.name, "count": one.nodes, "gpu": {"count": one.devices}, "labels": {"dure.dev/pool": one.name}}
        for one in POOLS
    ]
    lab.add_nodes(groups)
    real = KubeCluster(spec, CATALOGUE, api_of(lab), RealClock())
    real.start()
    for number in range(1, len(WANTED) + 1):
        plane = FixedPlane(*WANTED[:number])
        newest = WANTED[number - 1]
        Agent(memory, plane, CATALOGUE, spec.pools, clock).cycle()
        real.apply(newest)
        pods = newest.placement.replicas
        until(lambda uid=newest.uid, pods=pods: len(real.pods_by_uid().get(uid, ())) == pods, "its pods")  # type: ignore[misc]
        Agent(real, plane, real.catalogue, spec.pools, RealClock()).cycle()
        clock.advance(clock.now() + 1.0)
    found = seats(real)
    real.stop()
    assert found == seats(memory)
    assert {workload for workload, _ in found} >= set("abcdefhi")
