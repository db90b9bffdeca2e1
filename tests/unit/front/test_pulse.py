"""What the front counts of passing requests: tokens of answers however they are cut, and the pulse it shows."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from dure.front.pulse import Answer, pulse_of

STREAM = b'data: {"delta": "a"}\n\ndata: {"delta": "b"}\n\ndata: {"delta": "c"}\n\ndata: [DONE]\n\n'
WHOLE = b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 42, "total_tokens": 51}}'


def seen(body: bytes, cuts: list[int]) -> int:
    answer, edges = Answer(), sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    for begin, end in itertools.pairwise(edges):
        answer.see(body[begin:end])
    return answer.tokens


@given(st.lists(st.integers(1, 90), max_size=8))
def test_tokens_of_an_answer_do_not_depend_on_how_it_is_cut(cuts: list[int]) -> None:
    assert seen(STREAM, cuts) == 3
    assert seen(WHOLE, cuts) == 42


def test_an_answer_without_usage_or_pieces_has_no_tokens() -> None:
    assert seen(b"it failed", []) == 0


def test_what_the_front_shows_is_read_as_a_pulse() -> None:
    counts = {"asked": 9, "prompt_tokens": 900, "answered": 5, "output_tokens": 80}
    text = json.dumps({"counts": counts, "waiting": 3, "waiting_tokens": 300, "running": 1, "served": 5})
    pulse = pulse_of(text, 50.0)
    assert pulse is not None
    assert (pulse.at_s, pulse.asked, pulse.waiting, pulse.waiting_tokens, pulse.running) == (50.0, 9, 3, 300.0, 1)
    assert pulse_of("no front", 50.0) is None
    assert pulse_of("{}", 50.0) is None
