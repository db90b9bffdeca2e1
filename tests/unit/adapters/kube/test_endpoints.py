"""Which pods of a service may be asked."""

from __future__ import annotations

import datetime
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dure.adapters.kube.endpoints import Endpoints, urls
from dure.adapters.kube.objects import Condition, KubePod, Meta, PodStatus

READY = KubePod(
    metadata=Meta(name="a"),
    status=PodStatus(phase="Running", pod_ip="10.0.0.7", conditions=(Condition("Ready", "True"),)),
)
LATE = replace(READY, status=replace(READY.status, pod_ip="10.0.0.8", conditions=(Condition("Ready", "False"),)))
LEAVING = Meta(name="a", deletion_timestamp=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


class Told:
    """Stands for a cluster with these pods."""

    def __init__(self, *pods: KubePod) -> None:
        self._pods = pods

    def pods(self) -> list[KubePod]:
        return list(self._pods)

    def url(self, pod: KubePod) -> str:
        return pod.status.pod_ip


def asked(*clusters: Told) -> list[str]:
    return urls([cast(Endpoints, each) for each in clusters])


def test_ready_pods_of_all_clusters_are_asked_and_others_only_when_none_is_ready() -> None:
    assert asked(Told(READY, LATE), Told(LATE)) == ["10.0.0.7"]
    assert asked(Told(LATE), Told(READY)) == ["10.0.0.7"]
    assert asked(Told(LATE)) == ["10.0.0.8"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": replace(READY.status, pod_ip="")},
        {"status": replace(READY.status, phase="Failed")},
        {"status": replace(READY.status, phase="Pending")},
        {"metadata": LEAVING},
    ],
    ids=["without an address", "ended", "not started", "leaving"],
)
def test_a_pod_that_does_not_run_or_is_on_its_way_out_is_never_asked(change: dict[str, Any]) -> None:
    assert asked(Told(replace(READY, **change))) == []
