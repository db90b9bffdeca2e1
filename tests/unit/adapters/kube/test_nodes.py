"""Nodes and pods as the model sees them: fixed instances, shared replicas, other vendors, sick devices, affinity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dure.adapters.kube.instances import with_instances
from dure.adapters.kube.nodes import node_of
from dure.adapters.kube.objects import KubeNode, KubePod
from dure.adapters.kube.pods import classes_by_resource, pod_of
from dure.adapters.podspec import rules_of
from dure.files.builtin import catalogue
from dure.model.cluster import Node, NodePhase
from dure.model.errors import InvalidInput
from dure.model.quantity import mib, milli
from lab.nodes import node_groups
from tests.kube.world import user_pod

CATALOGUE = with_instances(catalogue())


def node(text: str) -> Node:
    [group] = node_groups(f"nodes: [{{group: n, {text}}}]")
    return node_of(msgspec.convert(next(group.nodes()), KubeNode), (), CATALOGUE)


@pytest.mark.parametrize(
    ("product", "memory", "class_name"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40960, "a100-40gb-sxm"),
        ("NVIDIA-A100-SXM4-80GB", 81920, "a100-80gb-sxm"),
        ("NVIDIA-H100-80GB-HBM3", 81559, "h100-80gb-sxm"),
        ("Tesla-T4", 15360, "t4"),
        ("NVIDIA-L4", 23034, "l4"),
        ("NVIDIA-L40S", 46068, "l40s"),
    ],
)
def test_the_class_is_read_from_the_labels_of_feature_discovery(product: str, memory: int, class_name: str) -> None:
    found = node(f"gpu: {{product: {product}, count: 2, memory_mib: {memory}}}")
    assert [device.class_name for device in found.devices] in ([class_name] * 2, ["h100-80gb-pcie"] * 2)


def test_fixed_mig_instances_are_devices_of_their_own() -> None:
    found = node("gpu: {count: 2}, mig: {1g.5gb: 2, 3g.20gb: 1}")
    classes = sorted(device.class_name for device in found.devices)
    assert classes == ["a100-40gb-sxm/1g.5gb"] * 4 + ["a100-40gb-sxm/3g.20gb"] * 2


def test_shared_replicas_are_devices_of_a_part() -> None:
    found = node("gpu: {product: Tesla-T4, count: 2}, sharing: {mode: time-slicing, replicas: 4}")
    assert [device.class_name for device in found.devices] == ["t4/1of4"] * 8
    assert CATALOGUE.accelerator("t4/1of4").memory_mib == CATALOGUE.accelerator("t4").memory_mib // 4


@pytest.mark.parametrize(
    "resource", ["rebellions.ai/ATOM", "furiosa.ai/rngd", "habana.ai/gaudi", "aws.amazon.com/neuron"]
)
def test_other_vendors_are_known_by_their_resource(resource: str) -> None:
    found = node(f"resources: {{{resource}: 4}}")
    assert len(found.devices) == 4
    assert CATALOGUE.accelerator(found.devices[0].class_name).resource == resource


def test_a_device_that_its_plugin_took_away_is_sick() -> None:
    [group] = node_groups("nodes: [{group: n, gpu: {count: 4}}]")
    raw = next(group.nodes())
    raw["status"]["allocatable"]["nvidia.com/gpu"] = "3"
    found = node_of(msgspec.convert(raw, KubeNode), (), CATALOGUE)
    assert [device.healthy for device in found.devices] == [True, True, True, False]


def test_a_node_that_was_never_ready_boots() -> None:
    assert node("gpu: {count: 1}").phase is NodePhase.BOOTING


def test_a_users_pod_accepts_every_class_that_offers_its_resource() -> None:
    resources = classes_by_resource(CATALOGUE, [node("gpu: {count: 2}, mig: {1g.5gb: 2}")])
    pod = pod_of(msgspec.convert(user_pod("x", "nvidia.com/mig-1g.5gb", 2), KubePod), resources, ours=False)
    assert pod.demand.devices == 2
    assert "a100-40gb-sxm/1g.5gb" in pod.classes
    assert "a100-40gb-sxm" not in pod.classes


def test_a_forged_description_is_not_believed() -> None:
    raw = user_pod("x", count=4)
    raw["metadata"]["annotations"] = {"dure.dev/pod": '{"name":"","uid":"u","tenant":"other","type":"batch"}'}
    pod = pod_of(msgspec.convert(raw, KubePod), classes_by_resource(CATALOGUE, ()), ours=False)
    assert (pod.demand.devices, pod.tenant) == (4, "")


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "rack", "operator": "NotIn", "values": ["x"]}, True),
        ({"key": "gpus", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "gpus", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_node_affinity_means_what_kubernetes_says(expression: dict[str, object], holds: bool) -> None:
    assert matches([{"matchExpressions": [expression]}], "n", {"zone": "a", "gpus": "8"}) is holds


def matches(terms: list[Any], name: str, labels: dict[str, str]) -> bool:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return rules_of({"nodeAffinity": required}, (), "default", {}).admit(name, labels)


def test_an_empty_term_matches_nothing_and_terms_are_alternatives() -> None:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    assert not matches([{}], "n", {})
    assert matches([{}, here], "n", {})


@pytest.mark.parametrize(("text", "wanted"), [("1", 1000), ("250m", 250), ("1500u", 2), ("2k", 2_000_000)])
def test_cpu_is_rounded_up_to_milli(text: str, wanted: int) -> None:
    assert milli(text) == wanted


@pytest.mark.parametrize(("text", "wanted"), [("1Gi", 1024), ("1M", 1), ("1048577", 2), ("0", 0)])
def test_memory_is_rounded_up_to_mib(text: str, wanted: int) -> None:
    assert mib(text) == wanted


def test_a_quantity_that_is_none_is_named() -> None:
    with pytest.raises(InvalidInput, match="'abc'"):
        milli("abc")


@pytest.mark.parametrize(
    ("annotations", "taint", "at_s"),
    [
        ({"dure.dev/reclaim-at": "1767571200.5"}, "", 1_767_571_200.5),
        ({"dure.dev/reclaim-at": "soon"}, "", None),
        ({}, "aws-node-termination-handler/spot-itn", 0.0),
        ({}, "cloud.google.com/impending-node-termination", 0.0),
        ({}, "example.com/other", None),
    ],
)
def test_a_notice_that_a_node_is_taken_back_is_read_from_whoever_wrote_it(
    annotations: dict[str, str], taint: str, at_s: float | None
) -> None:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    found = {"metadata": {"name": "n", "annotations": annotations}, "spec": {"taints": taints}}
    assert node_of(msgspec.convert(found, KubeNode), (), CATALOGUE).reclaim_at_s == at_s
