"""Expressions over labels hold as in Kubernetes."""

from __future__ import annotations

import pytest

from dure.model.affinity import ANY_NAMESPACE, Match, NodeTerm, Operator, PodTerm, Rules, Spread

LABELS = {"zone": "a", "gpus": "8", "name": "x"}


@pytest.mark.parametrize(
    ("match", "holds", "words"),
    [
        (Match("zone", Operator.IN, ("a", "b")), True, "zone In a, b"),
        (Match("zone", Operator.IN, ("b",)), False, "zone=b"),
        (Match("zone", Operator.NOT_IN, ("b",)), True, "zone NotIn b"),
        (Match("rack", Operator.NOT_IN, ("b",)), True, "rack NotIn b"),
        (Match("zone", Operator.EXISTS), True, "zone"),
        (Match("rack", Operator.EXISTS), False, "rack"),
        (Match("rack", Operator.DOES_NOT_EXIST), True, "no rack"),
        (Match("zone", Operator.DOES_NOT_EXIST), False, "no zone"),
        (Match("gpus", Operator.GT, ("7",)), True, "gpus Gt 7"),
        (Match("gpus", Operator.GT, ("8",)), False, "gpus Gt 8"),
        (Match("gpus", Operator.LT, ("9",)), True, "gpus Lt 9"),
        (Match("gpus", Operator.LT, ("8",)), False, "gpus Lt 8"),
        (Match("name", Operator.GT, ("1",)), False, "name Gt 1"),
        (Match("rack", Operator.LT, ("1",)), False, "rack Lt 1"),
        (Match("gpus", Operator.GT), False, "gpus Gt "),
    ],
)
def test_an_expression_holds_and_is_shown(match: Match, holds: bool, words: str) -> None:
    assert match.holds(LABELS) is holds
    assert str(match) == words


ZONE_A, ZONE_B = Match("zone", Operator.IN, ("a",)), Match("zone", Operator.IN, ("b",))
NODE_1 = Match("metadata.name", Operator.IN, ("node-1",))


def test_a_node_term_wants_all_of_its_expressions_and_one_without_any_matches_nothing() -> None:
    assert NodeTerm((ZONE_A,)).holds("node-2", LABELS)
    assert NodeTerm((ZONE_A,), (NODE_1,)).holds("node-1", LABELS)
    assert not NodeTerm((ZONE_A,), (NODE_1,)).holds("node-2", LABELS)
    assert not NodeTerm((ZONE_B,), (NODE_1,)).holds("node-1", LABELS)
    assert NodeTerm((), (NODE_1,)).holds("node-1", {})
    assert not NodeTerm().holds("node-1", LABELS)
    assert str(NodeTerm((ZONE_A,), (NODE_1,))) == "zone=a and metadata.name=node-1"
    assert str(NodeTerm()) == "nothing"


def test_a_pod_term_looks_at_namespaces_and_labels() -> None:
    here = PodTerm("host", (ZONE_A,), ("team",))
    assert here.matches("team", LABELS)
    assert not here.matches("other", LABELS)
    assert not here.matches("team", {"zone": "b"})
    assert PodTerm("host", (), (ANY_NAMESPACE,)).matches("other", {})
    assert (str(here), str(PodTerm("host"))) == ("zone=a", "any pod")


def test_node_terms_are_alternatives_and_none_admits_all() -> None:
    assert Rules().admit("node-1", {})
    assert Rules(nodes=(NodeTerm((ZONE_B,)), NodeTerm((ZONE_A,)))).admit("node-1", LABELS)
    assert not Rules(nodes=(NodeTerm((ZONE_B,)),)).admit("node-1", LABELS)
    assert not Rules(nodes=()).admit("node-1", LABELS)


def test_rules_about_nodes_alone_are_not_about_pods() -> None:
    assert not Rules(nodes=(), likes=(NodeTerm(),)).of_pods
    term = (PodTerm("host"),)
    assert all(Rules(**{name: term}).of_pods for name in ("together", "apart", "drawn", "shuns"))  # type: ignore[arg-type]
    assert Rules(spread=(Spread("zone", 1),)).of_pods
