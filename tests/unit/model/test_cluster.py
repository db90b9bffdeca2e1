"""Nodes, pods and pools as Kubernetes means them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.cluster import Node, PodPhase, Taint, Toleration, VNodePool
from dure.model.defrag import DefragAnswer, DefragState
from dure.model.tariff import Capacity
from dure.model.units import percent
from dure.model.workload import AcceptedClass, Replicas, WorkloadType
from tests.fixtures.small_world import training
from tests.unit.pack.worlds import node, pod

SPOT = Taint("spot", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("spot", "Equal", "yes"), True),
        (Toleration("spot", "Equal", "no"), False),
        (Toleration("spot", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("other", "Equal", "yes"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("spot", "Exists", effect="NoSchedule"), True),
        (Toleration("spot", "Exists", effect="NoExecute"), False),
    ],
)
def test_a_taint_is_tolerated_as_in_kubernetes(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(SPOT) is tolerates


def test_a_node_is_in_the_domain_of_its_labels_and_of_its_own_name() -> None:
    found: Node = replace(node("n1"), labels={"rack": "r7"})
    assert found.domain("rack") == "r7"
    assert found.domain("kubernetes.io/hostname") == "n1"
    assert found.domain("row") is None


def test_a_pod_holds_its_slices_from_the_bind_to_its_end() -> None:
    waits = pod("p", devices=1)
    bound = replace(waits, node="n1", phase=PodPhase.RUNNING)
    assert (waits.holds, bound.holds, replace(bound, phase=PodPhase.SUCCEEDED).holds) == (False, True, False)
    assert {phase for phase in PodPhase if phase.ended} == {PodPhase.SUCCEEDED, PodPhase.FAILED}


def test_a_pool_counts_its_free_devices_over_all_nodes() -> None:
    pool = VNodePool("c", "p", "t4", Capacity.OWNED, (ShareMode.EXCLUSIVE,), free_whole=(4, 2, 0))
    assert pool.free_devices == 6


def test_a_wish_is_final_once_nothing_more_will_come_of_it() -> None:
    def final(state: DefragState, apply: bool) -> bool:
        return DefragAnswer("c", "w", 0.0, state, apply).final

    assert final(DefragState.PLANNED, apply=False)
    assert not final(DefragState.PLANNED, apply=True)
    assert {state for state in DefragState if final(state, apply=True)} == {
        DefragState.NOTHING, DefragState.MOVED, DefragState.DROPPED,
    }  # fmt: skip


def test_what_must_run_at_once_is_the_gang_or_the_least_replicas() -> None:
    gang = replace(training("g"), gang=4, replicas=Replicas(2, 8))
    assert gang.size == 4
    assert replace(gang, type=WorkloadType.SERVING).size == 2
    known = replace(gang, classes=(AcceptedClass("h100"), AcceptedClass("t4", 0.25)))
    assert (known.speed_on("t4"), known.speed_on("cpu")) == (0.25, None)


def test_a_share_is_shown_in_percent() -> None:
    assert (percent(500), percent(125)) == ("50 %", "12.5 %")
