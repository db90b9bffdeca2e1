"""A node with a MIG manager: cut as a whole by its label, free again by another; refused while somebody is there."""

from __future__ import annotations

import pytest

from dure.adapters.clock import RealClock
from dure.adapters.kube.cluster import KubeCluster
from dure.model.accelerator import ShareMode
from dure.model.decision import Resize
from dure.model.errors import Conflict
from dure.model.reason import Verdict
from lab.fixtures import LabFactory
from tests.fixtures.small_world import CATALOGUE, cluster, pool
from tests.kube.world import api_of, install_crds, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES = """
nodes:
- group: big
  gpu: {count: 2}
  labels: {dure.dev/pool: big, nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success}
  mig_layouts: {all-balanced: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}, all-disabled: {}}
"""


def test_the_mig_manager_cuts_a_free_node_and_a_layout_it_does_not_know_is_a_conflict(
    lab_factory: LabFactory,
) -> None:
    lab = lab_factory(["test"], off={"test": {"kube-scheduler"}})["test"]
    lab.add_nodes(NODES)
    install_crds(lab)
    port = KubeCluster(cluster(pool("big", "big", devices=2)), CATALOGUE, api_of(lab), RealClock())
    port.start()
    try:
        [node] = port.fetch_state().nodes
        assert [device.class_name for device in node.devices] == ["big", "big"]
        why = Verdict("big", None, "mig for a pod", "was exclusive and empty")
        port.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
        until(lambda: len(port.fetch_state().nodes[0].devices) == 8, "eight instances")
        assert {device.class_name for device in port.fetch_state().nodes[0].devices} == {"big/1g", "big/2g", "big/3g"}
        lab.api.patch(
            f"/api/v1/nodes/{node.name}",
            {"metadata": {"labels": {"nvidia.com/mig.config": "all-disabled", "dure.dev/mig-layout": "unheard-of"}}},
        )
        until(lambda: len(port.fetch_state().nodes[0].devices) == 2, "whole devices again")
        with pytest.raises(Conflict, match="unheard-of"):
            port.resize([Resize(node.name, node.devices[0].id, ShareMode.MIG, why)])
    finally:
        port.stop()
