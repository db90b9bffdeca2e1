"""Expected start and finish: queues in order, ranges that nest, what still runs counts, errors widen ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.eta import Spread
from dure.place.calibrate import Said, Scores, score
from dure.place.eta import Coming, Going, Situation, etas, fresh_book, outlooks
from dure.place.lifetime import life_tables, sampled
from dure.place.queue_play import _one, compiled, play
from dure.place.trust import Past

NOW_S = 1000.0
EXACT = [Past("", 1.0)] * 500


def test_a_waiting_workload_starts_when_the_one_before_it_ends() -> None:
    running = [Going("first", 3600.0, 1800.0, 4)]
    waiting = [Coming("second", 3600.0, 4), Coming("third", 600.0, 2)]
    found = outlooks(Situation(running, waiting, {"": 4}, NOW_S), EXACT)
    first, second, third = (found[name] for name in ("first", "second", "third"))
    assert second.start == first.finish
    assert third.start == second.finish
    assert first.finish
    assert abs(first.finish.middle_s - NOW_S - 1800.0) < 600.0


def test_in_a_strict_queue_nobody_passes_the_one_in_front() -> None:
    running = [Going("long", 36_000.0, 0.0, 3)]
    waiting = [Coming("wide", 600.0, 4), Coming("narrow", 600.0, 1)]
    passed = outlooks(Situation(running, waiting, {"": 4}, NOW_S), EXACT)["narrow"].start
    behind = outlooks(Situation(running, waiting, {"": 4}, NOW_S, strict=True), EXACT)["narrow"].start
    assert passed
    assert behind
    assert passed.middle_s == NOW_S
    assert behind.middle_s > NOW_S + 3600.0


def test_what_never_fits_has_no_eta_and_what_serves_has_no_end() -> None:
    waiting = [Coming("huge", 60.0, 9), Coming("served", 0.0, 1, ends=False)]
    found = etas(Situation([Going("serves", 0.0, 60.0, 1, ends=False)], waiting, {"": 4}, NOW_S), (), fresh_book())
    assert set(found) == {"served", "serves"}
    assert found["served"].finish is None
    assert found["serves"].finish is None


def test_a_workload_past_its_estimate_is_expected_to_go_on() -> None:
    late = Going("late", 3600.0, 40 * 3600.0, 1)
    past = [Past("", ratio) for ratio in [0.9, 1.0, 1.1] * 40]
    finish = outlooks(Situation([late], [], {"": 1}, NOW_S), past)["late"].finish
    assert finish
    assert finish.middle_s > NOW_S + 3600.0


def test_what_still_runs_is_learned_before_it_ends() -> None:
    ended = [Past("a", 1.0)] * 20
    alone = life_tables(["a"], ended, [])
    beside = life_tables(["a"], ended, [Past("a", 30.0)] * 20)
    tolls = -np.log(np.linspace(0.01, 1.0, 99))[:, None]
    ratios = [sampled(tables, 0, np.zeros(1), tolls) for tables in (alone, beside)]
    assert np.quantile(ratios[1], 0.8) > 5 * np.quantile(ratios[0], 0.8)


def test_a_pool_has_what_it_holds_less_what_runs_there_and_only_named_pools_are_waited_for() -> None:
    running = [Going("here", 3600.0, 0.0, 3, pool="a"), Going("there", 3600.0, 0.0, 2, pool="b")]
    waiting = [
        Coming("one", 60.0, 1, pools=("a",)),
        Coming("two", 60.0, 1, pools=("a",)),
        Coming("elsewhere", 60.0, 1, pools=("c",)),
        Coming("either", 60.0, 2, pools=("a", "b")),
        Coming("later", 60.0, 1, pools=("b",), not_before_s=NOW_S + 900.0),
    ]
    found = outlooks(Situation(running, waiting, {"a": 4, "b": 5}, NOW_S), EXACT)
    starts = {name: one.start.middle_s - NOW_S if one.start else None for name, one in found.items()}
    assert (starts["one"], starts["either"], starts["later"]) == (0.0, 0.0, 900.0)
    assert starts["elsewhere"] is None
    assert starts["two"] is not None
    assert 0.0 < starts["two"] < 120.0, "the first of its pool is done after a minute"


def test_an_outlook_is_a_spread_around_the_estimate_and_grows_with_what_was_seen() -> None:
    one = [Coming("new", 1000.0, 1)]
    exact = outlooks(Situation([], one, {"": 1}, NOW_S), EXACT)["new"].finish
    wild = outlooks(Situation([], one, {"": 1}, NOW_S), [Past("", ratio) for ratio in (0.2, 1.0, 5.0)] * 200)[
        "new"
    ].finish
    assert exact
    assert wild
    assert exact.middle_s - NOW_S == pytest.approx(1000.0, rel=0.2)
    assert wild.high_s - wild.low_s > 3 * (exact.high_s - exact.low_s)
    assert exact.low_s <= exact.middle_s <= exact.high_s


def test_ranges_that_fail_grow_and_ranges_that_hold_shrink() -> None:
    spread = Spread(NOW_S + 600.0, NOW_S + 3600.0, NOW_S + 9000.0)
    usual = Scores().around(spread, NOW_S)
    failed, held = Scores(), Scores()
    for _ in range(100):
        failed.overdue()
        held.add(Said(NOW_S, spread, held.around(spread, NOW_S)), NOW_S + 3600.0)
    assert failed.around(spread, NOW_S).highest_s > 1.2 * usual.highest_s - 0.2 * NOW_S
    assert failed.around(spread, NOW_S).lowest_s == usual.lowest_s, "it was late, not early"
    assert failed.learned == 0
    narrow = held.around(spread, NOW_S)
    assert held.learned == 100
    assert usual.lowest_s < narrow.lowest_s <= narrow.middle_s <= narrow.highest_s < usual.highest_s


def test_the_same_question_gets_the_same_answer() -> None:
    situation = Situation([Going("one", 60.0, 5.0, 1)], [Coming("two", 60.0, 1)], {"": 1}, NOW_S)
    assert outlooks(situation, EXACT, 7) == outlooks(situation, EXACT, 7)


@pytest.mark.parametrize("strict", [True, False])
def test_compiled_and_plain_queues_are_the_same(strict: bool) -> None:
    draw = np.random.default_rng(3)
    ends, lasts = draw.random((5, 30)) * 1e4 + NOW_S, draw.random((5, 40)) * 1e4
    held, where = draw.integers(1, 5, 30), draw.integers(0, 3, 30)
    need, pools = draw.integers(1, 9, 40), draw.integers(-1, 3, (40, 2))
    free = np.array([4, 5, 6])
    plain = play(ends, held, where, lasts, need, pools, free, NOW_S, strict=strict)
    twin = np.full(lasts.shape, np.inf)
    for sample in range(5):
        order = np.argsort(ends[sample], kind="stable")
        compiled()(
            ends[sample], order, held, where, lasts[sample], need, pools, free.copy(), NOW_S, strict, twin[sample]
        )
        again = np.full(40, np.inf)
        _one(ends[sample], order, held, where, lasts[sample], need, pools, free.copy(), NOW_S, strict, again)  # type: ignore[no-untyped-call]  # compiled code is untyped
        np.testing.assert_array_equal(again, twin[sample])
    np.testing.assert_array_equal(plain, twin)


@settings(max_examples=50)
@given(st.lists(st.floats(0.0, 1e6), max_size=80), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_ranges_nest_whatever_was_seen(came: list[float], middle: float, wide: float) -> None:
    scores = Scores()
    spread = Spread(NOW_S + middle / 2, NOW_S + middle, NOW_S + middle + wide)
    for one in came:
        said = Said(NOW_S, spread, scores.around(spread, NOW_S))
        scores.add(said, NOW_S + one)
    found = scores.around(spread, NOW_S)
    assert NOW_S <= found.lowest_s <= found.low_s <= found.middle_s <= found.high_s <= found.highest_s


def test_points_of_the_forecast_score_one() -> None:
    spread = Spread(NOW_S + 600.0, NOW_S + 3600.0, NOW_S + 9000.0)
    assert [round(score(spread, at_s, NOW_S), 6) for at_s in (spread.low_s, spread.middle_s, spread.high_s)] == [
        -1,
        0,
        1,
    ]


def test_ranges_learn_to_hold_nine_of_ten_and_one_of_two() -> None:
    draw = np.random.default_rng(5)
    scores, held, half, now_s = Scores(), 0, 0, NOW_S
    for turn in range(2500):
        said = _an_hour_from(now_s, scores)
        now_s += 3600.0 * float(np.exp(draw.normal(0.8, 1.5)))
        held += turn >= 500 and said.range.holds(now_s)
        half += turn >= 500 and said.range.holds_half(now_s)
        if now_s > said.range.highest_s:
            scores.overdue()
        scores.add(said, now_s)
    assert 0.85 <= held / 2000 <= 0.95
    assert 0.45 <= half / 2000 <= 0.55


def test_what_a_jam_teaches_is_one_lesson_however_many_waited_in_it() -> None:
    jam, one_by_one = Scores(), Scores()
    waited = [_an_hour_from(NOW_S, jam) for _ in range(300)]
    for turn in range(300):
        jam.add(waited[turn], NOW_S + 3600.0 + turn)
        asked_s = NOW_S + 3600.0 * turn
        one_by_one.add(_an_hour_from(asked_s, one_by_one), asked_s + 3600.0)
    assert _width(Scores()) > _width(jam) > 2 * _width(one_by_one)


def _an_hour_from(asked_s: float, scores: Scores) -> Said:
    spread = Spread(asked_s + 1800.0, asked_s + 3600.0, asked_s + 7200.0)
    return Said(asked_s, spread, scores.around(spread, asked_s))


def _width(scores: Scores) -> float:
    found = _an_hour_from(NOW_S, scores).range
    return found.highest_s - found.lowest_s


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 6), st.integers(1, 7), st.integers(1, 3), st.booleans())
def test_a_queue_starts_whoever_fits_in_its_order_at_every_end(
    seed: int, running: int, waiting: int, kinds: int, strict: bool
) -> None:
    chance = np.random.default_rng(seed)
    ends = (chance.permutation(100)[:running] + NOW_S).astype(np.float64)
    lasts = (chance.integers(1, 50, waiting) + 0.5).astype(np.float64)
    held, where = chance.integers(1, 4, running), chance.integers(0, kinds, running)
    need, pools = chance.integers(1, 5, waiting), chance.integers(-1, kinds, (waiting, 2))
    free = chance.integers(0, 4, kinds)
    found = play(ends[None, :], held, where, lasts[None, :], need, pools, free, NOW_S, strict=strict)[0]

    left = free.copy()
    due = [(float(end), int(pool), int(count)) for end, pool, count in zip(ends, where, held, strict=True)]
    starts: dict[int, float] = {}
    now_s: float = NOW_S
    while True:
        for job in range(waiting):
            if job in starts:
                continue
            home = next((int(pool) for pool in pools[job] if pool >= 0 and left[pool] >= need[job]), None)
            if home is not None:
                left[home] -= need[job]
                starts[job] = now_s
                due.append((now_s + float(lasts[job]), home, int(need[job])))
            elif strict:
                break
        if not due:
            break
        now_s, pool, count = min(due)
        due.remove((now_s, pool, count))
        left[pool] += count
    assert found.tolist() == [starts.get(job, np.inf) for job in range(waiting)]


def test_where_nobody_waits_or_runs_nothing_is_foretold() -> None:
    nobody = np.empty((2, 0))
    none = np.empty(0, np.int64)
    found = play(nobody, none, none, nobody, none, np.empty((0, 1), np.int64), np.array([4]), NOW_S, strict=False)
    assert found.shape == (2, 0)
