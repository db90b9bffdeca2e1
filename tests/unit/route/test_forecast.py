"""The forecast equals what a plain FIFO of slots does, never overcommits, and knows what cannot fit."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.errors import InvalidInput
from dure.route.amounts import milli
from dure.route.forecast import NEVER, forecast, insert, span_of, without
from dure.route.situation import Lane, Order, Running, Waiting

ONE = {"slot": 1000}


def plain_fifo(slots: int, busy: list[float], runs: list[float]) -> list[float]:
    free = [*busy, *([0.0] * (slots - len(busy)))]
    heapq.heapify(free)
    ends = []
    for run in runs:
        end = heapq.heappop(free) + run
        ends.append(end)
        heapq.heappush(free, end)
    return ends


@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 50).map(float), max_size=5),
    st.lists(st.integers(1, 90).map(float), max_size=12),
)
def test_equal_jobs_are_served_like_a_plain_fifo(slots: int, busy: list[float], runs: list[float]) -> None:
    running = tuple(Running(f"r{n}", ONE, end) for n, end in enumerate(busy[:slots]))
    waiting = tuple(Waiting(f"w{n}", ONE, run, float(n)) for n, run in enumerate(runs))
    spans = forecast(Lane("q", {"slot": slots * 1000}, running, waiting), 0.0)
    assert [spans[job.name].finish_s for job in waiting] == plain_fifo(slots, busy[:slots], runs)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=12))
def test_the_quota_is_never_exceeded(jobs: list[tuple[int, int]]) -> None:
    waiting = tuple(
        Waiting(f"w{n}", {"cpu": size * 1000}, float(run), float(n)) for n, (size, run) in enumerate(jobs)
    )
    spans = forecast(Lane("q", {"cpu": 4000}, (), waiting), 0.0)
    for at in {span.start_s for span in spans.values()}:
        held = [job for job in waiting if spans[job.name].start_s <= at < spans[job.name].finish_s]
        assert sum(job.demand["cpu"] for job in held) <= 4000


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1.0, 2.0])), max_size=3),
    st.lists(st.integers(1, 90), max_size=8),
    st.integers(0, 9),
    st.tuples(st.sampled_from([0.0, 4.0]), st.integers(0, 5), st.sampled_from([1.0, 1.5])),
)
def test_who_would_enter_is_told_what_the_whole_queue_would_show(
    busy: list[tuple[int, float]], runs: list[int], place: int, slow: tuple[float, int, float]
) -> None:
    running = tuple(Running(f"r{n}", ONE, 10.0 + end, pace) for n, (end, pace) in enumerate(busy))
    waiting = tuple(Waiting(f"w{n}", ONE, float(run), float(n)) for n, run in enumerate(runs))
    lane = Lane("q", {"slot": 3000}, running, waiting, *slow)
    job = Waiting("new", ONE, 7.0, place - 0.5)
    told, shown = span_of(lane, job, 10.0), forecast(insert(lane, job), 10.0)["new"]
    assert (told.start_s, told.finish_s) == pytest.approx((shown.start_s, shown.finish_s))


def test_a_small_job_passes_one_that_does_not_fit() -> None:
    lane = Lane(
        "q",
        {"cpu": 4000},
        (Running("r", {"cpu": 3000}, 50.0),),
        (Waiting("big", {"cpu": 4000}, 10.0, 1.0), Waiting("small", {"cpu": 1000}, 10.0, 2.0)),
    )
    spans = forecast(lane, 0.0)
    assert (spans["small"].start_s, spans["big"].start_s) == (0.0, 50.0)


def test_what_asks_for_an_unknown_resource_never_ends() -> None:
    lane = Lane("q", {"cpu": 4000}, (), (Waiting("w", {"tpu": 1}, 1.0, 0.0),))
    assert forecast(lane, 0.0)["w"].finish_s == NEVER


def test_an_older_job_enters_before_younger_ones_and_leaves_again() -> None:
    lane = Lane("q", ONE, (), (Waiting("a", ONE, 1.0, 1.0), Waiting("b", ONE, 1.0, 3.0)))
    longer = insert(lane, Waiting("c", ONE, 1.0, 2.0))
    assert [job.name for job in longer.waiting] == ["a", "c", "b"]
    assert [job.name for job in insert(lane, Waiting("p", ONE, 1.0, 9.0, priority=5)).waiting] == ["p", "a", "b"]
    assert without(longer, "c") == lane


def test_with_more_than_the_quiet_ones_nobody_is_sure_to_run_alone() -> None:
    waiting = tuple(Waiting(f"w{n}", ONE, 10.0, float(n)) for n in range(3))
    spans = forecast(Lane("q", {"slot": 3000}, (), waiting, 0.0, quiet=2, slowdown=1.5), 0.0)
    assert [span.finish_s for span in spans.values()] == [15.0, 15.0, 15.0]
    alone = forecast(Lane("q", {"slot": 3000}, (), waiting[:2], 0.0, quiet=2, slowdown=1.5), 0.0)
    assert [span.finish_s for span in alone.values()] == [10.0, 10.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 500), (4, 4000), ("60Gi", 60 * 2**30 * 1000), ("1.5", 1500), ("1e3", 10**6), ("1n", 1)],
)
def test_quantities_are_read_like_kubernetes_does(text: object, value: int) -> None:
    assert milli(text) == value


@pytest.mark.parametrize("text", ["", "four", "4 cores", "1ki", None, True, "--1"])
def test_nonsense_is_no_quantity(text: object) -> None:
    with pytest.raises(InvalidInput, match="not a quantity"):
        milli(text)


def test_a_queue_put_in_order_serves_priority_then_by_rank_then_who_came_later() -> None:
    jobs = {
        "late": Waiting("late", ONE, 99.0, 60.0),
        "later": Waiting("later", ONE, 99.0, 61.0),
        "short": Waiting("short", ONE, 5.0, 1.0, rank=1),
        "long": Waiting("long", ONE, 50.0, 2.0, rank=2),
        "urgent": Waiting("urgent", ONE, 1.0, 70.0, priority=5),
    }

    def served(lane: Lane) -> list[str]:
        return sorted(jobs, key=lambda name: lane.rank(jobs[name]))

    assert served(Lane("q", {})) == ["urgent", "long", "short", "late", "later"]
    assert served(Lane("q", {}, order=Order.LONGEST_FIRST)) == ["urgent", "late", "later", "long", "short"]
    assert served(Lane("q", {}, order=Order.FIRST_COME)) == ["urgent", "short", "long", "late", "later"]
