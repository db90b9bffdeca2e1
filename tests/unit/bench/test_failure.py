"""What `dure bench failure` counts as lost, and that a short cut loses nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dure.bench.failure import Course, _row, command
from dure.embedded.week import START_S


def course(done: set[str], failed: set[str], unknown: int = 0) -> Course:
    return Course(4, frozenset(done), frozenset(failed), unknown, 100.0, (0, 2, 0))


@pytest.mark.parametrize(
    ("hurt", "lost"),
    [
        (course({"a", "b"}, {"doomed"}), 0),
        (course({"a"}, {"b"}), 1),
        (course({"a"}, {"b", "doomed"}, unknown=1), 2),
    ],
    ids=["a program that ends with an error by itself", "done without the cut", "nobody knows it"],
)
def test_lost_is_what_failed_and_is_done_without_the_cut_and_what_nobody_knows(hurt: Course, lost: int) -> None:
    assert _row("site", 1, 4.0, START_S, course({"a", "b"}, set()), hurt)["jobs_lost"] == lost


def test_a_short_cut_of_the_plane_and_of_a_site_loses_nothing() -> None:
    arguments = ["--hours", "3", "--at", "1", "--plane-away", "0.5", "--site-away", "1", "--json"]
    found = CliRunner().invoke(command, arguments)
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert [(row["failure"], row["jobs_lost"]) for row in told["rows"]] == [("plane", 0), ("site", 0)]
    assert all(row["done"] > 0 for row in told["rows"])
