"""A quota that keeps pods from being made is named with its figures."""

from __future__ import annotations

import pytest

from dure.adapters.kube.objects import KubeQuota, Meta, QuotaStatus
from dure.adapters.kube.quotas import shortage

ASKED = {"nvidia.com/gpu": "2", "cpu": "500m", "memory": "4Gi"}


def quota(hard: dict[str, str], used: dict[str, str], namespace: str = "dure-vision") -> KubeQuota:
    return KubeQuota(Meta(name="limits", namespace=namespace), QuotaStatus(hard, used))


@pytest.mark.parametrize(
    ("hard", "used"),
    [
        ({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "3"}),
        ({"cpu": "1"}, {"cpu": "600m"}),
        ({"limits.memory": "8Gi"}, {"limits.memory": "5Gi"}),
        ({"pods": "3"}, {"pods": "3"}),
    ],
)
def test_a_limit_that_one_more_pod_would_break_is_told(hard: dict[str, str], used: dict[str, str]) -> None:
    ((key, most),) = hard.items()
    told = shortage([quota(hard, used)], "dure-vision", ASKED)
    assert told.startswith(f"quota dure-vision/limits allows {most} {key}, {used[key]} are in use")


def test_room_other_resources_and_other_namespaces_are_no_hindrance() -> None:
    fine = [
        quota({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "2"}),
        quota({"persistentvolumeclaims": "0"}, {}),
        quota({"pods": "0"}, {}, namespace="dure-search"),
    ]
    assert shortage(fine, "dure-vision", ASKED) == ""
