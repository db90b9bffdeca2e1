"""Turns on a shared device: nobody's backlog is another's wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dure.share.turns import Turns

LENGTHS = st.lists(st.floats(0.1, 10.0), min_size=60, max_size=60)


def turns(**parts: float) -> Turns:
    made = Turns()
    for name, part in parts.items():
        made.come(name, part)
    return made


def play(made: Turns, names: list[str], length: float) -> str:
    name = made.ordered(names)[0]
    made.begin(name)
    made.end(name, length)
    return name


@given(LENGTHS, st.sampled_from([(0.5, 0.5), (0.75, 0.25), (0.9, 0.1)]))
def test_two_that_always_wait_get_time_as_their_parts_are(lengths: list[float], parts: tuple[float, float]) -> None:
    made = turns(a=parts[0], b=parts[1])
    had = {"a": 0.0, "b": 0.0}
    for length in lengths:
        had[play(made, ["a", "b"], length)] += length
        apart = abs(had["a"] / parts[0] - had["b"] / parts[1])
        assert apart <= 10.0 / parts[0] + 10.0 / parts[1] + 1e-6


@given(LENGTHS)
def test_one_that_asks_now_and_then_is_next_however_long_the_other_has_waited(lengths: list[float]) -> None:
    made = turns(greedy=0.5, rare=0.5)
    for number, length in enumerate(lengths):
        if number % 6 == 5:
            assert play(made, ["greedy", "rare"], 0.05) == "rare"
        else:
            play(made, ["greedy"], length)


def test_idling_saves_nothing_up() -> None:
    made = turns(a=0.5, b=0.5)
    for _ in range(100):
        play(made, ["a"], 1.0)
    assert [play(made, ["a", "b"], 1.0) for _ in range(6)].count("b") <= 4


def test_one_that_left_has_no_turn_and_one_that_comes_begins_as_the_others_are() -> None:
    made = turns(a=0.5, b=0.5)
    for _ in range(10):
        play(made, ["a"], 1.0)
    made.go("b")
    assert made.ordered(["a", "b"]) == ["a"]
    made.come("c", 0.5)
    assert [play(made, ["a", "c"], 1.0) for _ in range(4)].count("c") == 2
