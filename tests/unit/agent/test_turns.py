"""Somebody's turn in a torn pool: the agent keeps the nodes that have the fewest to go, and moves whom it may."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.agent.keeping import chosen
from dure.agent.tidy import TURN_S, Tidy
from dure.model.cluster import ClusterState, NodePhase, Pod
from dure.model.decision import Bind
from dure.model.defrag import WantedRoom
from dure.model.workload import WorkloadType
from dure.pack import Memory, pack
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

GANG = WantedRoom("gang", 4, ("big",), "pool", nodes=2)


def busy(name: str, devices: int, **more: Any) -> list[Pod]:
    return running([node(name)], [pod(f"on-{name}", devices=devices, **more)])


def world(pods: list[Pod], now_s: float = 1000.0) -> ClusterState:
    return msgspec.structs.replace(cluster([node(name) for name in "abcd"], pods), now_s=now_s)


TORN = [*busy("a", 1), *busy("b", 3), *busy("c", 1), *busy("d", 2)]


def test_the_nodes_with_the_fewest_to_go_are_kept_and_stay_so() -> None:
    assert chosen(GANG, world(TORN), ()) == ("a", "c")
    changed = [*busy("a", 2), *busy("c", 1)]
    assert set(chosen(GANG, world(changed), ("a", "c"))) == {"a", "c"}
    assert chosen(GANG, world(changed), ()) == ("b", "d")


def test_a_service_stays_so_its_node_is_taken_last_and_a_node_that_goes_never() -> None:
    served = [*busy("a", 1, type=WorkloadType.SERVING), *TORN[1:]]
    assert chosen(GANG, world(served), ()) == ("c", "d")
    made = world(TORN)
    leaving = msgspec.structs.replace(made.nodes[0], phase=NodePhase.DRAINING)
    going = msgspec.structs.replace(made, nodes=(leaving, *made.nodes[1:]))
    assert chosen(GANG, going, ("a",)) == ("c", "d")


def test_nobody_else_is_seated_on_a_kept_node_and_the_gang_is() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.keep_for([GANG], 1000.0)
    wide = [pod(f"gang-{number}", devices=4, workload="gang", gang=2, index=number) for number in range(2)]
    names, view = tidy.view(world([*TORN[1:2], *TORN[3:], pod("single", devices=1), *wide]))
    seats = {one.pod: one.node for one in pack(view, CATALOGUE) if isinstance(one, Bind)}
    assert names == "a,c"
    assert seats == {"single": "b", "gang-0": "a", "gang-1": "c"} or seats == {
        "single": "b", "gang-0": "c", "gang-1": "a",
    }  # fmt: skip


def test_a_node_that_is_kept_for_one_is_not_open_to_another_who_has_nodes_kept_too() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.keep(["a", "b", "c"], "first", 1000.0)
    tidy.keep(["d"], "second", 1000.0)
    both = [pod("first", devices=4), pod("second", devices=4), pod("third", devices=4)]
    _, view = tidy.view(world(both))
    seats = {one.pod: one.node for one in pack(view, CATALOGUE) if isinstance(one, Bind)}
    assert seats.pop("first") in ("a", "b", "c")
    assert seats == {"second": "d"}


def test_nodes_are_free_again_when_it_has_come_when_the_plane_says_so_or_is_silent() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.keep_for([GANG], 1000.0)
    assert tidy.view(world(TORN))[0] == "a,c"
    assert tidy.view(world(TORN, 1000.0 + TURN_S))[0] == ""
    tidy.keep_for([GANG], 1000.0)
    tidy.keep_for([], 1010.0)
    assert tidy.view(world(TORN, 1020.0))[0] == ""
    tidy.keep_for([GANG], 1000.0)
    there = running([node("a")], [pod("gang-0", devices=4, workload="gang")])
    assert tidy.view(world(there, 1020.0))[0] == ""


def test_whoever_may_move_leaves_a_kept_node_for_one_that_is_not() -> None:
    tidy = Tidy(CATALOGUE)
    tidy.keep_for([GANG], 1000.0)
    movable = [*busy("a", 1, interruptible=True), *busy("b", 3), *busy("c", 1), *busy("d", 2)]
    tidy.view(world(movable))
    assert tidy.step(world(movable), Memory()) == []
    assert tidy.plan is not None
    assert {move.to_node for move in tidy.plan.moves} <= {"b", "d"}
    (evict,) = tidy.step(world(movable, 1010.0), Memory())
    assert evict.pod == "on-a"
