"""Defragmentation on a wish, on a small fleet in virtual time: torn devices come together and the held one runs."""

from __future__ import annotations

import pytest

from dure.model.catalogue import Catalogue
from dure.model.decision import Bind, Evict
from dure.model.defrag import DefragAnswer, DefragState
from dure.model.errors import NotFound
from dure.model.fleet import Fleet
from dure.model.reason import Reason
from dure.model.workload import Phase, Workload
from dure.plane import defrag
from tests.unit.embedded.test_world import Turner, batch

MOVABLE = "  interruptible: true\n"


def whole(name: str, devices: int = 1) -> Workload:
    return batch(
        name, duration="9h", demand=f"{{devices: {devices}}}", extra=MOVABLE, classes="{name: a100-80gb-sxm}"
    )


@pytest.fixture
def torn(small_fleet: Fleet, known: Catalogue) -> Turner:
    """Two nodes of four devices, two free on each, and a workload that is held because it wants four together."""
    turner = Turner(small_fleet, known)
    turner.world.submit([whole(f"w{index}") for index in range(8)])
    turner.run(600)
    for held in _by_node(turner).values():
        for name in sorted(held)[:2]:
            turner.world.desk.cancel(name)
    turner.run(120)
    turner.world.submit([whole("wide", 4)])
    turner.run(120)
    return turner


def _by_node(turner: Turner) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pod in turner.world.clusters["seoul"].fetch_state().pods:
        if pod.holds:
            found.setdefault(pod.node, []).append(pod.workload)
    return found


def ask(turner: Turner, *, apply: bool, cluster: str | None = "seoul") -> DefragAnswer:
    return defrag.ask(turner.store, turner.fleet, turner.clock.now(), cluster, apply)[0]


def answer(turner: Turner) -> DefragAnswer:
    (found,) = defrag.answers(turner.store, turner.fleet, "seoul")
    return found


def test_the_plan_names_whom_it_is_for_and_moves_nothing(torn: Turner) -> None:
    assert torn.store.fetch_workload("wide").status.phase is Phase.HELD
    before = _by_node(torn)
    asked = ask(torn, apply=False)
    assert asked.state is DefragState.ASKED
    torn.run(120)
    found = answer(torn)
    assert (found.wish, found.state) == (asked.wish, DefragState.PLANNED)
    assert found.plan is not None
    assert found.plan.goal == "4 whole devices for wide, which is held"
    assert len(found.plan.moves) == 2
    assert found.plan.cost_s == pytest.approx(sum(move.lost_s for move in found.plan.moves))
    assert _by_node(torn) == before


def test_a_plan_that_is_carried_out_lets_the_held_workload_run(torn: Turner) -> None:
    ask(torn, apply=True)
    torn.run(1200)
    found = answer(torn)
    assert found.state is DefragState.MOVED
    assert found.plan is not None
    assert torn.store.fetch_workload("wide").status.phase is Phase.RUNNING
    assert _by_node(torn)[found.plan.node] == ["wide"]
    journal = torn.store.list_journal(limit=1000)
    moved = [entry.decision for entry in journal if isinstance(entry.decision, Evict)]
    assert {one.pod for one in moved} == {move.pod for move in found.plan.moves}
    assert all(one.reason.reason is Reason.FRAGMENTED for one in moved)
    again = {e.decision.workload for e in journal if isinstance(e.decision, Bind)}
    assert {one.workload for one in moved} <= again


def test_a_wish_is_carried_out_once_even_when_the_agent_starts_again(torn: Turner) -> None:
    ask(torn, apply=True)
    torn.run(600)
    first = answer(torn)
    torn.crash()
    torn.run(600)
    assert answer(torn) == first
    assert len([e for e in torn.store.list_journal(limit=1000) if isinstance(e.decision, Evict)]) == 2


def test_a_plan_is_dropped_when_the_cluster_changes_before_the_second_look(torn: Turner) -> None:
    ask(torn, apply=True)
    torn.clock.advance(torn.clock.now() + 30.0)
    torn.world.step()
    found = answer(torn)
    assert found.state is DefragState.PLANNED
    assert found.plan is not None
    torn.world.desk.cancel(found.plan.moves[0].workload)
    torn.run(120)
    dropped = answer(torn)
    assert (dropped.wish, dropped.state) == (found.wish, DefragState.DROPPED)
    assert "changed" in dropped.note


def test_a_wish_that_is_being_carried_out_is_not_replaced(torn: Turner) -> None:
    first = ask(torn, apply=True)
    assert ask(torn, apply=False).wish == first.wish
    assert ask(torn, apply=True).wish == first.wish


def test_where_nothing_can_move_the_answer_says_so(torn: Turner) -> None:
    defrag.ask(torn.store, torn.fleet, torn.clock.now(), None, False)
    torn.run(120)
    states = {one.cluster: one for one in defrag.answers(torn.store, torn.fleet, None)}
    assert states["busan"].state is DefragState.NOTHING
    assert states["busan"].note


def test_an_unknown_cluster_is_named_with_the_nearest(torn: Turner) -> None:
    with pytest.raises(NotFound, match="seol") as caught:
        ask(torn, apply=False, cluster="seol")
    assert "seoul" in caught.value.remedy
