"""Answers of a tenant with a backlog wait for a neighbour that is on its way back: a little, and none is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dure.device.post import HELD_MS, Letter, Post
from dure.device.request import Request


def letter(tenant: str, at_ms: float, number: int = 1) -> Letter:
    return Letter(tenant, Request(number, {}, 0.0), {}, at_ms)


def test_a_backlogs_answer_waits_while_a_neighbour_is_on_its_way_back() -> None:
    post = Post()
    assert not post.holds(letter("modest", 0.0), left=0)
    assert post.holds(letter("greedy", 0.5), left=7)
    assert post.due(0.6, inside={"greedy"}) == []
    assert post.wait_ms(0.6) == 0.5 + HELD_MS - 0.6
    assert [one.tenant for one in post.due(1.0, inside={"greedy", "modest"})] == ["greedy"]
    assert post.wait_ms(1.0) is None


def test_it_waits_for_nobody_who_stays_away() -> None:
    post = Post()
    post.holds(letter("modest", 0.0), left=0)
    assert post.holds(letter("greedy", 0.5), left=7)
    assert len(post.due(HELD_MS, inside=())) == 1
    assert not post.holds(letter("greedy", 2 * HELD_MS), left=7)


def test_the_last_answer_of_a_tenant_never_waits() -> None:
    post = Post()
    post.holds(letter("modest", 0.0), left=0)
    assert not post.holds(letter("other", 0.1), left=0)
    # Nor does one wait for itself.
    alone = Post()
    alone.holds(letter("greedy", 0.0), left=0)
    assert not alone.holds(letter("greedy", 0.1), left=3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.floats(0.0, 3.0)), max_size=40))
def test_every_answer_goes_out_once_and_within_its_time(steps: list[tuple[str, int, float]]) -> None:
    post, now, out, wanted = Post(), 0.0, list[Letter](), list[Letter]()
    for number, (tenant, left, pause) in enumerate(steps):
        now += pause
        out += post.due(now, inside=())
        assert post.wait_ms(now) != 0.0
        wanted.append(letter(tenant, now, number))
        if not post.holds(wanted[-1], left):
            out.append(wanted[-1])
    out += post.due(now + HELD_MS, inside=())
    assert sorted(one.request.number for one in out) == [one.request.number for one in wanted]
