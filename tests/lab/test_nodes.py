"""Fake nodes as objects: labels and resources of the vendor's operators, errors in the spec."""

import pytest
import yaml

from lab.errors import LabError
from lab.nodes import node_groups
from lab.rest import Json
from lab.stages import kwok_config

SPEC = """
nodes:
- group: train
  count: 2
  instance_type: p4d.24xlarge
  zone: ap-northeast-2a
  capacity_type: spot
  gpu: {product: NVIDIA-A100-SXM4-40GB, count: 8}
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  labels: {team: vision}
- group: slices
  gpu: {count: 2}
  mig_config: balanced
  mig_layouts:
    balanced: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}
    all-1g.5gb: {1g.5gb: 7}
- group: shared
  gpu: {product: Tesla-T4, count: 4, family: turing, mig_capable: false}
  sharing: {mode: time-slicing, replicas: 4}
- group: npu
  resources: {rebellions.ai/ATOM: 4}
"""


def nodes() -> dict[str, Json]:
    return {node["metadata"]["name"]: node for group in node_groups(SPEC) for node in group.nodes()}


def test_a_group_gives_as_many_numbered_nodes_as_it_says() -> None:
    assert list(nodes()) == ["train-0", "train-1", "slices-0", "shared-0", "npu-0"]


def test_whole_gpus_are_labelled_as_feature_discovery_does() -> None:
    node = nodes()["train-0"]
    labels, capacity = node["metadata"]["labels"], node["status"]["capacity"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert labels["topology.kubernetes.io/zone"] == "ap-northeast-2a"
    assert labels["karpenter.sh/capacity-type"] == "spot"
    assert labels["team"] == "vision"
    assert capacity["nvidia.com/gpu"] == "8"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def test_a_mig_layout_is_counted_per_node() -> None:
    node = nodes()["slices-0"]
    capacity, labels = node["status"]["allocatable"], node["metadata"]["labels"]
    assert capacity["nvidia.com/gpu"] == "0"
    assert capacity["nvidia.com/mig-1g.5gb"] == "4"
    assert capacity["nvidia.com/mig-3g.20gb"] == "2"
    assert labels["nvidia.com/mig-1g.5gb.count"] == "4"
    assert labels["nvidia.com/mig.config"] == "balanced"
    assert labels["nvidia.com/mig.config.state"] == "success"


def test_time_slices_multiply_the_resource_and_mark_the_product() -> None:
    node = nodes()["shared-0"]
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "16"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"
    assert node["metadata"]["labels"]["nvidia.com/mig.capable"] == "false"


def test_other_vendors_resources_are_taken_as_they_are() -> None:
    node = nodes()["npu-0"]
    assert node["status"]["capacity"]["rebellions.ai/ATOM"] == "4"
    assert "nvidia.com/gpu.present" not in node["metadata"]["labels"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nodes: [{group: x, instance_typ: y}]",
            "unknown key 'instance_typ' in node group 'x'; did you mean instance_type",
        ),
        ("nodes: [{group: x, gpu: {coutn: 1}}]", "unknown key 'coutn' in gpu of node group 'x'; did you mean count"),
        ("[]", "has one key, `nodes`, with a list of groups"),
        ("nodes: [{count: 2}]", "has no name; give it `group: NAME`"),
        ("nodes: [{group: x, sharing: {mode: magic}}]", "'magic' is not one of none, time-slicing, mps"),
    ],
)
def test_a_mistake_in_the_spec_is_named_with_its_remedy(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        node_groups(text)


def test_a_profile_that_is_none_is_refused() -> None:
    [group] = node_groups("nodes: [{group: x, gpu: {}, mig: {half: 2}}]")
    with pytest.raises(LabError, match="'half' is not of the form"):
        list(group.nodes())


def test_the_stand_in_for_the_mig_manager_knows_every_layout() -> None:
    switches = [switch for group in node_groups(SPEC) for switch in group.switches()]
    stages = [stage for stage in yaml.safe_load_all(kwok_config(1.0, switches)) if stage["kind"] == "Stage"]
    names = [stage["metadata"]["name"] for stage in stages]
    assert names[-4:] == ["switch-0-pending", "switch-0-0", "switch-0-1", "switch-0-unknown"]
    assert len(set(names)) == len(names)
    [status, _] = stages[-2]["spec"]["next"]["patches"]
    amounts = yaml.safe_load(status["template"])["capacity"]
    assert amounts == {
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.5gb": "14",
        "nvidia.com/mig-2g.10gb": "0",
        "nvidia.com/mig-3g.20gb": "0",
    }
