"""What others say about a seat, asked of the gate itself: what it counts, what it weighs, whom it lets in."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.affinity import Match, NodeTerm, Operator, PodTerm, Rules, Spread
from dure.model.cluster import Node, Pod, Taint, Toleration
from dure.model.reason import Reason, Verdict
from dure.pack.neighbours import Gate, gate_of
from dure.pack.room import NodeRoom, room_of
from tests.unit.pack.worlds import CATALOGUE, node, pod

HOST, ZONE, FLOOR = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "floor"


def app(name: str) -> tuple[Match, ...]:
    return (Match("app", Operator.IN, (name,)),)


def term(name: str, topology: str = ZONE, weight: int = 0) -> PodTerm:
    return PodTerm(topology, app(name), ("ns",), weight)


def member(name: str, label: str = "x", rules: Rules | None = None, **more: object) -> Pod:
    return pod(name, namespace="ns", labels={"app": label}, rules=rules or Rules(), **more)  # type: ignore[arg-type]


def rooms(*shape: tuple[str, str, list[Pod]], **more: object) -> dict[str, NodeRoom]:
    """Nodes as (name, zone, pods that sit there)."""
    return {
        name: room_of(msgspec.structs.replace(node(name, zone=zone), **more), there, CATALOGUE)
        for name, zone, there in shape
    }


def clashes(wish: Pod, there: dict[str, NodeRoom]) -> dict[str, str]:
    gate = Gate(wish, there)
    found = {name: gate.clash(room) for name, room in there.items()}
    return {name: verdict.sentence for name, verdict in found.items() if verdict is not None}


def test_nobody_is_asked_where_nobody_has_a_rule() -> None:
    plain = rooms(("a", "1", [member("m")]))
    assert gate_of(member("p"), plain) is None
    one = (term("x"),)
    for rules in (Rules(together=one), Rules(apart=one), Rules(drawn=one), Rules(shuns=one)):
        assert isinstance(gate_of(member("p", rules=rules), plain), Gate)
    assert gate_of(member("p"), rooms(("a", "1", [member("m", rules=Rules(apart=(term("y"),)))]))) is not None


def test_together_needs_a_match_in_the_domain_and_a_domain() -> None:
    wish = member("p", "y", Rules(together=(term("x"),)))
    there = rooms(("a", "1", [member("m")]), ("b", "1", []), ("c", "2", [member("n", "z")]), ("d", "", []))
    assert clashes(wish, there) == {
        "c": f"needs app=x in the same {ZONE}, 2 has none",
        "d": f"needs app=x in the same {ZONE}, d has none",
    }


def test_the_first_of_its_kind_may_sit_anywhere_that_has_a_domain() -> None:
    own = Rules(together=(term("x"),))
    empty = rooms(("a", "1", []), ("d", "", []))
    assert list(clashes(member("p", "x", own), empty)) == ["d"]
    assert list(clashes(member("p", "y", own), empty)) == ["a", "d"], "it is not what it looks for"
    assert list(clashes(member("p", "x", own), rooms(("a", "1", []), ("b", "2", [member("m")])))) == ["a"]
    two = Rules(together=(term("x"), term("y")))
    assert list(clashes(member("p", "x", two), empty)) == ["a", "d"], "it is only one of the two"


def test_apart_counts_those_who_are_in_the_domain() -> None:
    wish = member("p", "y", Rules(apart=(term("x"),)))
    there = rooms(("a", "1", [member("m"), member("n")]), ("b", "1", []), ("c", "2", []), ("d", "", [member("o")]))
    sentence = f"needs no app=x in the same {ZONE}, 1 has 2"
    assert clashes(wish, there) == {"a": sentence, "b": sentence}


def test_a_fence_is_named_only_to_its_own_tenant_and_stands_around_the_domain() -> None:
    fence = Rules(apart=(term("x"), term("q", HOST)))
    for tenant, keeper in (("t", "m"), ("u", "another tenant")):
        there = rooms(("a", "1", [member("m", "y", fence, tenant=tenant)]), ("b", "1", []), ("c", "2", []))
        sentence = f"needs to be let into {ZONE} 1, {keeper} keeps such pods away"
        assert clashes(member("p"), there) == {"a": sentence, "b": sentence}
        assert clashes(member("p", "z"), there) == {}
    homeless = rooms(("a", "", [member("m", "y", fence)]), ("b", "", []))
    assert clashes(member("p"), homeless) == {}


def spread(skew: int = 1, **more: object) -> Rules:
    return Rules(spread=(msgspec.structs.replace(Spread(ZONE, skew, app("x")), **more),))


def uneven() -> dict[str, NodeRoom]:
    return rooms(("a", "1", [member("m"), member("n")]), ("b", "2", [member("o")]), ("c", "", []))


def test_a_spread_allows_as_much_skew_as_it_says() -> None:
    none = f"needs a node with {ZONE}, it has none"
    too_much = f"needs a skew of at most 1 over {ZONE}, 1 would have 2"
    assert clashes(member("p", rules=spread(1)), uneven()) == {"a": too_much, "c": none}
    assert clashes(member("p", rules=spread(2)), uneven()) == {"c": none}
    assert clashes(member("p", "z", spread(1)), uneven()) == {"c": none}, "one who is not counted adds nothing"
    assert clashes(member("p", rules=spread(1, hard=False)), uneven()) == {}


def test_too_few_domains_make_the_emptiest_one_empty() -> None:
    assert list(clashes(member("p", rules=spread(2, min_domains=2)), uneven())) == ["c"]
    assert list(clashes(member("p", rules=spread(2, min_domains=3)), uneven())) == ["a", "c"]


def test_only_pods_of_the_namespace_that_stay_and_match_count_for_a_spread() -> None:
    others = [
        member("l", leaving=True),
        msgspec.structs.replace(member("o"), namespace="other"),
        member("z", "z"),
    ]
    there = rooms(("a", "1", others), ("b", "2", []))
    assert clashes(member("p", rules=spread(1)), there) == {}


def reached(wish: Pod, **far: object) -> bool:
    """Whether the empty zone 2 counts for the spread of the pod, so that zone 1 with its one mate is too full."""
    there = rooms(("a", "1", [member("m")]), labels={"disk": "ssd"})
    there["b"] = room_of(msgspec.structs.replace(node("b", zone="2"), **far), (), CATALOGUE)
    return "a" in clashes(wish, there)


@pytest.mark.parametrize(
    ("far", "counts"),
    [
        ({}, True),
        ({"pool": "other"}, False),
        ({"labels": {"disk": "hdd"}}, False),
        ({"taints": (Taint("k", "v"),)}, False),
        ({"taints": (Taint("k", "v", "PreferNoSchedule"),)}, True),
        ({"taints": (Taint("soft", "v", "PreferNoSchedule"), Taint("k", "v"))}, False),
        ({"taints": (Taint("fine"),)}, True),
    ],
)
def test_a_domain_counts_if_the_pod_could_go_there(far: dict[str, object], counts: bool) -> None:
    rules = spread(1, honour_taints=True)
    wish = member(
        "p",
        rules=rules,
        pool="pool",
        tolerations=(Toleration("fine", "Exists"), Toleration("other", "Exists")),
        selector={"disk": "ssd"},
    )
    assert reached(wish, **{"labels": {"disk": "ssd"}, **far}) is counts


def test_a_spread_may_leave_selector_affinity_and_taints_aside() -> None:
    only_a = (NodeTerm(names=(Match("metadata.name", Operator.IN, ("a",)),)),)
    bound = spread(1)
    picky = member("p", rules=bound, selector={"disk": "ssd"})
    assert not reached(picky)
    assert not reached(member("p", rules=msgspec.structs.replace(bound, nodes=only_a)))
    loose = spread(1, honour_affinity=False)
    assert reached(member("p", rules=loose, selector={"disk": "ssd"}))
    assert reached(member("p", rules=msgspec.structs.replace(loose, nodes=only_a)))
    assert reached(member("p", rules=bound), taints=(Taint("k"),))


def test_wishes_add_up_by_their_weights() -> None:
    there = rooms(("a", "1", [member("m"), member("n")]), ("b", "2", [member("o", "y")]), ("c", "3", []))

    def dislikes(rules: Rules) -> list[int]:
        gate = Gate(member("p", rules=rules), there)
        return [gate.dislike(room) for room in there.values()]

    assert dislikes(Rules(shuns=(term("x", weight=5),))) == [10, 0, 0]
    assert dislikes(Rules(drawn=(term("x", weight=5),))) == [-5, 0, 0], "one is as good as two"
    assert dislikes(Rules(shuns=(term("y", weight=3),), drawn=(term("x", weight=5), term("y", weight=7)))) == [
        -5,
        -4,
        0,
    ]
    assert dislikes(spread(9, hard=False)) == [2, 0, 0]
    assert dislikes(spread(9, hard=True)) == [0, 0, 0]


def test_every_clash_names_its_node_and_reason() -> None:
    there = rooms(("a", "1", [member("m")]))
    for rules, reason in (
        (Rules(together=(term("y"),)), Reason.POD_AFFINITY),
        (Rules(apart=(term("x"),)), Reason.POD_AFFINITY),
        (Rules(spread=(Spread(FLOOR, 1, app("x")),)), Reason.TOPOLOGY_SPREAD),
        (Rules(spread=(Spread(ZONE, 1, app("x"), min_domains=2),)), Reason.TOPOLOGY_SPREAD),
    ):
        found = Gate(member("p", rules=rules), there).clash(there["a"])
        assert isinstance(found, Verdict)
        assert (found.where, found.reason) == ("a", reason)


def test_a_label_names_the_domain_of_any_topology() -> None:
    def on(name: str, floor: str, *there: Pod) -> NodeRoom:
        made: Node = msgspec.structs.replace(node(name), labels={FLOOR: floor})
        return room_of(made, there, CATALOGUE)

    there = {"a": on("a", "3", member("m")), "b": on("b", "3"), "c": on("c", "4")}
    assert list(clashes(member("p", rules=Rules(apart=(term("x", FLOOR),))), there)) == ["a", "b"]
