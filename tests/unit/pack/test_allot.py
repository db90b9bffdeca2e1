"""Claimed devices in the packing: requests that compete, claims that are shared, devices that come back."""

from __future__ import annotations

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
from dure.model.reason import Reason
from dure.pack import pack
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
