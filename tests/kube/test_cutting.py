"""Nodes that the vendor's operators cut or share as a whole: by a label, with an answer, while nobody is there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from dure.adapters.clock import RealClock, ScaledClock
from dure.adapters.kube.cluster import KubeCluster
from dure.agent.loop import Agent
from dure.model.accelerator import ShareMode
from dure.model.decision import Resize
from dure.model.errors import Conflict
from dure.model.fleet import ClusterSpec
from dure.model.reason import Verdict
from lab.cluster import Cluster
from lab.lab import Lab
from lab.nodes import MIG_CONFIG
from tests.fixtures.small_world import CATALOGUE, GIB, cluster, desired, fraction, pool
from tests.kube.checker import bound_pods, overcommitted
from tests.kube.world import FixedPlane, api_of, empty, install_crds, until, user_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES = """
nodes:
- group: big
  gpu: {count: 2}
  labels: {dure.dev/pool: big, nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success}
  mig_layouts: {all-balanced: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}, all-disabled: {}}
"""


@pytest.fixture(scope="module")
def unused() -> Iterator[Cluster]:
    with Lab(["test"], off={"test": {"kube-scheduler"}}, first=install_crds) as lab:
        yield lab["test"]


@pytest.fixture
def lab(unused: Cluster) -> Iterator[Cluster]:
    yield unused
    empty(unused)


def test_the_mig_manager_cuts_a_free_node_and_a_layout_it_does_not_know_is_a_conflict(lab: Cluster) -> None:
    lab.add_nodes(NODES)
    port = KubeCluster(cluster(pool("big", "big", devices=2)), CATALOGUE, api_of(lab), RealClock())
    port.start()
    try:
        [node] = port.fetch_state().nodes
        assert [device.class_name for device in node.devices] == ["big", "big"]
        rested(lab, node.name)
        why = Verdict("big", None, "mig for a pod", "was exclusive and empty")
        port.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
        until(lambda: len(port.fetch_state().nodes[0].devices) == 8, "eight instances")
        assert {device.class_name for device in port.fetch_state().nodes[0].devices} == {"big/1g", "big/2g", "big/3g"}
        lab.api.patch(
            f"/api/v1/nodes/{node.name}",
            {"metadata": {"labels": {"nvidia.com/mig.config": "all-disabled", "dure.dev/mig-layout": "unheard-of"}}},
        )
        until(lambda: len(port.fetch_state().nodes[0].devices) == 2, "whole devices again")
        rested(lab, node.name)
        with pytest.raises(Conflict, match="unheard-of"):
            port.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
        lab.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {f"{MIG_CONFIG}.state": "pending"}}})
        with pytest.raises(Conflict, match="still at work"):
            port.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
    finally:
        port.stop()


def rested(lab: Cluster, node: str) -> None:
    """The MIG manager has done what it was last asked for."""
    state = f"{MIG_CONFIG}.state"
    path = f"/api/v1/nodes/{node}"
    lab.api.until(path, lambda found: found["metadata"]["labels"].get(state) == "success", what="the manager's word")


SHARED = """
nodes:
- group: small
  count: 2
  gpu: {product: Tesla-T4, count: 2, memory_mib: 16384, mig_capable: false}
  labels: {dure.dev/pool: small, nvidia.com/device-plugin.config: none, dure.dev/plugin-config.mps: mps-4}
  plugin_configs: {none: {}, mps-4: {mode: mps, replicas: 4}, timeslice: {mode: time-slicing, replicas: 3}}
"""
WHY = Verdict("small", None, "mps for a pod", "was exclusive and empty")


def shared_pool() -> ClusterSpec:
    modes = (ShareMode.EXCLUSIVE, ShareMode.MPS, ShareMode.TIMESLICE)
    return cluster(msgspec.structs.replace(pool("small", "small", nodes=2, devices=2), share=modes))


def test_the_device_plugin_shares_a_free_node_and_replicas_are_bound_one_by_one(lab: Cluster) -> None:
    lab.add_nodes(SHARED)
    clock = ScaledClock(30.0, 1_000_000.0)
    port = KubeCluster(shared_pool(), CATALOGUE, api_of(lab), clock)
    port.start()
    try:
        first, second = port.fetch_state().nodes
        port.resize([Resize(first.name, first.devices[0].id, ShareMode.MPS, WHY)])
        port.resize([Resize(second.name, second.devices[0].id, ShareMode.TIMESLICE, WHY)])
        until(lambda: [len(node.devices) for node in port.fetch_state().nodes] == [8, 6], "eight and six replicas")
        classes = [{device.class_name for device in node.devices} for node in port.fetch_state().nodes]
        assert classes == [{"small/1of4"}, {"small/1of3"}]
        for number in range(14):
            lab.api.post("/api/v1/namespaces/default/pods", user_pod(f"share-{number}"))
        until(lambda: len(port.fetch_state().pods) == 14, "the pods seen")
        Agent(port, FixedPlane(), port.catalogue, port.spec.pools, RealClock()).cycle()
        assert len(bound_pods(lab.api)) == 14
        assert overcommitted(lab.api) == []
        device = first.devices[0].id
        with pytest.raises(Conflict):
            port.resize([Resize(first.name, device, ShareMode.TIMESLICE, WHY)])
    finally:
        port.stop()


def test_a_configuration_that_the_plugin_does_not_know_is_a_conflict_and_a_busy_node_is_left_alone(
    lab: Cluster,
) -> None:
    lab.add_nodes(SHARED.replace("mps-4}", "nobody-knows}", 1))
    port = KubeCluster(shared_pool(), CATALOGUE, api_of(lab), ScaledClock(30.0, 1_000_000.0))
    port.start()
    try:
        first, second = port.fetch_state().nodes
        with pytest.raises(Conflict, match="nobody-knows"):
            port.resize([Resize(first.name, first.devices[0].id, ShareMode.MPS, WHY)])
        lab.api.post("/api/v1/namespaces/default/pods", user_pod("here", nodeName=second.name))
        until(lambda: any(pod.node == second.name for pod in port.fetch_state().pods), "a pod on the second node")
        free = second.devices[1].id
        with pytest.raises(Conflict, match="some are held"):
            port.resize([Resize(second.name, free, ShareMode.MPS, WHY)])
    finally:
        port.stop()


def test_a_placed_share_gets_pods_that_ask_for_what_its_node_was_cut_into(lab: Cluster) -> None:
    lab.add_nodes(NODES + SHARED.replace("\nnodes:\n", ""))
    big = msgspec.structs.replace(pool("big", "big", devices=2), share=(ShareMode.EXCLUSIVE, ShareMode.MIG))
    spec = cluster(big, *shared_pool().pools)
    wanted = (
        desired(fraction("cut"), mode=ShareMode.MIG),
        desired(fraction("shared", memory_mib=3 * GIB, compute_milli=50), pool="small", mode=ShareMode.MPS),
    )
    port = KubeCluster(spec, CATALOGUE, api_of(lab), RealClock())
    port.start()
    agent = Agent(port, FixedPlane(*wanted), port.catalogue, port.spec.pools, RealClock())
    try:

        def placed() -> bool:
            agent.cycle()
            return len(bound_pods(lab.api)) == 2

        until(placed, "a seat for both")
        asked = {
            pod["metadata"]["labels"]["dure.dev/workload"]: pod["spec"]["containers"][0]["resources"]["limits"]
            for pod in bound_pods(lab.api)
        }
        assert asked == {"cut": {"nvidia.com/mig-1g.5gb": "1"}, "shared": {"nvidia.com/gpu": "1"}}
        assert overcommitted(lab.api) == []
        assert len(lab.api.get("/apis/batch/v1/jobs")["items"]) == 2
    finally:
        port.stop()
