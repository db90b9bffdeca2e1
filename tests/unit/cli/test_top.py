"""Keys of `dure top`: sorting, filtering, choosing. Drawing is looked at by the end-to-end tests."""

from __future__ import annotations

from typing import Any

from dure.cli.top import Screen


def workload(name: str, tenant: str, phase: str, spent: int) -> dict[str, Any]:
    return {"spec": {"name": name, "tenant": tenant}, "status": {"phase": phase, "spent_micros": spent}}


ROWS = [
    workload("b", "vision", "running", 5),
    workload("a", "search", "running", 1),
    workload("c", "vision", "held", 9),
]


def names(screen: Screen) -> list[str]:
    return [row["spec"]["name"] for row in screen.rows(list(ROWS))]


def test_each_key_sorts_by_its_column() -> None:
    screen = Screen()
    found = {}
    for key in "cntp":
        assert screen.press(key)
        found[key] = "".join(names(screen))
    assert found == {"c": "cba", "n": "abc", "t": "abc", "p": "cab"}


def test_letters_after_a_slash_filter_until_enter_and_escape_shows_all_again() -> None:
    screen = Screen(sort="n")
    for key in ("/", "v", "i", "x", "\x7f", " ", "h", "\r"):
        assert screen.press(key)
    assert (screen.words, names(screen)) == ("vi h", ["c"])
    screen.press("\x1b")
    assert names(screen) == ["a", "b", "c"]


def test_the_choice_stays_on_the_list_and_q_ends() -> None:
    screen = Screen(sort="n")
    for _ in range(9):
        screen.press("\x1b[B")
    assert names(screen)[screen.chosen] == "c"
    for _ in range(9):
        screen.press("\x1b[A")
    assert names(screen)[screen.chosen] == "a"
    assert not screen.press("q")


def test_pools_open_and_close_below_their_clusters() -> None:
    screen = Screen()
    screen.press("o")
    assert screen.pools
    screen.press("o")
    assert not screen.pools
