"""The agent's period: plans are confirmed before pods move, and made no more often than the period says."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.agent.tidy import Tidy, TidySettings
from dure.model.cluster import ClusterState, Pod
from dure.model.workload import WorkloadType
from dure.pack import Memory
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

WIDE = pod("wide", devices=4)


def torn(**kind: Any) -> list[Pod]:
    """Two nodes of four devices, one movable pod on each."""
    busy = running([node("a")], [pod("x", devices=1, interruptible=True, **kind)])
    return busy + running([node("b")], [pod("y", devices=1, interruptible=True, **kind)])


def world(pods: list[Pod], now_s: float = 1000.0) -> ClusterState:
    return msgspec.structs.replace(cluster([node("a"), node("b")], pods), now_s=now_s)


def test_a_plan_is_acted_on_only_after_a_second_look() -> None:
    tidy, state = Tidy(CATALOGUE), world([*torn(), WIDE])
    assert tidy.step(state, Memory()) == []
    assert tidy.plan is not None
    (evict,) = tidy.step(state, Memory())
    assert evict.pod in ("x", "y")


def test_a_plan_is_dropped_when_its_pod_is_gone_or_the_demand_no_longer_waits() -> None:
    for later in ([WIDE], torn()):
        tidy = Tidy(CATALOGUE)
        tidy.step(world([*torn(), WIDE]), Memory())
        assert tidy.plan is not None
        assert tidy.step(world(later, 1010.0), Memory()) == []
        assert tidy.plan is None


def test_no_second_plan_is_made_within_the_period() -> None:
    tidy = Tidy(CATALOGUE, TidySettings(period_s=300.0))
    tidy.step(world(torn()), Memory())
    tidy.step(world([*torn(), WIDE], 1200.0), Memory())
    assert tidy.plan is None
    tidy.step(world([*torn(), WIDE], 1300.0), Memory())
    assert tidy.plan is not None


def test_training_waits_for_its_checkpoint() -> None:
    busy = torn(type=WorkloadType.TRAINING, checkpoint_s=600.0)
    started = [msgspec.structs.replace(one, started_s=700.0) for one in busy]
    tidy = Tidy(CATALOGUE)
    tidy.step(world([*started, WIDE]), Memory())
    assert tidy.step(world([*started, WIDE], 1010.0), Memory()) == []
    assert tidy.plan is not None
    assert len(tidy.step(world([*started, WIDE], 1310.0), Memory())) == 1


def test_nodes_are_emptied_only_on_wish_and_while_nothing_waits() -> None:
    lazy, eager = Tidy(CATALOGUE), Tidy(CATALOGUE, TidySettings(compact=True))
    for tidy in (lazy, eager):
        tidy.step(world(torn()), Memory())
    assert lazy.plan is None
    assert eager.plan is not None
    assert len(eager.step(world(torn(), 1010.0), Memory())) == 1
