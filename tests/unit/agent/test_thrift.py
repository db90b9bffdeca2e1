"""Giving nodes back ends, even where the scheduler takes the room that every plan counts on."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dure.agent.thrift import MOST_TRIES, Thrift
from dure.scale.nodes.state import Node, Offer, Pod

OFFER = Offer("small", "a10g", (1000, 4000, 16_384), 1_000_000)


def standing(count: int, pods: Sequence[Pod] = (Pod("a", (1000, 2000, 4096)),)) -> tuple[Node, ...]:
    """So many nodes, all pods on the first."""
    first = Node("node-0", "gpu", OFFER, OFFER.size, tuple(pods))
    return (first, *(Node(f"node-{number}", "gpu", OFFER, OFFER.size) for number in range(1, count)))


def test_from_the_cheapest_state_reached_it_is_tried_once() -> None:
    thrift = Thrift()
    assert thrift.begins(standing(13))
    assert thrift.begins(standing(12)), "it did get cheaper"
    assert thrift.begins(standing(13)), "it had to be bought again, but cheaper is known to be possible"
    assert not thrift.begins(standing(12)), "from here it failed"


def test_other_pods_are_another_question() -> None:
    thrift = Thrift()
    assert thrift.begins(standing(3))
    assert not thrift.begins(standing(3))
    assert not thrift.begins(standing(3, [Pod("renamed", (1000, 2000, 4096))])), "a pod made anew is the same demand"
    assert thrift.begins(standing(3, [Pod("a", (500, 2000, 4096))]))


@given(st.lists(st.integers(1, 6), max_size=60))
def test_with_one_demand_it_begins_a_bounded_number_of_times(counts: list[int]) -> None:
    thrift = Thrift()
    begun = sum(thrift.begins(standing(count)) for count in counts)
    assert begun <= MOST_TRIES * len(set(counts))
