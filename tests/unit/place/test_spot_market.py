"""Spells of spot pools as one market: what is learned of them, where to launch, what a loss means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.spell import NodeSpell, PoolSpells
from dure.place.spot import Seen
from dure.place.spot_market import PAST_S, history, market, pick

HOUR_S = 3600.0


def pool(*spells: tuple[float, float | None] | tuple[float, float | None, bool], asks: bool = False) -> PoolSpells:
    """Spells in hours since the watch began; lost unless said otherwise."""
    made = []
    for number, (begin_h, end_h, *given_back) in enumerate(spells):
        end_s = None if end_h is None else end_h * HOUR_S
        made.append(NodeSpell(f"n{number}", begin_h * HOUR_S, end_s, end_h is not None and not given_back))
    return PoolSpells("c", "p", 0.0, tuple(made), asks)


def seen(watched: PoolSpells, now_h: float, up: bool = True, began_h: float = 0.0) -> Seen:
    return history(watched, began_h * HOUR_S).seen(now_h * HOUR_S, up)


def learned(found: Seen) -> list[float]:
    return [found.up, found.down, found.losses, found.returns, found.age_h]


def test_a_pool_is_learned_from_the_age_that_its_spells_reach_and_how_often_they_end() -> None:
    assert learned(seen(pool((0, None)), 1)) == pytest.approx([1 + math.log(2), 1, 1, 1, 1])
    assert learned(seen(pool((0, 2)), 2, up=False)) == pytest.approx([1 + math.log(3), 1, 2, 1, 0])
    back = seen(pool((0, 2), (3, None)), 3)
    assert learned(back) == pytest.approx([1 + math.log(3), 1 + math.log(2), 2, 2, 0])
    assert (back.lost, back.back) == (2 / back.up, 2 / back.down)
    older = seen(pool((0, 2), (3, None)), 4)
    assert older.ends_per_h == pytest.approx(older.lost / 2)


def test_before_its_first_node_a_pool_is_down_unless_nobody_has_asked_for_one() -> None:
    assert learned(seen(pool(), 1, up=False)) == pytest.approx([1, 1 + math.log(2), 1, 1, 1])
    assert learned(seen(pool(asks=True), 1, up=True)) == [1, 1, 1, 1, 0]


def test_a_node_that_was_given_back_was_neither_lost_nor_does_it_leave_the_pool_down() -> None:
    found = history(pool((0, 2, False), asks=True), 0.0)
    assert (found.losses, found.returns, found.down) == (0, 0, False)
    assert found.gathered_up == pytest.approx(math.log(3))


def test_of_many_nodes_each_is_a_spell_and_the_pool_goes_down_with_the_last() -> None:
    two = pool((0, 5), (1, 3))
    assert history(two, 0.0).downs[0].begin_s == 5 * HOUR_S
    assert seen(two, 5, up=False).up == pytest.approx(1 + math.log(6) + math.log(3))
    assert history(pool((0, None), (1, 3)), 0.0).down is False
    assert seen(pool((0, None), (2, None)), 4).age_h == pytest.approx(3), "the mean of those that are there"


def test_only_a_week_before_the_workload_counts_and_everything_since() -> None:
    week_h = PAST_S / HOUR_S
    old = pool((0, 10), (12, None))
    assert seen(old, week_h + 20, began_h=week_h + 11).losses == 1.0, "the loss was more than a week before"
    assert seen(old, week_h + 20, began_h=9).losses == 2.0
    assert seen(old, week_h + 20, began_h=week_h + 15).age_h == pytest.approx(week_h + 5), "younger than it is"


def test_one_launches_where_a_loss_is_least_likely_at_its_age() -> None:
    young, old = Seen(age_h=0.5), Seen(age_h=5.0)
    assert pick([young, old, old], [True, True, True]) == 1
    assert pick([young, old], [True, False]) == 0
    assert pick([young, old], [False, False]) == -1


def test_elsewhere_is_how_often_something_was_up_at_the_moment_of_a_loss() -> None:
    first, second = pool((0, 4), (6, 8), (9, None)), pool((3, 7))
    both = [history(one, 0.0) for one in (first, second)]
    # At 4 the second was up, at 7 the first, at 8 none.
    assert market(both, [True, False], 0, 10 * HOUR_S).elsewhere == pytest.approx(2 / 4)
    assert market(both[:1], [True], 0, 10 * HOUR_S).elsewhere == 0.0
    crowd = [history(pool((0, None), (0, 3)), 0.0)]
    assert market(crowd, [True], 0, 10 * HOUR_S).elsewhere == pytest.approx(1 / 2), "another node of the same pool"


def test_several_pools_come_back_the_sooner_and_the_market_is_as_old_as_its_youngest() -> None:
    pools = [history(pool((0, 4)), 0.0), history(pool((0, 6)), 0.0)]
    one, both = market(pools[:1], [False], -1, 8 * HOUR_S), market(pools, [False, False], -1, 8 * HOUR_S)
    assert both.back > one.back
    assert both.age_h == pytest.approx(2.0)


def test_a_pool_that_was_never_watched_is_as_the_prior_says() -> None:
    never = history(PoolSpells("c", "p", 0.0, asks=True), 0.0)
    assert never.seen(5 * HOUR_S, True) == Seen()


@given(st.lists(st.floats(0.1, 30), min_size=0, max_size=20), st.floats(0, 200), st.booleans())
def test_spells_split_by_a_day_or_a_beginning_gather_what_they_gather_whole(
    lengths: list[float], began_h: float, up: bool
) -> None:
    """Whatever came before a workload began and since adds up to all of it."""
    at, spells = 0.0, []
    for number, length in enumerate(lengths):
        if number % 2 == 0:
            spells.append((at, at + length))
        at += length
    now_h = max(at, began_h)
    found = history(pool(*spells), began_h * HOUR_S)
    losses, aged = found.since_began(now_h * HOUR_S)
    before_days = sum(day[1] for day in found.days)
    whole = found.seen(now_h * HOUR_S, up)
    assert 0 <= losses <= whole.losses - 1
    assert -1e-9 <= aged <= whole.up - 1 + 1e-9
    assert before_days + aged <= whole.up - 1 + 1e-6
