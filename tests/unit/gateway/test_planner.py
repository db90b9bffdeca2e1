"""Plans made in another process are the same, and a broken process does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dure.gateway.planner import FEW, Planner
from dure.route import reroute
from dure.route.situation import Alternative, Candidate, Changes, Figures, Lane, Situation, Waiting

ONE = {"slot": 1000}
SETTINGS = reroute.Settings()


def backlog(count: int) -> tuple[tuple[Candidate, ...], Situation]:
    """All stand in the slow queue; the other is empty."""
    gpu = [Waiting(f"n/j{number}", ONE, 20.0 + number, float(number)) for number in range(count)]
    lanes = {"gpu": Lane("gpu", {"slot": 1000}, (), tuple(gpu), orderable=True), "cpu": Lane("cpu", {"slot": 2000})}
    figures = {name: Figures(name, {"slot": 1000}) for name in lanes}
    jobs = tuple(
        Candidate(
            one.name,
            "n",
            "k",
            (
                Alternative("t4", "user-gpu", "gpu", ONE, one.run_s),
                Alternative("cpu", "user-cpu", "cpu", ONE, 2 * one.run_s, Changes({"g": None}, {"A": "b"})),
            ),
            one.created_s,
        )
        for one in gpu
    )
    return jobs, Situation(100.0, lanes, figures)


@pytest.fixture
def planner() -> Iterator[Planner]:
    made = Planner()
    yield made
    made.close()


def test_another_process_makes_the_same_plan(planner: Planner) -> None:
    jobs, situation = backlog(FEW + 4)
    expected = reroute.plan(jobs, situation, SETTINGS)
    assert expected.moves
    for _ in range(2):
        assert planner.plan(jobs, situation, SETTINGS) == expected
    assert planner._child is not None


def test_a_short_backlog_is_planned_here(planner: Planner) -> None:
    jobs, situation = backlog(FEW)
    assert planner.plan(jobs, situation, SETTINGS) == reroute.plan(jobs, situation, SETTINGS)
    assert planner._child is None


def test_a_process_that_died_is_replaced_and_no_plan_is_lost(planner: Planner) -> None:
    jobs, situation = backlog(FEW + 1)
    expected = planner.plan(jobs, situation, SETTINGS)
    first = planner._child
    assert first is not None
    first.kill()
    first.wait()
    assert planner.plan(jobs, situation, SETTINGS) == expected
    assert planner.plan(jobs, situation, SETTINGS) == expected
    assert planner._child is not None
    assert planner._child.pid != first.pid


def test_the_process_ends_with_its_input(planner: Planner) -> None:
    planner.plan(*backlog(FEW + 1), SETTINGS)
    child = planner._child
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(60) == 0
