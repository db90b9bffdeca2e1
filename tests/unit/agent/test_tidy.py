"""The agent's period: plans are confirmed before pods move, and made no more often than the period says."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.agent.keeping import KEEP_S
from dure.agent.tidy import LAPSE_S, WISH_S, Tidy, TidySettings
from dure.model.cluster import ClusterState, Pod
from dure.model.decision import Bind
from dure.model.defrag import DefragState, DefragWish, WantedRoom
from dure.model.workload import WorkloadType
from dure.pack import Memory, pack
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


def test_training_that_says_when_it_saved_moves_then_and_not_by_the_clock() -> None:
    busy = torn(type=WorkloadType.TRAINING, checkpoint_s=600.0)
    early, late = (
        [msgspec.structs.replace(one, started_s=700.0, saved_s=at_s) for one in busy] for at_s in (0, 1500)
    )
    tidy = Tidy(CATALOGUE)
    tidy.step(world([*early, WIDE]), Memory())
    assert tidy.step(world([*early, WIDE], 1310.0), Memory()) == [], "by the clock it would be now"
    assert len(tidy.step(world([*late, WIDE], 1510.0), Memory())) == 1


def test_nodes_are_emptied_only_on_wish_and_while_nothing_waits() -> None:
    lazy, eager = Tidy(CATALOGUE), Tidy(CATALOGUE, TidySettings(compact=True))
    for tidy in (lazy, eager):
        tidy.step(world(torn()), Memory())
    assert lazy.plan is None
    assert eager.plan is not None
    assert len(eager.step(world(torn(), 1010.0), Memory())) == 1


def heard(tidy: Tidy) -> tuple[str, DefragState]:
    assert tidy.answer is not None
    return tidy.answer.wish, tidy.answer.state


def test_a_wish_without_apply_is_answered_and_moves_nothing() -> None:
    tidy, wish = Tidy(CATALOGUE), DefragWish("one", 990.0)
    for now_s in (1000.0, 1010.0, 1020.0):
        assert tidy.step(world(torn(), now_s), Memory(), wish) == []
    assert heard(tidy) == ("one", DefragState.PLANNED)


def test_a_wish_with_apply_moves_after_a_second_look_and_only_once() -> None:
    tidy, wish = Tidy(CATALOGUE), DefragWish("one", 990.0, apply=True)
    assert tidy.step(world(torn()), Memory(), wish) == []
    assert heard(tidy) == ("one", DefragState.PLANNED)
    assert len(tidy.step(world(torn(), 1010.0), Memory(), wish)) == 1
    assert heard(tidy) == ("one", DefragState.MOVED)
    assert tidy.step(world(torn(), 1020.0), Memory(), wish) == []


def test_a_wish_is_for_the_workload_that_the_plane_holds_when_nothing_waits_here() -> None:
    tidy = Tidy(CATALOGUE)
    wanted = WantedRoom("held", 4, ("big",), "pool")
    tidy.step(world(torn()), Memory(), DefragWish("one", 990.0, wanted=wanted))
    assert tidy.answer is not None
    assert tidy.answer.plan is not None
    assert tidy.answer.plan.goal == "4 whole devices for held, which is held"
    tidy.step(world(torn()), Memory(), DefragWish("two", 990.0, wanted=msgspec.structs.replace(wanted, devices=5)))
    assert heard(tidy) == ("two", DefragState.NOTHING)
    assert "5 free devices" in tidy.answer.note


def test_a_wish_from_long_ago_is_not_heard() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.step(world(torn(), 1000.0 + WISH_S), Memory(), DefragWish("old", 990.0, apply=True))
    assert tidy.answer is None


def test_a_wished_plan_tells_that_it_waits_for_a_checkpoint() -> None:
    busy = torn(type=WorkloadType.TRAINING, checkpoint_s=600.0)
    started = [msgspec.structs.replace(one, started_s=700.0) for one in busy]
    tidy, wish = Tidy(CATALOGUE), DefragWish("one", 990.0, apply=True)
    for now_s in (1000.0, 1010.0):
        assert tidy.step(world(started, now_s), Memory(), wish) == []
    assert heard(tidy) == ("one", DefragState.WAITING)
    assert len(tidy.step(world(started, 1310.0), Memory(), wish)) == 1
    assert heard(tidy) == ("one", DefragState.MOVED)


def test_a_plan_whose_training_is_never_at_a_checkpoint_lapses() -> None:
    busy = torn(type=WorkloadType.TRAINING, checkpoint_s=600.0)
    started = [msgspec.structs.replace(one, started_s=700.0) for one in busy]
    tidy, wish = Tidy(CATALOGUE), DefragWish("one", 990.0, apply=True)
    for now_s in (1000.0, 1010.0, 1000.0 + LAPSE_S):
        assert tidy.step(world(started, now_s), Memory(), wish) == []
    assert heard(tidy) == ("one", DefragState.DROPPED)


def test_moves_that_the_cluster_refused_are_told_as_dropped() -> None:
    tidy, wish = Tidy(CATALOGUE), DefragWish("one", 990.0, apply=True)
    tidy.step(world(torn()), Memory(), wish)
    tidy.step(world(torn(), 1010.0), Memory(), wish)
    tidy.failed("it is away", 1010.0)
    assert heard(tidy) == ("one", DefragState.DROPPED)
    assert tidy.answer is not None
    assert "it is away" in tidy.answer.note


def test_freed_room_is_kept_for_whom_it_was_freed_until_it_comes_or_time_is_up() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.step(world([*torn(), WIDE]), Memory())
    (evict,) = tidy.step(world([*torn(), WIDE], 1010.0), Memory())
    stays = [one for one in torn() if one.name != evict.pod]
    again = pod(evict.pod, devices=1, interruptible=True, priority=9)
    later = world([*stays, again, WIDE], 1020.0)
    node_kept, view = tidy.view(later)
    seats = {one.pod: one.node for one in pack(view, CATALOGUE) if isinstance(one, Bind)}
    assert seats["wide"] == node_kept
    assert seats[again.name] == stays[0].node
    there = running([node(node_kept)], [WIDE])
    assert tidy.view(world([*stays, again, *there], 1030.0))[0] == ""
    assert tidy.view(world([*stays, again, WIDE], 1010.0 + KEEP_S))[0] == ""
