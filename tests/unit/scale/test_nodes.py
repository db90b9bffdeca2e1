"""The node planner: sound plans, never dearer than before, budgets and schedules in their own time zone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.errors import InvalidInput
from dure.scale.nodes import budget, lifecycle, spot
from dure.scale.nodes.consolidate import Settings, consolidate, validate
from dure.scale.nodes.packer import pack
from dure.scale.nodes.provision import provision
from dure.scale.nodes.state import Node, Offer, Pod, Pool
from dure.sim.nodes.clusters import draw_cluster, draw_pods
from dure.sim.nodes.exact import cheapest_cover
from dure.sim.nodes.ffd import first_fit_decreasing
from dure.sim.nodes.karpenter import run_karpenter
from dure.sim.nodes.referee import check_bought, check_consolidation

OFFERS = (
    Offer("one", "a10g", (1000, 8000, 32 * 1024), 1_000_000),
    Offer("four", "a10g", (4000, 48000, 192 * 1024), 5_600_000),
    Offer("eight", "a10g", (8000, 192000, 768 * 1024), 16_000_000),
    Offer("big", "h100", (8000, 192000, 2048 * 1024), 55_000_000),
    Offer("one-spot", "a10g", (1000, 8000, 32 * 1024), 400_000, "spot", reclaims_h=0.05),
    Offer("cpu", "none", (0, 16000, 64 * 1024), 700_000),
)
POOL = Pool("gpu", OFFERS, overhead=(0, 200, 512))
MONDAY_9_SEOUL_S = 1_704_067_200.0  # 2024-01-01 00:00 UTC, a Monday


@given(st.integers(0, 10_000), st.integers(1, 25))
@settings(max_examples=25, deadline=None)
def test_bought_nodes_hold_every_pod_once_and_never_cost_more_than_first_fit(seed: int, count: int) -> None:
    pods = draw_pods(count, ("a10g", "h100"), seed)
    plan = pack(pods, (POOL,), {})
    placed = tuple(pod for pod in pods if pod.name not in {left.pod for left in plan.unplaced})
    assert check_bought(placed, plan.nodes, (POOL,)) == []
    simple = first_fit_decreasing(placed, (POOL,))
    assert sum(node.offer.price for node in plan.nodes) <= sum(node.offer.price for node in simple) * 1.35


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_consolidation_is_sound_and_never_dearer(seed: int) -> None:
    nodes = draw_cluster(24, POOL, seed)
    plan = consolidate(nodes, (POOL,), Settings(), 0.0)
    assert check_consolidation(nodes, plan, (POOL,)) == []
    assert validate(plan, nodes) == ""
    assert plan.saving >= 0


def test_consolidation_does_not_depend_on_input_order() -> None:
    nodes = draw_cluster(24, POOL, 3)
    forwards = consolidate(nodes, (POOL,), Settings(), 0.0)
    backwards = consolidate(tuple(reversed(nodes)), (POOL,), Settings(), 0.0)
    assert forwards.saving == pytest.approx(backwards.saving, rel=0.05)
    assert consolidate(nodes, (POOL,), Settings(), 0.0) == forwards


def test_consolidation_is_at_least_as_cheap_as_karpenters_rules() -> None:
    nodes = draw_cluster(40, POOL, 5)
    plan = consolidate(nodes, (POOL,), Settings(), 0.0)
    stopped = {name for name, _ in plan.stop}
    ours = sum(node.offer.price for node in nodes if node.name not in stopped)
    ours += sum(new.offer.price for new in plan.start)
    assert ours <= run_karpenter(nodes, (POOL,)).price * 1.02


def test_a_budget_of_zero_keeps_every_node() -> None:
    nodes = draw_cluster(12, POOL, 1)
    plan = consolidate(nodes, (POOL,), Settings(), 0.0, budget=lambda pool, reason: 0)
    assert plan.stop == ()


def test_a_pinned_pod_keeps_its_node() -> None:
    pinned = Node("n1", "gpu", OFFERS[2], (8000, 1000, 1000), (Pod("p", (1000, 100, 100), pinned=True),))
    free = Node("n2", "gpu", OFFERS[2], (8000, 1000, 1000), (Pod("q", (1000, 100, 100)),))
    plan = consolidate((pinned, free), (POOL,), Settings(), 0.0)
    assert "n1" not in {name for name, _ in plan.stop}


def test_a_plan_is_refused_when_a_pod_came_in_between() -> None:
    nodes = draw_cluster(12, POOL, 2)
    plan = consolidate(nodes, (POOL,), Settings(), 0.0)
    name = plan.stop[0][0]
    late = tuple(
        msgspec.structs.replace(node, pods=(*node.pods, Pod("late", (0, 1, 1)))) if node.name == name else node
        for node in nodes
    )
    assert "late" in validate(plan, late) or "empty" in validate(plan, late)


def test_small_cases_stay_near_the_integer_optimum() -> None:
    pool = msgspec.structs.replace(POOL, offers=OFFERS[:3])
    pods = tuple(Pod(f"p{i}", (1000 * (1 + i % 2), 4000, 16 * 1024)) for i in range(7))
    exact = cheapest_cover(pods, (pool,), 20.0)
    assert exact.proven
    assert pack(pods, (pool,), {}).price <= exact.price * 1.02


def test_provisioning_fills_free_room_before_it_buys() -> None:
    node = Node("n1", "gpu", OFFERS[1], (4000, 40000, 100 * 1024))
    plan = provision((Pod("p", (1000, 1000, 1024)),), (node,), (POOL,))
    assert plan.onto == (("p", "n1"),)
    assert plan.bought.nodes == ()


def test_limits_stop_buying_and_say_so() -> None:
    pool = Pool("gpu", OFFERS[:1], limit=(2000, 999_000, 999_999_999))
    plan = pack(tuple(Pod(f"p{i}", (1000, 1000, 1024)) for i in range(4)), (pool,), {"gpu": (1000, 8000, 32768, 1)})
    assert len(plan.nodes) == 1
    assert {left.reason for left in plan.unplaced} == {"QuotaExceeded"}


def test_a_pod_nobody_can_hold_says_why() -> None:
    plan = pack((Pod("p", (1000, 1, 1), classes=("b200",)), Pod("q", (9000, 1, 1))), (POOL,), {})
    assert {left.pod: left.reason for left in plan.unplaced} == {"p": "ClassNotAccepted", "q": "HostTooSmall"}


def test_a_heavier_pool_is_bought_first_even_if_dearer() -> None:
    cheap, dear = Pool("cheap", OFFERS[4:5]), Pool("dear", OFFERS[:1], weight=10)
    assert pack((Pod("p", (1000, 100, 100)),), (cheap, dear), {}).nodes[0].pool == "dear"


def test_rework_makes_spot_dearer_than_its_price() -> None:
    pods = (Pod("p", (1000, 100, 100), rework=20_000_000),)
    assert pack(pods, (POOL,), {}).nodes[0].offer.capacity == "on-demand"


@pytest.mark.parametrize(
    ("nodes", "total", "want"), [("10%", 1, 1), ("20%", 5, 1), ("20%", 6, 2), ("3", 10, 3), ("0", 10, 0), ("x", 9, 0)]
)
def test_budget_figures_round_up_and_fail_closed(nodes: str, total: int, want: int) -> None:
    assert budget.allowed((budget.Budget(nodes),), "Empty", total, 0, 0, 0.0) == want


def test_deleting_and_unready_nodes_use_up_the_budget() -> None:
    assert budget.allowed((budget.Budget("50%"),), "Empty", 10, 2, 1, 0.0) == 2


def test_reasons_choose_the_budget_and_the_tightest_wins() -> None:
    budgets = (budget.Budget("5"), budget.Budget("1", reasons=("Drifted",)))
    assert budget.allowed(budgets, "Empty", 10, 0, 0, 0.0) == 5
    assert budget.allowed(budgets, "Drifted", 10, 0, 0, 0.0) == 1


def test_a_schedule_is_read_in_its_own_time_zone() -> None:
    office = budget.Budget("0", schedule="0 9 * * 1-5", duration_s=8 * 3600, timezone="Asia/Seoul")
    assert budget.active(office, MONDAY_9_SEOUL_S + 60)
    assert not budget.active(office, MONDAY_9_SEOUL_S - 60)
    assert not budget.active(office, MONDAY_9_SEOUL_S + 9 * 3600)
    utc = msgspec.structs.replace(office, timezone="UTC")
    assert not budget.active(utc, MONDAY_9_SEOUL_S + 60)


@pytest.mark.parametrize(
    "wrong",
    [
        budget.Budget(schedule="0 9 * * 1-5"),
        budget.Budget(schedule="nine", duration_s=60),
        budget.Budget(timezone="Mars/Olympus"),
    ],
)
def test_wrong_budgets_are_refused(wrong: budget.Budget) -> None:
    with pytest.raises(InvalidInput):
        budget.check(wrong, "pool gpu")


def test_expiry_and_drift_name_the_nodes() -> None:
    old = Node("old", "gpu", OFFERS[0], (1, 1, 1), started_s=0.0, template="v1")
    new = Node("new", "gpu", OFFERS[0], (1, 1, 1), started_s=900.0, template="v2")
    assert [ending.node for ending in lifecycle.expired((old, new), 720.0, 1000.0)] == ["old"]
    assert [ending.node for ending in lifecycle.drifted((old, new), "v2")] == ["old"]


def test_off_hours_keep_fewer_nodes() -> None:
    night = lifecycle.Schedule("0 20 * * *", 12 * 3600, 1, "Asia/Seoul")
    day = lifecycle.Schedule("0 8 * * *", 12 * 3600, 6, "Asia/Seoul")
    assert lifecycle.scheduled_nodes((night, day), MONDAY_9_SEOUL_S) == 6
    assert lifecycle.scheduled_nodes((night, day), MONDAY_9_SEOUL_S + 14 * 3600) == 1


def test_a_reclaim_starts_the_replacement_at_once_and_drains_longest_first() -> None:
    guests = (spot.Guest("quick", 5.0), spot.Guest("slow", 300.0), spot.Guest("train", 20.0, serving=False))
    steps = spot.reclaim("n1", guests)
    assert [step.action for step in steps[:2]] == ["cordon", "start-replacement"]
    assert steps[2].subject == "slow"
    assert {step.subject for step in steps if step.action == "checkpoint"} == {"train"}
    evicted = {step.subject: step for step in steps if step.action == "evict"}
    assert evicted["slow"].at_s < spot.NOTICE_S
    assert "lost" in evicted["slow"].detail
    assert steps[-1].action == "gone"
