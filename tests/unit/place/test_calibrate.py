"""Where an outcome lies on the scale of its forecast, and how ranges follow what came of earlier ones."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from dure.model.eta import Range, Spread
from dure.place.calibrate import Came, Regimes, Said, Scores, regime, score

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


def test_levels_never_grow_beyond_twice_their_target() -> None:
    wide = Range(0.0, 0.0, 4000.0, 1e9, 1e9)
    scores = Scores()
    for turn in range(2000):
        scores.add(Said(NOW_S + turn, SPREAD, wide), NOW_S + turn)
    assert scores._levels == pytest.approx([0.1, 0.5, 0.5, 0.1])


def test_a_quantile_is_the_first_score_at_which_the_weights_are_enough() -> None:
    """Thirty of the prior, and one hundred outcomes one after the other that all lay at 3."""
    known = [Came(NOW_S + turn, NOW_S + turn + 0.5, 3.0) for turn in range(100)]
    found = Scores(known).around(SPREAD, NOW_S)
    assert found.highest_s == found.high_s == pytest.approx(at(3 * ABOVE))
    # A twentieth of 130 is 6.5: the seventh of the prior; a quarter is 32.5, which only the outcomes reach.
    assert found.lowest_s == pytest.approx(max(NOW_S, at(prior(6.5 / 30) * BELOW)))
    assert found.low_s == found.middle_s == SPREAD.middle_s, "the middle lies inside whatever came"
    early = [Came(NOW_S + turn, NOW_S + turn + 0.5, -0.01) for turn in range(100)]
    found = Scores(early).around(SPREAD, NOW_S)
    assert found.high_s == found.middle_s


def test_outcomes_that_came_while_one_was_awaited_weaken_it() -> None:
    """All asked for at once: the n-th weighs 1/n, so ten together weigh less than three."""
    jam = Scores([Came(NOW_S, NOW_S + turn, 3.0) for turn in range(10)])
    weights = [1 / (1 + turn) for turn in range(10)]
    assert sum(weight for _, weight in jam._sorted) == pytest.approx(30 + sum(weights))
    one_by_one = Scores([Came(NOW_S + turn, NOW_S + turn + 0.5, 3.0) for turn in range(10)])
    assert sum(weight for _, weight in one_by_one._sorted) == 40
    assert (jam.learned, one_by_one.learned) == (10, 10)
    same_moment = Scores([Came(NOW_S - 5, NOW_S, 3.0), Came(NOW_S, NOW_S + 1, 3.0)])
    assert sum(weight for _, weight in same_moment._sorted) == 31.5, "what came just then counts as meanwhile"


def test_the_oldest_outcomes_are_forgotten_in_the_order_in_which_they_came() -> None:
    many = [Came(NOW_S + turn, NOW_S + turn + 0.5, float(turn)) for turn in range(2003)]
    scores = Scores(reversed(many))
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


def test_a_regime_is_an_e_fold_of_the_time_to_go_and_is_kept_with_what_came() -> None:
    assert regime(SPREAD, NOW_S) == math.floor(math.log(3660))
    early = Came(0.0, 1.0, -3.0, regime(SPREAD, NOW_S))
    known = Regimes([early] * 60 + [Came(0.0, 1.0, 4.0, 1)] * 60)
    assert known.learned == 120
    assert known.around(SPREAD, NOW_S) == Scores([early] * 60).around(SPREAD, NOW_S)
