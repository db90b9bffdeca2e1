"""Claimed devices in the packing: requests that compete, claims that are shared, devices that come back."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.legality import check_binds
from dure.model.affinity import Match, NodeTerm, Operator
from dure.model.claim import Allotted, Claim, Request
from dure.model.cluster import Node, Pod, PodPhase
from dure.model.decision import Bind, Evict, Hold
from dure.model.errors import Conflict
from dure.model.reason import Reason, Verdict
from dure.pack import pack
from dure.pack.allot import allot
from dure.pack.room import room_of
from tests.unit.pack.test_neighbours import World
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod


def offering(name: str, *devices: str) -> Node:
    return msgspec.structs.replace(node(name, 0), offers=tuple(f"d/{name}/{one}" for one in devices))


def claiming(name: str, *claims: Claim, **more: object) -> Pod:
    return pod(name, classes=(), claims=claims, **more)  # type: ignore[arg-type]


def claim(name: str, *requests: tuple[int, str]) -> Claim:
    """Each request: how many, and which devices of node `a` would do, one letter each."""
    made = (Request(f"r{at}", n, frozenset(f"d/a/{one}" for one in fit)) for at, (n, fit) in enumerate(requests))
    return Claim(name, tuple(made))


def test_requests_that_compete_are_all_met_when_there_is_a_way() -> None:
    wish = claiming("p", claim("c", (1, "xy"), (1, "x"), (1, "yz")))
    (bind,) = pack(cluster([offering("a", "x", "y", "z")], [wish]), CATALOGUE)
    assert isinstance(bind, Bind)
    assert {one.request: one.device for one in bind.claims} == {"r0": "d/a/y", "r1": "d/a/x", "r2": "d/a/z"}
    assert bind.slices == ()


def test_too_few_devices_hold_the_pod_with_both_numbers() -> None:
    (hold,) = pack(cluster([offering("a", "x", "y")], [claiming("p", claim("c", (3, "xyz")))]), CATALOGUE)
    assert isinstance(hold, Hold)
    assert hold.verdicts[0].reason is Reason.CLAIM_NOT_MET
    assert hold.verdicts[0].sentence == "needs 3 devices for r0 of claim c, a has 2 free"
    (torn,) = pack(cluster([offering("a", "x", "y")], [claiming("p", claim("c", (1, "x"), (1, "x")))]), CATALOGUE)
    assert isinstance(torn, Hold)


def test_one_call_never_gives_a_device_twice() -> None:
    pods = [claiming(f"p{i}", claim(f"c{i}", (1, "xy"))) for i in range(3)]
    decisions = pack(cluster([offering("a", "x", "y")], pods), CATALOGUE)
    given = [one.device for bind in decisions if isinstance(bind, Bind) for one in bind.claims]
    assert sorted(given) == ["d/a/x", "d/a/y"]
    assert sum(isinstance(one, Hold) for one in decisions) == 1


def test_all_devices_means_all_of_them_or_none() -> None:
    every = Claim("c", (Request("r", 0, frozenset({"d/a/x", "d/a/y"}), every=True),))
    (bind,) = pack(cluster([offering("a", "x", "y")], [claiming("p", every)]), CATALOGUE)
    assert isinstance(bind, Bind)
    assert len(bind.claims) == 2
    busy = held("q", "x")
    decisions = pack(cluster([offering("a", "x", "y")], [busy, claiming("p", every)]), CATALOGUE)
    assert [type(one) for one in decisions] == [Hold]


def held(name: str, device: str, **more: object) -> Pod:
    given = (Allotted(f"c-{name}", "r", f"d/a/{device}"),)
    done = claiming(name, Claim(f"c-{name}", allotted=given), **more)
    return msgspec.structs.replace(done, node="a", phase=PodPhase.RUNNING, allotted=given, started_s=0.0)


def test_a_shared_claim_is_followed_to_its_node() -> None:
    given = (Allotted("c", "r", "d/b/x"),)
    home = (NodeTerm(names=(Match("metadata.name", Operator.IN, ("b",)),)),)
    wish = claiming("p", Claim("c", allotted=given, home=home))
    (bind,) = pack(cluster([offering("a", "x"), offering("b", "x")], [wish]), CATALOGUE)
    assert isinstance(bind, Bind)
    assert (bind.node, bind.claims) == ("b", given)


def test_a_lower_priority_gives_its_claimed_device_back() -> None:
    urgent = claiming("up", claim("c", (1, "x")), priority=10)
    decisions = pack(cluster([offering("a", "x")], [held("low", "x"), urgent]), CATALOGUE)
    assert [one.pod for one in decisions if isinstance(one, Evict)] == ["low"]


@given(st.lists(st.lists(st.tuples(st.integers(1, 2), st.sets(st.sampled_from("wxyz"))), max_size=2), max_size=5))
def test_the_second_opinion_agrees_with_every_claim(wishes: list[list[tuple[int, set[str]]]]) -> None:
    requests = [[(n, "".join(sorted(fit))) for n, fit in wish] for wish in wishes]
    pods = [claiming(f"p{i}", claim(f"c{i}", *wish)) for i, wish in enumerate(requests)]
    state = cluster([offering("a", *"wxyz")], pods)
    world = World(state)
    for one in pack(state, CATALOGUE):
        if isinstance(one, Bind):
            world.make([one])


def test_the_second_opinion_refuses_what_is_not_offered_or_not_free() -> None:
    wish = claiming("p", claim("c", (1, "x")))
    world = World(cluster([offering("a", "x")], [held("q", "x"), wish]))
    for device in ("d/a/x", "d/a/nowhere"):
        with pytest.raises(Conflict):
            check_binds(world, CATALOGUE, [Bind("p", "uid-p", "a", (), claims=(Allotted("c", "r0", device),))])


def clash(wish: Pod, where: Node) -> tuple[Reason | None, str]:
    found = allot(wish, room_of(where, (), CATALOGUE))
    assert isinstance(found, Verdict)
    assert found.where == where.name
    return found.reason, found.sentence


def test_a_claim_with_a_problem_is_refused_by_its_kind() -> None:
    broken, odd = Claim("c", problem="no such class"), Claim("c", problem="cel is unknown", unsupported=True)
    assert clash(claiming("p", broken), offering("a")) == (Reason.CLAIM_NOT_MET, "needs claim c, no such class")
    assert clash(claiming("p", odd), offering("a")) == (Reason.NOT_SUPPORTED, "needs claim c, cel is unknown")


def test_a_claim_that_has_its_devices_binds_the_pod_to_its_home() -> None:
    given = (Allotted("c", "r", "d/b/x"),)
    there = NodeTerm(names=(Match("metadata.name", Operator.IN, ("b",)),))
    elsewhere = NodeTerm(names=(Match("metadata.name", Operator.IN, ("z",)),))
    homed = Claim("c", allotted=given, home=(elsewhere, there))
    assert clash(claiming("p", homed), offering("a")) == (
        Reason.CLAIM_NOT_MET,
        "needs claim c, its devices are not on a",
    )
    more = claim("more", (1, "x"))
    room = room_of(offering("a", "x"), (), CATALOGUE)
    anywhere = claiming("p", Claim("c", allotted=given), more)
    assert allot(anywhere, room) == (*given, Allotted("more", "r0", "d/a/x"))


def test_all_devices_of_a_node_that_has_none_are_none() -> None:
    every = Claim("c", (Request("r", 0, frozenset({"d/z/q"}), every=True),))
    assert clash(claiming("p", every), offering("a", "x"))[1] == "needs 1 devices for r of claim c, a has 0 free"


def test_all_devices_are_those_that_would_do() -> None:
    every = Claim("c", (Request("r", 0, frozenset({"d/a/x", "d/a/y"}), every=True),))
    found = allot(claiming("p", every), room_of(offering("a", "x", "y", "z"), (), CATALOGUE))
    assert isinstance(found, tuple)
    assert sorted(one.device for one in found) == ["d/a/x", "d/a/y"]


def test_requests_for_the_same_devices_are_refused_together() -> None:
    wish = claiming("p", claim("c", (1, "x"), (1, "x")))
    assert clash(wish, offering("a", "x", "y")) == (
        Reason.CLAIM_NOT_MET,
        "needs 2 devices for the claims of p, a has fewer that are not the same",
    )


@given(st.lists(st.sets(st.sampled_from("wxyz"), min_size=1), min_size=1, max_size=4))
def test_wishes_are_met_exactly_when_some_order_of_the_devices_meets_them(wishes: list[set[str]]) -> None:
    asked = claim("c", *((1, "".join(sorted(wish))) for wish in wishes))
    found = allot(claiming("p", asked), room_of(offering("a", *"wxyz"), (), CATALOGUE))
    able = any(
        all(device in wish for device, wish in zip(order, wishes, strict=True))
        for order in itertools.permutations("wxyz", len(wishes))
    )
    assert isinstance(found, tuple) == able
    if isinstance(found, tuple):
        assert [one.request for one in found] == [f"r{at}" for at in range(len(wishes))]
        assert all(one.device[-1] in wish for one, wish in zip(found, wishes, strict=True))
        assert len({one.device for one in found}) == len(wishes)
