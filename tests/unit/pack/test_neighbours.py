"""Affinity, anti-affinity and spread in the packing; and a second opinion that must never disagree."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.legality import check_binds
from dure.adapters.podspec import rules_of
from dure.model.affinity import NO_RULES, Match, NodeTerm, Operator, PodTerm, Rules, Spread
from dure.model.cluster import ClusterState, Node, Pod, Taint, Toleration
from dure.model.decision import Bind, Decision, Hold
from dure.model.reason import Reason
from dure.model.workload import WorkloadType
from dure.pack import pack
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def app(name: str) -> tuple[Match, ...]:
    return (Match("app", Operator.IN, (name,)),)


def near(name: str, topology: str = HOST, weight: int = 0) -> PodTerm:
    return PodTerm(topology, app(name), ("ns",), weight)


def member(name: str, rules: Rules = NO_RULES, *, label: str = "x", **more: object) -> Pod:
    return pod(name, devices=1, namespace="ns", labels={"app": label}, rules=rules, **more)  # type: ignore[arg-type]


def gang(size: int, rules: Rules) -> list[Pod]:
    made = [member(f"g{i}", rules, gang=size, workload="g", index=i, type=WorkloadType.TRAINING) for i in range(size)]
    return [msgspec.structs.replace(one, uid="uid-g") for one in made]


def seats(nodes: list[Node], pods: list[Pod]) -> dict[str, str]:
    return {one.pod: one.node for one in pack(cluster(nodes, pods), CATALOGUE) if isinstance(one, Bind)}


def why(nodes: list[Node], pods: list[Pod]) -> Hold:
    return next(one for one in pack(cluster(nodes, pods), CATALOGUE) if isinstance(one, Hold))


def zoned() -> list[Node]:
    return [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]


def test_members_that_must_be_apart_sit_on_different_nodes_or_not_at_all() -> None:
    apart = Rules(apart=(near("x"),))
    assert len(set(seats(zoned(), gang(3, apart)).values())) == 3
    held = why(zoned(), gang(4, apart))
    assert {one.reason for one in held.verdicts} >= {Reason.GANG_INCOMPLETE}


def test_a_node_that_the_affinity_does_not_name_is_refused_with_what_it_names() -> None:
    elsewhere = Rules(nodes=(NodeTerm((Match("rack", Operator.IN, ("7",)),)), NodeTerm(names=app("z"))))
    [verdict] = {one.sentence for one in why([node("a1")], [member("m", elsewhere)]).verdicts if one.where == "a1"}
    assert verdict == "needs rack=7 or app=z, a1 is another"
    [verdict] = {
        one.sentence for one in why([node("a1")], [member("m", Rules(nodes=()))]).verdicts if one.where == "a1"
    }
    assert verdict == "needs a node that cannot exist, a1 is another"


def test_a_gang_that_must_be_together_finds_the_domain_that_holds_all_of_it() -> None:
    nodes = [node("a1", 2, zone="a"), node("b1", 2, zone="b"), node("b2", 2, zone="b")]
    found = seats(nodes, gang(4, Rules(together=(near("x", ZONE),))))
    assert set(found.values()) == {"b1", "b2"}
    roomy = [node("a1", 2), node("c1", 4)]
    assert set(seats(roomy, gang(3, Rules(together=(near("x"),)))).values()) == {"c1"}


def test_a_pod_goes_where_the_pods_are_that_it_wants_to_be_near_and_waits_while_there_are_none() -> None:
    mate = running([node("b1", zone="b")], [member("mate", label="db")])
    wish = member("web", Rules(together=(near("db", ZONE),)), label="web")
    assert seats(zoned(), [*mate, wish]) == {"web": "b1"}
    verdict = why(zoned(), [wish]).verdicts[0]
    assert verdict.reason is Reason.POD_AFFINITY
    assert verdict.sentence == f"needs app=db in the same {ZONE}, a has none"


def test_whoever_is_there_may_keep_others_away() -> None:
    lonely = running([node("a1", zone="a")], [member("lonely", Rules(apart=(near("x", ZONE),)))])
    assert seats(zoned(), [*lonely, member("next")]) == {"next": "b1"}
    assert seats(zoned(), [*lonely, member("other", label="y")])["other"] in {"a1", "a2", "b1"}
    verdict = why(zoned()[:2], [*lonely, member("next")]).verdicts[0]
    assert "lonely keeps such pods away" in verdict.sentence


def test_another_namespace_is_not_meant_unless_it_is_named() -> None:
    lonely = running([node("a1")], [member("lonely", Rules(apart=(near("x"),)))])
    stranger = msgspec.structs.replace(member("next"), namespace="elsewhere")
    assert seats([node("a1")], [*lonely, stranger]) == {"next": "a1"}
    everywhere = Rules(apart=(PodTerm(HOST, app("x"), ("*",)),))
    wide = running([node("a1")], [member("wide", everywhere)])
    assert seats([node("a1")], [*wide, stranger]) == {}


def test_required_node_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    named = NodeTerm(names=(Match("metadata.name", Operator.IN, ("b1",)),))
    never = NodeTerm()
    assert seats(zoned(), [member("p", Rules(nodes=(never, named)))]) == {"p": "b1"}
    verdict = why(zoned(), [member("p", Rules(nodes=(never,)))]).verdicts[0]
    assert verdict.reason is Reason.SELECTOR_MISMATCH


def test_a_preferred_node_is_taken_while_it_has_room_and_another_after_that() -> None:
    liked = Rules(likes=(NodeTerm(names=(Match("metadata.name", Operator.IN, ("b1",)),), weight=10),))
    nodes = [node("a1"), node("b1", 1)]
    first, second = member("p1", liked), member("p2", liked)
    assert seats(nodes, [first, second]) == {"p1": "b1", "p2": "a1"}


def test_preferred_neighbours_draw_and_repel() -> None:
    mate = running([node("a1", zone="a")], [member("mate")])
    drawn = Rules(drawn=(near("x", ZONE, weight=5),))
    shuns = Rules(shuns=(near("x", ZONE, weight=5),))
    assert seats(zoned(), [*mate, member("p", drawn)])["p"] in {"a1", "a2"}
    assert seats(zoned(), [*mate, member("p", shuns)]) == {"p": "b1"}


def test_a_hard_spread_keeps_the_domains_level_and_says_what_would_be_too_much() -> None:
    even = Rules(spread=(Spread(ZONE, 1, app("x")),))
    nodes = [node("a1", zone="a"), node("b1", 1, zone="b")]
    found = seats(nodes, [member(f"p{i}", even) for i in range(4)])
    assert sorted(found.values()) == ["a1", "a1", "b1"]
    verdict = why(nodes, [member(f"p{i}", even) for i in range(4)]).verdicts
    assert any(one.reason is Reason.TOPOLOGY_SPREAD and "would have 2" in one.sentence for one in verdict)


def test_domains_that_the_pod_cannot_reach_do_not_count_for_its_spread() -> None:
    only_a = NodeTerm(names=(Match("metadata.name", Operator.IN, ("a1",)),))
    even = Rules(nodes=(only_a,), spread=(Spread(ZONE, 1, app("x")),))
    nodes = [node("a1", zone="a"), node("b1", zone="b")]
    assert len(seats(nodes, [member(f"p{i}", even) for i in range(3)])) == 3
    strict = Rules(nodes=(only_a,), spread=(Spread(ZONE, 1, app("x"), honour_affinity=False),))
    assert len(seats(nodes, [member(f"p{i}", strict) for i in range(3)])) == 1


def test_too_few_domains_count_as_an_empty_one() -> None:
    even = Rules(spread=(Spread(ZONE, 1, app("x"), min_domains=2),))
    assert len(seats([node("a1", zone="a")], [member("p1", even), member("p2", even)])) == 1


def test_a_tainted_node_counts_for_the_spread_unless_taints_are_honoured() -> None:
    dirty = msgspec.structs.replace(node("b1", zone="b"), taints=(Taint("k", "v", "NoSchedule"),))
    nodes = [node("a1", zone="a"), dirty]
    one = running([node("a1", zone="a")], [member("old")])
    for honoured, found in ((False, {}), (True, {"new": "a1"})):
        even = Rules(spread=(Spread(ZONE, 1, app("x"), honour_taints=honoured),))
        assert seats(nodes, [*one, member("new", even)]) == found
    tolerant = member("new", Rules(spread=(Spread(ZONE, 1, app("x"), honour_taints=True),)))
    tolerant = msgspec.structs.replace(tolerant, tolerations=(Toleration("k", "Equal", "v"),))
    assert seats(nodes, [*one, tolerant]) == {"new": "b1"}


def test_wishes_about_neighbours_choose_the_node_by_their_weight() -> None:
    nodes = [node("a1"), node("b1")]
    there = running([node("a1")], [member("mate")])
    for rules, home in (
        (Rules(drawn=(near("x", HOST, 5),)), "a1"),
        (Rules(shuns=(near("x", HOST, 5),)), "b1"),
        (Rules(drawn=(near("x", HOST, 5),), shuns=(near("x", HOST, 9),)), "b1"),
        (Rules(drawn=(near("x", HOST, 9),), shuns=(near("x", HOST, 5),)), "a1"),
    ):
        assert seats(nodes, [*there, member("new", rules)]) == {"new": home}


def test_a_soft_spread_prefers_the_emptier_domain_but_never_holds() -> None:
    soft = Rules(spread=(Spread(HOST, 1, app("x"), hard=False),))
    nodes = [node("a1", 3), node("b1", 1)]
    found = seats(nodes, [member(f"p{i}", soft) for i in range(4)])
    assert sorted(found.values()) == ["a1", "a1", "a1", "b1"]


def test_what_cannot_be_judged_holds_the_pod_and_is_named() -> None:
    term = {"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    rules = rules_of({"podAntiAffinity": required}, (), "ns", {})
    verdict = why([node("a1")], [member("p", rules)]).verdicts[0]
    assert verdict.reason is Reason.NOT_SUPPORTED
    assert "podAntiAffinity.namespaceSelector" in verdict.sentence


def test_a_selector_that_is_not_there_matches_nobody_and_an_empty_one_everybody() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    nobody = rules_of({"podAntiAffinity": {required: [{"topologyKey": HOST}]}}, (), "ns", {})
    anybody = rules_of({"podAntiAffinity": {required: [{"topologyKey": HOST, "labelSelector": {}}]}}, (), "ns", {})
    assert not nobody.apart[0].matches("ns", {"app": "x"})
    assert anybody.apart[0].matches("ns", {"app": "x"})


class World:
    """The state as the second opinion sees it, with what was decided so far."""

    def __init__(self, state: ClusterState) -> None:
        self.nodes = {one.name: one for one in state.nodes}
        self.pods = {one.name: one for one in state.pods}

    def holding(self, name: str) -> list[Pod]:
        return [one for one in self.pods.values() if one.node == name and one.holds]

    def make(self, binds: list[Bind]) -> None:
        check_binds(self, CATALOGUE, binds)
        for bind in binds:
            seated = {"node": bind.node, "slices": bind.slices, "allotted": bind.claims}
            self.pods[bind.pod] = msgspec.structs.replace(self.pods[bind.pod], **seated)


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    topology = st.sampled_from([HOST, ZONE])
    term = st.builds(near, st.sampled_from("xy"), topology)
    return Rules(
        together=tuple(draw(st.lists(term, max_size=1))),
        apart=tuple(draw(st.lists(term, max_size=1))),
        spread=tuple(draw(st.lists(st.builds(Spread, topology, st.integers(1, 2), st.just(app("x"))), max_size=1))),
    )


@given(
    st.lists(st.tuples(rules(), st.sampled_from("xy"), st.integers(1, 3)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=4),
)
def test_the_second_opinion_agrees_with_every_bind(
    wishes: list[tuple[Rules, str, int]], shape: list[tuple[int, str]]
) -> None:
    nodes = [node(f"n{i}", size, zone=zone) for i, (size, zone) in enumerate(shape)]
    pods: list[Pod] = []
    for number, (rule, label, size) in enumerate(wishes):
        for index in range(size):
            made = member(f"p{number}.{index}", rule, label=label, gang=size, workload=f"w{number}", index=index)
            pods.append(msgspec.structs.replace(made, uid=f"uid-{number}"))
    state = cluster(nodes, pods)
    world = World(state)
    gangs: dict[str, list[Bind]] = {}
    for one in pack(state, CATALOGUE):
        if isinstance(one, Bind):
            gangs.setdefault(one.workload, []).append(one)
    for binds in gangs.values():
        world.make(binds)


def test_the_order_of_pods_and_nodes_changes_nothing() -> None:
    even = Rules(spread=(Spread(ZONE, 1, app("x")),), apart=(near("x"),))
    pods = [member(f"p{i}", even) for i in range(3)]

    def decisions(nodes: list[Node], wishes: list[Pod]) -> list[Decision]:
        return sorted(pack(cluster(nodes, wishes), CATALOGUE), key=str)

    assert decisions(zoned(), pods) == decisions(zoned()[::-1], pods[::-1])
