"""Where an outcome lies on the scale of its forecast, and how ranges follow what came of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.eta import Range, Spread
from dure.place.calibrate import Came, Regimes, Said, Scores, Told, regime, score, taught

NOW_S = 1000.0
SPREAD = Spread(NOW_S + 600.0, NOW_S + 3600.0, NOW_S + 9000.0)
# A minute is added to every time to go.
BELOW, ABOVE = math.log(3660 / 660), math.log(9060 / 3660)
LEVELS = [0.05, 0.25, 0.25, 0.05]


def at(grown: float) -> float:
    """The moment that lies so far off the middle on the logarithmic scale."""
    return NOW_S + 3660.0 * math.exp(grown) - 60.0


def prior(chance: float) -> float:
    return 1.4 * NormalDist().inv_cdf(chance) / NormalDist().inv_cdf(0.95)


def test_a_score_is_the_error_over_the_width_of_its_side() -> None:
    assert score(SPREAD, at(ABOVE * 0.5), NOW_S) == pytest.approx(0.5)
    assert score(SPREAD, at(-BELOW * 0.5), NOW_S) == pytest.approx(-0.5)
    assert score(SPREAD, NOW_S - 99.0, NOW_S) == pytest.approx(math.log(60 / 3660) / BELOW), "at once at the earliest"
    sure = Spread(NOW_S + 3600.0, NOW_S + 3600.0, NOW_S + 3600.0)
    assert score(sure, at(0.3), NOW_S) == pytest.approx(3.0), "a tenth is the narrowest"
    assert score(sure, at(-0.3), NOW_S) == pytest.approx(-3.0)
    past = Spread(NOW_S - 50.0, NOW_S - 20.0, NOW_S - 10.0)
    assert score(past, NOW_S, NOW_S) == 0.0


def test_before_anything_came_the_ranges_are_those_of_the_prior() -> None:
    found = Scores().around(SPREAD, NOW_S)
    assert found.lowest_s == pytest.approx(max(NOW_S, at(prior(0.05) * BELOW)))
    assert found.low_s == pytest.approx(at(prior(0.25) * BELOW))
    assert found.middle_s == SPREAD.middle_s
    assert found.high_s == pytest.approx(at(prior(0.75) * ABOVE))
    assert found.highest_s == pytest.approx(at(prior(0.95) * ABOVE))
    later = Spread(NOW_S + 3000.0, NOW_S + 3600.0, NOW_S + 9000.0)
    assert Scores().around(later, NOW_S).lowest_s == pytest.approx(at(-1.4 * math.log(3660 / 3060)))


def test_ranges_that_fail_for_ever_reach_beyond_all_that_was_seen() -> None:
    late = Scores()
    for _ in range(100):
        late.overdue()
    assert late._levels == [*LEVELS[:3], -0.05]
    assert late.around(SPREAD, NOW_S).highest_s == pytest.approx(at((prior(29.5 / 30) + 10 * 0.05) * ABOVE))


@pytest.mark.parametrize(
    ("came", "failed"),
    [
        ("lowest", (1, 1, 0, 0)),
        ("low", (0, 1, 0, 0)),
        ("middle", (0, 0, 0, 0)),
        ("high", (0, 0, 1, 0)),
    ],
)
def test_each_side_gives_way_by_itself_where_it_failed(came: str, failed: tuple[int, ...]) -> None:
    scores = Scores()
    edges = Range(2000.0, 3000.0, 4000.0, 5000.0, 6000.0)
    moment = {"lowest": 1999.0, "low": 2000.0, "middle": 3000.0, "high": 5001.0}[came]
    scores.add(Said(NOW_S, SPREAD, edges), moment)
    expected = [level + 0.005 * (level - one) for level, one in zip(LEVELS, failed, strict=True)]
    assert scores._levels == pytest.approx(expected)


def test_edges_themselves_are_inside_and_beyond_the_last_one_was_counted_before() -> None:
    edges = Range(2000.0, 3000.0, 4000.0, 5000.0, 6000.0)
    for moment, failed in ((5000.0, (0, 0, 0, 0)), (6000.0, (0, 0, 1, 0))):
        scores = Scores()
        scores.add(Said(NOW_S, SPREAD, edges), moment)
        assert scores._levels == pytest.approx(
            [one + 0.005 * (one - no) for one, no in zip(LEVELS, failed, strict=True)]
        )
    beyond = Scores()
    beyond.add(Said(NOW_S, SPREAD, edges), 6001.0)
    assert beyond._levels[3] == 0.05, "it counted when it was overdue"
    assert beyond._levels[2] == pytest.approx(0.25 + 0.005 * (0.25 - 1))


def learned(known: Iterable[Came]) -> Scores:
    scores = Scores()
    for one in known:
        scores.learn(one)
    return scores


def test_ranges_that_always_hold_shrink_to_half_of_all_cases_and_half_ranges_to_the_middle() -> None:
    wide = Range(0.0, 0.0, 4000.0, 1e9, 1e9)
    scores = Scores()
    for turn in range(2000):
        scores.add(Said(NOW_S + turn, SPREAD, wide), NOW_S + turn)
    assert scores._levels == pytest.approx([0.25, 0.5, 0.5, 0.25])


def test_a_quantile_is_the_first_score_at_which_the_weights_are_enough() -> None:
    """Thirty of the prior, and one hundred outcomes one after the other that all lay at 3."""
    known = [Came(NOW_S + turn, NOW_S + turn + 0.5, 3.0) for turn in range(100)]
    found = learned(known).around(SPREAD, NOW_S)
    assert found.highest_s == found.high_s == pytest.approx(at(3 * ABOVE))
    # A twentieth of 130 is 6.5: the seventh of the prior; a quarter is 32.5, which only the outcomes reach.
    assert found.lowest_s == pytest.approx(max(NOW_S, at(prior(6.5 / 30) * BELOW)))
    assert found.low_s == found.middle_s == SPREAD.middle_s, "the middle lies inside whatever came"
    early = [Came(NOW_S + turn, NOW_S + turn + 0.5, -0.01) for turn in range(100)]
    found = learned(early).around(SPREAD, NOW_S)
    assert found.high_s == found.middle_s


def test_outcomes_that_came_while_one_was_awaited_weaken_it() -> None:
    """All asked for at once: the n-th weighs 1/n, so ten together weigh less than three."""
    jam = learned([Came(NOW_S, NOW_S + turn, 3.0) for turn in range(10)])
    weights = [1 / (1 + turn) for turn in range(10)]
    assert sum(weight for _, weight in jam._sorted) == pytest.approx(30 + sum(weights))
    one_by_one = learned([Came(NOW_S + turn, NOW_S + turn + 0.5, 3.0) for turn in range(10)])
    assert sum(weight for _, weight in one_by_one._sorted) == 40
    assert (jam.learned, one_by_one.learned) == (10, 10)
    same_moment = learned([Came(NOW_S - 5, NOW_S, 3.0), Came(NOW_S, NOW_S + 1, 3.0)])
    assert sum(weight for _, weight in same_moment._sorted) == 31.5, "what came just then counts as meanwhile"


def test_the_oldest_outcomes_are_forgotten_in_the_order_in_which_they_came() -> None:
    many = [Came(NOW_S + turn, NOW_S + turn + 0.5, float(turn)) for turn in range(2003)]
    scores = learned(many)
    assert scores.learned == 2000
    assert len(scores._sorted) == 2030
    kept = [one for one, _ in scores._sorted if one == int(one)]
    assert (min(kept), max(kept)) == (3.0, 2002.0)


def test_what_quiet_hours_teach_does_not_count_in_a_jam() -> None:
    soon = Spread(NOW_S + 60.0, NOW_S + 120.0, NOW_S + 240.0)
    known = Regimes()
    fresh = known.around(SPREAD, NOW_S)
    for _ in range(100):
        known.add(Said(NOW_S, soon, known.around(soon, NOW_S)), NOW_S + 120.0)
        known.overdue(Said(NOW_S, soon, known.around(soon, NOW_S)))
    assert known.around(SPREAD, NOW_S) == fresh
    assert known.around(soon, NOW_S) != Scores().around(soon, NOW_S)
    assert known.learned == 100


def test_a_regime_is_an_e_fold_of_the_time_to_go() -> None:
    assert regime(SPREAD, NOW_S) == math.floor(math.log(3660))


@given(st.lists(st.tuples(st.floats(0, 5000), st.floats(10, 9000), st.floats(0, 20_000)), max_size=40))
def test_whoever_keeps_forecasts_and_outcomes_learns_as_one_who_was_there(
    jobs: list[tuple[float, float, float]],
) -> None:
    """Told one by one as time goes on, as the replay does, or all at once later: the same ranges."""
    told = []
    for number, (asked_s, far_s, lasts_s) in enumerate(jobs):
        # No two moments are the same, so that there is one order.
        asked_s, lasts_s = asked_s + number / 128, lasts_s + number / 1024
        middle_s = asked_s + far_s
        told.append(Told(asked_s, Spread(asked_s + far_s / 3, middle_s, middle_s + 2 * far_s), asked_s + lasts_s))
    now_s = 12_000.0
    told = [one if (one.came_s or 0.0) <= now_s else one._replace(came_s=None) for one in told]
    there, late = Regimes(), set[int]()
    waiting: dict[int, Said] = {}
    moments = [(one.asked_s, 0, number) for number, one in enumerate(told)]
    moments += [(one.came_s, 1, number) for number, one in enumerate(told) if one.came_s is not None]
    for at_s, came, number in (*sorted(moments), (now_s, 2, -1)):
        for other, said in sorted(waiting.items(), key=lambda pair: (pair[1].range.highest_s, pair[0])):
            if said.range.highest_s < at_s and other not in late:
                there.overdue(said)
                late.add(other)
        if came == 0:
            one = told[number]
            waiting[number] = Said(one.asked_s, one.spread, there.around(one.spread, one.asked_s))
        elif came == 1:
            there.add(waiting.pop(number), at_s)
    found = taught(told, now_s)
    assert found.learned == there.learned
    for far_s in (50.0, 500.0, 5000.0):
        spread = Spread(now_s + far_s / 2, now_s + far_s, now_s + 3 * far_s)
        assert found.around(spread, now_s) == there.around(spread, now_s)
