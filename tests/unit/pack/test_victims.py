"""Who gives way: who may be pushed out or moved, what it costs, whom a search takes and spares, what is said."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.claim import Claim
from dure.model.cluster import Node, Pod, PodPhase
from dure.model.decision import Bind, Decision, Evict, Hold
from dure.model.reason import Reason, Verdict
from dure.model.tenant import Isolation
from dure.model.workload import WorkloadType
from dure.pack import PackSettings, pack
from dure.pack.clearing import (
    cheapest,
    clear,
    guarded,
    impact,
    make_room,
    may_move,
    may_preempt,
    seats_elsewhere,
    within_budget,
)
from dure.pack.seating import USUAL, World, world_of
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

NOW_S = 1000.0


def world(nodes: list[Node], pods: list[Pod], settings: PackSettings = USUAL, /, **budgets: int) -> World:
    state = msgspec.structs.replace(cluster(nodes, pods), budgets=budgets)
    return world_of(state, CATALOGUE, settings=settings)


def on(where: Node, name: str, devices: int = 1, **more: object) -> Pod:
    """A pod that runs there since second 100."""
    return running([where], [pod(name, devices=devices, **more)])[0]  # type: ignore[arg-type]


def together(where: Node, *pods: Pod) -> list[Pod]:
    return running([where], list(pods))


def anybody(_: Pod) -> bool:
    return True


def victims(wish: Pod, where: Node, there: list[Pod], **budgets: int) -> list[str] | None:
    seen = world([where], there, **budgets)
    found = clear(wish, seen.rooms[where.name], there, seen, ruled=False)
    return None if found is None else [victim.name for victim in found.victims]


def test_the_cost_of_a_victim_is_lost_work_and_a_restart_for_each_device() -> None:
    ran = pod("p", devices=2, phase=PodPhase.RUNNING, started_s=100.0)

    def cost(**more: object) -> float:
        return impact(msgspec.structs.replace(ran, **more), NOW_S)

    assert cost() == (900 + 60) * 2
    assert cost(started_s=None) == cost(started_s=2000.0) == 60 * 2
    assert cost(checkpoint_s=400.0) == (100 + 60) * 2
    assert cost(checkpoint_s=400.0, saved_s=0.0) == cost(), "none yet, by its own word"
    assert cost(checkpoint_s=400.0, saved_s=970.0) == (30 + 60) * 2
    assert cost(checkpoint_s=400.0, saved_s=NOW_S + 5.0) == 60 * 2
    assert cost(type=WorkloadType.SERVING, checkpoint_s=400.0) == 60 * 2
    assert cost(gang=2) == cost() * 4 * 2
    assert cost(gang=1) == cost()
    assert cost(leaving=True) == 0.0
    assert impact(pod("p", compute=500, started_s=100.0), NOW_S) == 960 * 0.5
    assert impact(pod("p", compute=10, started_s=100.0), NOW_S) == 960 * 0.05


@pytest.mark.parametrize(
    ("victim", "allowed"),
    [
        ({"priority": 4}, True),
        ({"priority": 5}, False),
        ({"priority": 4, "tenant": "u"}, True),
        ({"priority": 4, "tenant": "u", "isolation": Isolation.OWN_DEVICE}, False),
        ({"priority": 4, "isolation": Isolation.OWN_DEVICE}, True),
    ],
)
def test_only_lower_priorities_are_pushed_out_and_never_across_a_wall(
    victim: dict[str, object], allowed: bool
) -> None:
    assert may_preempt(pod("p", priority=5), pod("v", **victim)) is allowed  # type: ignore[arg-type]


SERVING, TRAINING = WorkloadType.SERVING, WorkloadType.TRAINING


@pytest.mark.parametrize(
    ("victim", "allowed"),
    [
        ({}, True),
        ({"interruptible": False}, False),
        ({"phase": PodPhase.STARTING}, False),
        ({"gang": 2}, False),
        ({"claims": (Claim("c"),)}, False),
        ({"workload": ""}, False),
        ({"leaving": True}, False),
        ({"type": TRAINING}, False),
        ({"type": TRAINING, "checkpoint_s": 9.0}, True),
        ({"type": TRAINING, "checkpoint_s": 9.0, "interruptible": False}, False),
        ({"type": SERVING}, False),
        ({"type": SERVING, "workload": "twice", "interruptible": False}, True),
        ({"type": SERVING, "workload": "starts"}, False),
    ],
)
def test_only_what_comes_to_no_harm_is_moved(victim: dict[str, object], allowed: bool) -> None:
    fields = {"phase": PodPhase.RUNNING, "interruptible": True, **victim}
    one = pod("v", **fields)  # type: ignore[arg-type]
    mates = [
        pod("mate", workload="twice", phase=PodPhase.RUNNING),
        pod("late", workload="starts", phase=PodPhase.STARTING),
    ]
    assert may_move(one, world([node("a")], [one, *mates])) is allowed


def test_those_who_leave_go_first_then_low_priority_then_little_work_then_the_first_name() -> None:
    where = node("a")
    wish = pod("wish", devices=1, priority=99)
    there = together(where, *(pod(name, devices=1) for name in "wxyz"))

    def first(**changed: dict[str, object]) -> list[str] | None:
        return victims(wish, where, [msgspec.structs.replace(one, **changed.get(one.name, {})) for one in there])

    assert first() == ["w"]
    assert first(z={"started_s": 101.0}) == ["z"]
    assert first(z={"started_s": 900.0}, y={"priority": -1}) == ["y"]
    assert first(y={"priority": -1}, x={"leaving": True, "priority": 50}) == ["x"]


def test_those_who_need_not_go_are_spared_the_dearest_first() -> None:
    """One device is taken from `small` before it is clear that `large` alone would have been enough."""
    where = node("a")
    small, large = together(where, pod("small", devices=1), pod("large", devices=3))
    assert victims(pod("wish", devices=3), where, [small, large]) == ["large"]
    assert victims(pod("wish", devices=4), where, [small, large]) == ["small", "large"]
    assert victims(pod("wish", devices=5), where, [small, large]) is None
    b = node("b", 3)
    cheap, dear, urgent = together(b, *(pod(name, devices=1) for name in ("cheap", "dear", "urgent")))
    urgent = msgspec.structs.replace(urgent, priority=3)
    cheap = msgspec.structs.replace(cheap, started_s=500.0)
    assert victims(pod("wish", devices=2), b, [cheap, dear, urgent]) == ["cheap", "dear"]


def test_a_pod_that_fits_already_needs_no_victims() -> None:
    where = node("a", 2)
    assert victims(pod("wish", devices=1), where, [on(where, "x")]) is None


def test_the_price_of_a_clearing_is_that_of_its_victims() -> None:
    where = node("a", 2)
    there = together(where, pod("x", devices=1), pod("y", devices=1))
    seen = world([where], there)
    found = clear(pod("wish", devices=2), seen.rooms["a"], there, seen, ruled=False)
    assert found is not None
    assert (found.cost, found.room) == (2 * 960.0, seen.rooms["a"])
    assert sorted(seen.rooms["a"].pods) == ["x", "y"], "tried on a copy"


def test_a_disruption_budget_lets_so_many_go_and_one_that_nobody_knows_says_nothing() -> None:
    where = node("a", 3)
    there = together(where, *(pod(name, devices=1, budgets=("b",)) for name in "xyz"))
    two = pod("wish", devices=2)
    assert victims(two, where, there, b=2) == ["x", "y"]
    assert victims(two, where, there, b=1) is None
    assert victims(two, where, there, other=0) == ["x", "y"]
    assert victims(two, where, there) == ["x", "y"]
    leaves = [msgspec.structs.replace(there[0], leaving=True), *there[1:]]
    assert victims(two, where, leaves, b=1) == ["x", "y"], "who leaves already uses nothing of it"
    mixed = [*there[:2], msgspec.structs.replace(there[2], budgets=("c",))]
    assert victims(two, where, mixed, b=1, c=1) == ["x", "z"]


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ({}, {"started_s": 101.0}, "b"),
        ({"started_s": 101.0}, {}, "a"),
        ({}, {}, "a"),
    ],
)
def test_the_cheapest_clearing_of_all_nodes_is_taken(
    first: dict[str, float], second: dict[str, float], chosen: str
) -> None:
    nodes = [node("a", 1), node("b", 1)]
    there = [
        msgspec.structs.replace(on(nodes[0], "x"), **first),
        msgspec.structs.replace(on(nodes[1], "y"), **second),
    ]
    for order in (nodes, nodes[::-1]):
        seen = world(order, there)
        found = cheapest(pod("wish", devices=1), seen, anybody)
        assert found is not None
        assert found.room.node.name == chosen


def test_among_clearings_of_one_price_fewer_victims_then_the_fuller_node_are_taken() -> None:
    a, b, c = node("a", 2), node("b", 2), node("c", 2, cpu=32_000)
    pair = together(a, pod("x", devices=1), pod("y", devices=1))
    seen = world([a, b], [*pair, on(b, "z", 2)])
    found = cheapest(pod("wish", devices=2), seen, anybody)
    assert found is not None
    assert [victim.name for victim in found.victims] == ["z"]
    seen = world([b, c], [on(b, "z", 2), on(c, "v", 2)])
    found = cheapest(pod("wish", devices=2), seen, anybody)
    assert found is not None
    assert found.room.node.name == "c"


def test_only_nodes_of_the_pool_and_victims_that_are_allowed_are_looked_at() -> None:
    here, there = node("a", 1), msgspec.structs.replace(node("b", 1), pool="other")
    seen = world([here, there], [on(here, "x"), on(there, "y")])
    found = cheapest(pod("wish", devices=1, pool="other"), seen, anybody)
    assert found is not None
    assert found.room.node.name == "b"
    assert cheapest(pod("wish", devices=1, pool="other"), seen, lambda victim: victim.name == "x") is None


def test_a_tenant_gives_up_no_more_pods_than_its_budget() -> None:
    pods = [pod("x"), pod("y"), pod("z", tenant="u")]
    assert within_budget(pods, 2)
    assert not within_budget(pods, 1)
    assert within_budget(pods[1:], 1)
    assert within_budget([], 0)


def decided(nodes: list[Node], pods: list[Pod]) -> tuple[Decision, ...]:
    return pack(cluster(nodes, pods), CATALOGUE)


def test_an_eviction_tells_the_priorities_and_names_only_pods_of_the_same_tenant() -> None:
    where = node("a", 1)
    for tenant, shown in (("t", "up"), ("u", "another tenant's pod")):
        evict, bind = decided([where], [on(where, "low", tenant=tenant), pod("up", devices=1, priority=7)])
        assert evict == Evict(
            "low", "uid-low", "low", Verdict("a", Reason.PREEMPTED, f"priority 7 for {shown}", "has 0")
        )
        assert isinstance(bind, Bind)
        assert bind.evicts == ("low",)


def test_a_move_says_where_the_moved_one_fits_as_well() -> None:
    nodes = [node("a"), node("b")]
    there = [on(nodes[0], "x", interruptible=True), on(nodes[1], "y", 2)]
    evict, bind = decided(nodes, [*there, pod("wide", devices=4)])
    assert evict == Evict("x", "uid-x", "x", Verdict("a", Reason.FRAGMENTED, "room for wide", "fits on b as well"))
    assert isinstance(bind, Bind)
    assert (bind.node, bind.evicts) == ("a", ("x",))


def test_nobody_is_moved_for_a_gang_or_beyond_the_budget_nor_pushed_out_when_that_is_off() -> None:
    nodes = [node("a"), node("b")]
    there = [on(nodes[0], "x", interruptible=True), on(nodes[1], "y", 2)]
    wide = [pod("wide", devices=4)]
    assert make_room(wide, world(nodes, there, PackSettings(moves_per_tenant=0))) is None
    assert make_room(wide, world(nodes, there, PackSettings(moves_per_tenant=1))) is not None
    gang = [pod(f"g{i}", devices=4, gang=2, workload="g") for i in range(2)]
    assert make_room(gang, world(nodes, there)) is None
    up = [pod("up", devices=4, priority=3)]
    assert make_room(up, world(nodes, there, PackSettings(preempt=False, moves_per_tenant=0))) is None
    assert make_room(up, world(nodes, there, PackSettings(moves_per_tenant=0))) is not None
    assert (
        make_room([pod("up", devices=4, priority=3, preempts=False)], world(nodes, there, PackSettings(True, 0)))
        is None
    )


def test_what_was_cleared_is_taken_and_what_was_not_is_as_before() -> None:
    nodes = [node("a"), node("b")]
    there = [on(nodes[0], "x", interruptible=True, budgets=("k",)), on(nodes[1], "y", 2)]
    seen = world(nodes, there, k=1)
    make_room([pod("wide", devices=4)], seen)
    assert sorted(seen.rooms["a"].pods) == ["wide"]
    assert seen.spent == {"k": 1}
    full = [there[0], on(nodes[1], "y", 4)]
    seen = world(nodes, full, k=1)
    assert make_room([pod("wide", devices=4)], seen) is None
    assert (sorted(seen.rooms["a"].pods), seen.spent) == (["x"], {})


def test_a_gang_that_cannot_be_seated_whole_puts_back_those_it_would_have_pushed_out() -> None:
    nodes = [node("a", 1), node("b", 1)]
    there = [on(nodes[0], "x", budgets=("k",)), on(nodes[1], "y", priority=9)]
    seen = world(nodes, there, k=3)
    gang = [pod(f"g{i}", devices=1, gang=2, workload="g", priority=5) for i in range(2)]
    assert make_room(gang, seen) is None
    assert [sorted(room.pods) for room in seen.rooms.values()] == [["x"], ["y"]]
    assert seen.spent.get("k", 0) == 0


def test_victims_have_seats_elsewhere_once_the_wanted_pod_sits() -> None:
    a, b = node("a", 2), node("b", 3)
    pair = together(a, pod("x", devices=1), pod("y", devices=1))
    wish = pod("wish", devices=2)
    for taken, homes in ((1, ["b", "b"]), (2, None)):
        seen = world([a, b], [*pair, on(b, "z", taken)])
        found = cheapest(wish, seen, lambda victim: victim.name in "xy")
        assert found is not None
        seats = seats_elsewhere(wish, found, seen)
        assert (None if seats is None else [seat.room.node.name for seat in seats]) == homes
        assert sorted(seen.rooms["a"].pods) == ["x", "y"], "tried on copies"


def test_those_who_are_awaited_are_named_three_at_most() -> None:
    where = node("a")
    there = [
        msgspec.structs.replace(one, leaving=True)
        for one in together(where, *(pod(name, devices=1) for name in ("w", "x", "y", "z")))
    ]
    stays, *rest = there
    (hold,) = decided(
        [where], [msgspec.structs.replace(stays, leaving=False, priority=9), *rest, pod("p", devices=2)]
    )
    assert isinstance(hold, Hold)
    assert [one.sentence for one in hold.verdicts] == ["needs the place on a, x, y are still leaving"]
    (hold,) = decided([where], [*there, pod("p", devices=4)])
    assert isinstance(hold, Hold)
    assert (hold.pod, hold.workload) == ("p", "p")
    assert hold.verdicts == (
        Verdict("a", Reason.WAITING_FOR_EVICTION, "the place on a", "w, x, y are still leaving"),
    )


def test_a_budget_that_alone_stands_in_the_way_is_named_with_what_it_allows() -> None:
    where = node("a", 2)
    there = together(where, pod("x", devices=1, budgets=("m", "k")), pod("y", devices=1, budgets=("k",)))
    wish = [pod("up", devices=2, priority=5)]
    (told,) = guarded(wish, world([where], there, k=1, m=4))
    assert told == Verdict(
        "a", Reason.DISRUPTION_BUDGET, "2 pods of lower priority to give way", "k, m allows 1 disruptions now"
    )
    seen = world([where], there, k=1, m=4)
    seen.spent["k"] = 3
    assert guarded(wish, seen)[0].found == "k, m allows 0 disruptions now"
    assert guarded(wish, world([where], there)) == ()
    assert guarded(wish, world([where], there, PackSettings(preempt=False), k=1)) == ()
    assert guarded([pod("up", devices=2, priority=5, preempts=False)], world([where], there, k=1)) == ()
    assert guarded([pod("up", devices=2)], world([where], there, k=1)) == ()
    free = together(where, pod("x", devices=1), pod("y", devices=1))
    assert guarded(wish, world([where], free, k=1))[0].found.endswith("allows 0 disruptions now")
