"""Life tables against the same counts made by hand, and draws from them against the curve they invert."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.place.lifetime import life_tables, sampled
from dure.place.likeness import Likeness, likeness, scores_of
from dure.place.trust import Past

BINS = 200
EDGES = [-9.0 + 0.1 * edge for edge in range(BINS + 1)]


def bin_of(ratio: float) -> int:
    return min(BINS - 1, max(0, int((math.log(max(ratio, 1e-9)) + 9.0) / 0.1)))


def counted(ended: list[Past], going: list[Past]) -> list[tuple[int, int]]:
    """For each bin how many ended in it, and how many were at risk there: ended not before it, or run beyond it."""
    over, on = [bin_of(one.ratio) for one in ended], [bin_of(one.ratio) for one in going]
    return [
        (over.count(at), sum(one >= at for one in over) + sum(one > at for one in on)) for at in range(BINS)
    ]  # fmt: skip


def hazard_of(group: str, ended: list[Past], going: list[Past]) -> list[float]:
    """Cumulated: each bin's chance, drawn to that of all with the weight of ten, that to the prior with five."""

    def alive(edge: float) -> float:
        return 1.0 / (1.0 + math.exp(edge / 0.7))

    everybody = counted(ended, going)
    mine = counted([one for one in ended if one.group == group], [one for one in going if one.group == group])
    sums = [0.0]
    for at in range(BINS):
        textbook = 1.0 - alive(EDGES[at + 1]) / alive(EDGES[at])
        of_all = (everybody[at][0] + 5 * textbook) / (everybody[at][1] + 5)
        chance = (mine[at][0] + 10 * of_all) / (mine[at][1] + 10)
        sums.append(sums[-1] - math.log(1.0 - min(chance, 0.999)))
    return sums


ENDED = [Past("a", 0.5 + 0.02 * turn) for turn in range(40)] + [Past("b", 3.0), Past("c", 0.1)]
GOING = [Past("a", 2.0)] * 4 + [Past("b", 0.5), Past("other", 8.0), Past("a", 0.0)]


def test_the_tables_count_what_ended_and_what_still_runs() -> None:
    tables = life_tables(["b", "a", "b"], ENDED, GOING)
    assert tables.number == {"a": 0, "b": 1}
    assert tables.hazard.shape == (3, BINS + 1)
    for group, row in tables.number.items():
        assert tables.hazard[row].tolist() == pytest.approx(hazard_of(group, ENDED, GOING))


def test_a_group_without_a_past_has_the_chances_of_all_and_all_without_one_the_textbooks() -> None:
    assert life_tables(["new"], ENDED, []).hazard[0].tolist() == pytest.approx(hazard_of("new", ENDED, []))
    untaught = life_tables(["new"], [], [])
    assert untaught.hazard[0].tolist() == pytest.approx(hazard_of("new", [], []))
    assert untaught.alike == Likeness(0.5, (0.0, 0.0, 0.5)), "nothing is known of neighbours yet"


def test_neighbours_are_judged_by_the_table_of_those_before_them() -> None:
    """Eight by the textbook; the ninth and tenth by those eight, whichever order they are told in."""
    eight = [Past("a", 1.0 + number, began_s=float(number)) for number in range(8)]
    late = [Past("a", 30.0, began_s=8.0), Past("a", 0.001, began_s=9.0)]
    scores = [
        -math.log(1.0 / (1.0 + math.exp((EDGES[at] + EDGES[at + 1]) / 2 / 0.7))) for at in map(bin_of_past, eight)
    ]
    hazard = hazard_of("a", eight, [])
    scores += [(hazard[at] + hazard[at + 1]) / 2 for at in map(bin_of_past, late)]
    expected = likeness(np.zeros(10, np.int64), scores_of(np.array(scores)))
    found = life_tables(["a"], [*late, *eight[::-1]], []).alike
    assert found.own == pytest.approx(expected.own, abs=0.01)
    assert found.shared == pytest.approx(expected.shared, abs=0.01)


def bin_of_past(one: Past) -> int:
    return bin_of(one.ratio)


def test_those_that_still_run_tell_of_their_neighbours_too() -> None:
    ended = [Past("a", 1.0, began_s=float(number)) for number in range(80)]
    going = [Past("a", 50.0, began_s=80.0 + number) for number in range(16)]
    assert sum(life_tables(["a"], ended, going).alike.shared) > sum(life_tables(["a"], ended, []).alike.shared) + 0.2


@given(
    st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=4),
    st.floats(0.0, 30.0),
)
def test_a_draw_is_where_the_cumulated_hazard_has_grown_by_what_was_drawn(used: list[float], toll: float) -> None:
    tables = life_tables(["a"], ENDED, GOING)
    hazard = tables.hazard[0]
    found = sampled(tables, 0, np.array(used), np.full((1, len(used)), toll))[0]
    for one, ratio in zip(used, found.tolist(), strict=True):
        spent = float(np.interp(math.log(one), EDGES, hazard))
        reached = spent + toll
        assert ratio >= one
        if reached >= hazard[-1]:
            assert math.log(ratio) == pytest.approx(min(50.0, EDGES[-1] + reached - hazard[-1]), abs=1e-6)
        elif ratio > one * (1 + 1e-9):
            assert float(np.interp(math.log(ratio), EDGES, hazard)) == pytest.approx(reached, abs=1e-6)


def test_each_sample_pays_its_toll_and_what_has_not_begun_starts_from_nothing() -> None:
    tables = life_tables(["a"], ENDED, GOING)
    tolls = np.array([[math.log(2)] * 2, [5 * math.log(2)] * 2])
    found = sampled(tables, 0, np.array([0.0, 5.0]), tolls)
    assert found.shape == (2, 2)
    assert found[0, 0] < found[1, 0]
    assert (found[:, 1] >= 5.0).all()
    middle = float(np.interp(math.log(found[0, 0]), EDGES, tables.hazard[0]))
    assert middle == pytest.approx(math.log(2), abs=1e-6), "half of all are over by then"
