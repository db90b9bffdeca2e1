"""From samples of the future to what is told: the points of a spread, whose book it is held against, who starts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dure.model.eta import Range, Spread
from dure.place import queue_play
from dure.place.calibrate import Said, Told, taught
from dure.place.eta import (
    Book,
    Coming,
    Going,
    Outlook,
    Situation,
    _drawn,
    _spreads,
    _starts,
    outlooks,
    ranged,
    said_of,
)
from dure.place.lifetime import life_tables, sampled
from dure.place.queue_play import play
from dure.place.trust import Past

NOW_S = 1000.0
EARLY, LATE = Spread(1100.0, 1200.0, 1500.0), Spread(2000.0, 3000.0, 5000.0)


def book() -> Book:
    """Three kinds of forecast that went wrong in three ways."""

    def missed(by: float) -> list[Told]:
        return [Told(NOW_S, spread, NOW_S + by * (spread.middle_s - NOW_S)) for spread in (EARLY, LATE)] * 60

    return Book(*(taught(missed(by), 20 * NOW_S) for by in (0.1, 1.2, 9.0)))


def test_the_points_of_a_spread_are_the_twentieth_the_middle_and_the_last_twentieth() -> None:
    samples = np.arange(21.0)[::-1, None] + np.array([[0.0, 100.0]])
    assert _spreads(samples) == [Spread(1.0, 10.0, 19.0), Spread(101.0, 110.0, 119.0)]
    assert _spreads(np.empty((21, 0))) == []


def test_what_comes_in_less_than_half_of_all_futures_never_comes() -> None:
    samples = np.arange(21.0)[:, None].repeat(3, axis=1)
    samples[19:, 0], samples[11:, 1], samples[10:, 2] = np.inf, np.inf, np.inf
    assert _spreads(samples) == [Spread(1.0, 10.0, 10.0), Spread(1.0, 10.0, 10.0), None]


def test_start_and_finish_are_held_against_the_book_of_their_kind() -> None:
    known, found = book(), Outlook(EARLY, LATE)
    start, finish = said_of(found, NOW_S, known, waits=True)
    assert start == Said(NOW_S, EARLY, known.start.around(EARLY, NOW_S))
    assert finish == Said(NOW_S, LATE, known.finish.around(LATE, NOW_S))
    assert said_of(found, NOW_S, known, waits=False)[1] == Said(NOW_S, LATE, known.running.around(LATE, NOW_S))
    assert said_of(Outlook(None, None), NOW_S, known, waits=True) == (None, None)


def test_what_is_told_of_all_names_when_the_running_ones_began() -> None:
    known = book()
    running = [Going("runs", 60.0, 250.0, 1), Going("serves", 60.0, 0.0, 1, ends=False)]
    waiting = [Coming("waits", 60.0, 1), Coming("stays", 60.0, 1), Coming("never", 60.0, 1)]
    found = {
        "runs": Outlook(None, LATE), "serves": Outlook(None, None), "waits": Outlook(EARLY, LATE),
        "stays": Outlook(EARLY, None), "never": Outlook(None, None),
    }  # fmt: skip
    told = ranged(Situation(running, waiting, {"": 9}, NOW_S), found, known)
    assert set(told) == {"runs", "serves", "waits", "stays"}
    assert told["runs"].start == Range(750.0, 750.0, 750.0, 750.0, 750.0)
    assert told["runs"].finish == known.running.around(LATE, NOW_S)
    assert (told["serves"].start.middle_s, told["serves"].finish) == (NOW_S, None)
    assert (told["waits"].start, told["waits"].finish) == (
        known.start.around(EARLY, NOW_S),
        known.finish.around(LATE, NOW_S),
    )
    assert (told["stays"].start, told["stays"].finish) == (known.start.around(EARLY, NOW_S), None)


def test_each_lasts_what_its_group_takes_of_its_estimate_and_who_serves_has_no_end() -> None:
    tables = life_tables(["a", "b"], [Past("a", 0.5)] * 30 + [Past("b", 4.0)] * 30, [])
    whom: list[Going | Coming] = [
        Going("one", 100.0, 80.0, 1, group="b"), Going("two", 0.5, 0.0, 1, group="a"),
        Going("three", 100.0, 0.0, 1, group="a", ends=False), Coming("four", 200.0, 1, group="a"),
        Going("five", 100.0, 30.0, 1, group="a"),
    ]  # fmt: skip
    used = np.array([0.8, 0.0, 0.0, 0.0, 0.3])
    found = _drawn(tables, whom, used, 3, np.random.default_rng(7))
    draw = np.random.default_rng(7)
    of_a, of_b = tables.alike.tolls(3, 3, draw), tables.alike.tolls(3, 1, draw)
    expected = {
        4: sampled(tables, 0, np.array([0.3]), of_a[:, [0]]),
        1: sampled(tables, 0, np.array([0.0]), of_a[:, [1]]),
        3: sampled(tables, 0, np.array([0.0]), of_a[:, [2]]),
        0: sampled(tables, 1, np.array([0.8]), of_b),
    }
    for index, ratios in expected.items():
        assert found[:, index].tolist() == pytest.approx(ratios[:, 0].tolist())
    assert np.isinf(found[:, 2]).all()


def test_estimates_that_taught_nothing_do_not_count_and_those_that_were_right_do() -> None:
    said = [600.0, 6000.0, 60_000.0] * 60
    ignored = [Past("", 6000.0 / one, one) for one in said]
    exact = [Past("", 1.0, one) for one in said]
    waiting = [Coming("short", 600.0, 1), Coming("long", 60_000.0, 1)]
    spans = []
    for past in (ignored, exact):
        found = outlooks(Situation([], waiting, {"": 2}, NOW_S), past)
        spans.append([one.finish.middle_s - NOW_S for one in found.values() if one.finish])
    assert spans[0] == pytest.approx([6000.0, 6000.0], rel=0.25)
    assert spans[1] == pytest.approx([600.0, 60_000.0], rel=0.25)


def test_a_queue_of_those_that_share_a_fate_is_less_certain_than_one_of_strangers() -> None:
    waiting = [Coming(str(number), 1000.0, 1) for number in range(40)]
    ratios = [0.05] * 512 + [5.0] * 512
    mixed = [ratios[(number * 397) % 1024] for number in range(1024)]
    widths = []
    for past in (ratios, mixed):
        seen = [Past("", ratio, began_s=float(number)) for number, ratio in enumerate(past)]
        start = outlooks(Situation([], waiting, {"": 1}, NOW_S), seen)["39"].start
        assert start
        widths.append(np.log((start.high_s - NOW_S) / (start.low_s - NOW_S)))
    assert widths[0] > 2 * widths[1]


def test_a_queue_knows_what_its_pools_have_and_passes_over_those_it_does_not_know() -> None:
    running = [Going("gone", 9.0, 0.0, 9, pool="x"), Going("one", 9.0, 0.0, 3, pool="b")]
    waiting = [
        Coming("first", 9.0, 2, pools=("x", "a")),
        Coming("second", 9.0, 2, pools=("b", "a")),
        Coming("third", 9.0, 4, pools=("b",)),
        Coming("nowhere", 9.0, 1, pools=()),
    ]
    ends, lasts = np.array([[NOW_S + 1.0, NOW_S + 50.0]]), np.array([[20.0, 30.0, 1.0, 1.0]])
    found = _starts(Situation(running, waiting, {"a": 2, "b": 4}, NOW_S), ends, lasts)
    assert found.tolist() == [[NOW_S, NOW_S + 20.0, NOW_S + 50.0, np.inf]]
    assert _starts(Situation(running, [], {"a": 2}, NOW_S), ends, np.empty((1, 0))).shape == (1, 0)


def test_a_finish_is_the_start_and_what_it_lasts_and_nobody_starts_before_he_may() -> None:
    later = NOW_S + 5000.0
    one = [Coming("one", 600.0, 1, not_before_s=later)]
    found = outlooks(Situation([], one, {"": 1}, NOW_S), [Past("", 1.0)] * 400)["one"]
    at_once = outlooks(Situation([], [Coming("one", 600.0, 1)], {"": 1}, NOW_S), [Past("", 1.0)] * 400)["one"]
    assert found.start == Spread(later, later, later)
    assert found.finish is not None
    assert at_once.finish is not None
    assert found.finish.middle_s - at_once.finish.middle_s == pytest.approx(5000.0)


@pytest.mark.parametrize(("most", "loaded", "known"), [(6, 0, 0), (5, 1, 0), (6, 1, 1)])
def test_the_compiler_is_loaded_for_large_queues_and_then_kept(
    most: int, loaded: int, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two samples of one that runs and two who wait are six starts."""
    asked: list[int] = []

    def compiled() -> object:
        asked.append(1)
        return queue_play._one

    compiled.cache_info = lambda: SimpleNamespace(currsize=known)  # type: ignore[attr-defined]
    monkeypatch.setattr(queue_play, "compiled", compiled)
    monkeypatch.setattr(queue_play, "_WORTH_COMPILING", most)
    one = np.array([1])
    found = play(
        np.array([[5.0], [7.0]]), one, np.array([0]), np.full((2, 2), 2.0), np.array([1, 1]), np.array([[0], [0]]),
        np.array([0]), 1.0, strict=False,
    )  # fmt: skip
    assert found.tolist() == [[5.0, 7.0], [7.0, 9.0]]
    assert len(asked) == loaded
