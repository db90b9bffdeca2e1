"""An answer that is cut anywhere and carried over is the answer that was not cut, to the letter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dure.embedded.words import Words, words_of
from dure.front.carry import CHAT, COMPLETIONS, Kept, Seen, Stream, continued
from dure.front.events import Events, chunk, head_of, reframed

Json = dict[str, Any]


def asked(path: bytes, **more: object) -> bytes:
    own: Json = {"prompt": "Once"} if path == COMPLETIONS else {"messages": [{"role": "user", "content": "Tell me."}]}
    return msgspec.json.encode({"stream": True, "max_tokens": 30, **own, **more})


def events_of(path: bytes, body: bytes, per_piece: int = 1) -> list[bytes]:
    """What the modelled engine sends, with so many tokens in a piece."""
    words = words_of(path, body)
    assert words is not None
    found = [words.opening()] if words.chat else []
    found += _pieces(words, per_piece)
    found += [words.piece("", words.reason), words.usage(len(body) // 4), words.end()]
    return [event.removesuffix(b"\n\n") for event in found]


def _pieces(words: Words, per_piece: int) -> list[bytes]:
    found, held = [], ""
    for number, text in enumerate(words, 1):
        held += text
        if number % per_piece == 0:
            found.append(words.piece(held, None))
            held = ""
    return [*found, words.piece(held, None)] if held else found


def carried(path: bytes, body: bytes, cuts: list[int], per_piece: int = 1) -> bytes:
    """All that a client gets when the engines break off after so many events each."""
    stream, sent = Stream(chat=path == CHAT), body
    given = b""
    for cut in [*cuts, 10_000]:
        events = events_of(path, sent, per_piece)
        given += b"".join(map(stream.take, events[:cut]))
        if stream.whole:
            return given + stream.end()
        more = continued(path, body, stream.seen())
        if isinstance(more, Kept):
            assert more.reason == "length"
            return given + stream.full()
        stream.resume()
        sent = more
    raise AssertionError("the last engine broke off")


def chunks_of(given: bytes) -> list[Json]:
    assert given.endswith(b"data: [DONE]\n\n")
    assert given.count(b"[DONE]") == 1
    lines = [event.removeprefix(b"data: ") for event in given.split(b"\n\n") if event.startswith(b"data: {")]
    return [msgspec.json.decode(line) for line in lines]


def text_of(given: bytes) -> str:
    choices = [choice for chunk in chunks_of(given) for choice in chunk["choices"]]
    return "".join(one.get("text") or one.get("delta", {}).get("content") or "" for one in choices)


paths = st.sampled_from([COMPLETIONS, CHAT])
cuts = st.lists(st.integers(0, 40), max_size=3)
words = st.text(max_size=20)


@given(paths, words, cuts, st.integers(1, 60))
def test_cut_anywhere_the_joined_text_is_the_one_that_was_not_cut(
    path: bytes, start: str, places: list[int], most: int
) -> None:
    own: Json = {"prompt": start} if path == COMPLETIONS else {"messages": [{"role": "user", "content": start}]}
    body = asked(path, **own, max_tokens=most, stream_options={"include_usage": True})
    whole, joined = carried(path, body, []), carried(path, body, places)
    assert text_of(joined) == text_of(whole)
    chunks = chunks_of(joined)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    roles = [one for chunk in chunks for one in chunk["choices"] if "role" in one.get("delta", {})]
    assert len(roles) == (path == CHAT)
    ends = [one["finish_reason"] for chunk in chunks for one in chunk["choices"] if one.get("finish_reason")]
    assert len(ends) == 1
    told = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    made = chunks_of(whole)[-1]["usage"]["completion_tokens"]
    assert all(usage["completion_tokens"] == made <= most for usage in told)
    assert all(usage["total_tokens"] == usage["prompt_tokens"] + made for usage in told)


@given(paths, cuts, st.integers(1, 5))
def test_pieces_of_several_tokens_are_joined_as_well(path: bytes, places: list[int], per_piece: int) -> None:
    """Then the tokens are counted from what engines tell; so the length is kept too."""
    told = {"include_usage": True, "continuous_usage_stats": True}
    body = asked(path, max_tokens=200, stream_options=told)
    joined = text_of(carried(path, body, places, per_piece))
    whole = text_of(carried(path, body, [], per_piece))
    # What a template trims off may have been counted with the piece it ended, so at most so much may lack.
    assert whole.startswith(joined)
    assert len(whole) - len(joined) <= 40


def test_without_usage_the_pieces_with_text_are_the_tokens() -> None:
    stream = Stream(chat=True)
    for event in events_of(CHAT, asked(CHAT))[:6]:
        stream.take(event)
    assert stream.seen().tokens == 5
    more = continued(CHAT, asked(CHAT), stream.seen())
    assert isinstance(more, bytes)
    body = msgspec.json.decode(more)
    assert body["max_tokens"] == 25
    assert body["messages"][-1] == {"role": "assistant", "content": stream.seen().text}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_a_message_that_was_open_already_is_written_on() -> None:
    messages = [{"role": "user", "content": "Tell"}, {"role": "assistant", "content": "Once"}]
    body = asked(CHAT, messages=messages, continue_final_message=True, add_generation_prompt=False)
    more = continued(CHAT, body, Seen(" upon", 1))
    assert isinstance(more, bytes)
    assert msgspec.json.decode(more)["messages"][1:] == [{"role": "assistant", "content": "Once upon"}]


@pytest.mark.parametrize(
    ("path", "more", "reason"),
    [
        (COMPLETIONS, {"n": 2}, "choices"),
        (COMPLETIONS, {"best_of": 3}, "choices"),
        (COMPLETIONS, {"echo": True}, "echo"),
        (COMPLETIONS, {"logprobs": 0}, "logprobs"),
        (CHAT, {"logprobs": True}, "logprobs"),
        (CHAT, {"tools": [{"type": "function"}]}, "tools"),
        (CHAT, {"tool_choice": "auto"}, "tools"),
        (CHAT, {"response_format": {"type": "json_object"}}, "format"),
        (CHAT, {"guided_regex": "a+"}, "format"),
        (CHAT, {"structured_outputs": {"choice": ["a"]}}, "format"),
        (CHAT, {"seed": 1}, "seed"),
        (CHAT, {"seed": 1, "temperature": 0.5}, "seed"),
        (CHAT, {"frequency_penalty": 0.5}, "penalty"),
        (CHAT, {"stop": ["."], "include_stop_str_in_output": True}, "stop"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "content"),
        (CHAT, {"max_tokens": "many"}, "body"),
        (COMPLETIONS, {"prompt": [1, 2]}, "prompt"),
        (COMPLETIONS, {"max_tokens": None}, "unbounded"),
        (COMPLETIONS, {"max_tokens": 3}, "length"),
        (b"/v1/responses", {}, "endpoint"),
    ],
)
def test_what_cannot_be_continued_says_why(path: bytes, more: Json, reason: str) -> None:
    body = asked(path, **more)
    assert continued(path, body, Seen("so far", 3)) == Kept(reason)
    if path in (COMPLETIONS, CHAT):
        assert continued(path, body, Seen()) == body


@pytest.mark.parametrize("more", [{"seed": 1, "temperature": 0}, {"n": 1, "logprobs": False, "tools": []}])
def test_what_changes_nothing_hinders_nothing(more: Json) -> None:
    assert isinstance(continued(CHAT, asked(CHAT, **more), Seen("so far", 3)), bytes)


def test_reasoning_is_not_text_and_stays_where_it_is() -> None:
    stream = Stream(chat=True)
    stream.take(b'data: {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}')
    assert continued(CHAT, asked(CHAT), stream.seen()) == Kept("delta")


def test_an_engine_that_gives_up_is_told_to_the_client_only_if_nobody_goes_on() -> None:
    for last in (
        b'data: {"choices": [{"index": 0, "delta": {"content": " b"}, "finish_reason": "abort"}]}',
        b'data: {"error": {"message": "engine died", "code": 500}}',
    ):
        stream = Stream(chat=True)
        stream.take(b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}')
        given = stream.take(last) + stream.take(b"data: [DONE]")
        assert b"abort" not in given
        assert b"error" not in given
        assert stream.broken
        assert not stream.whole
        told = stream.end()
        assert b"abort" in told or b"engine died" in told
        assert told.endswith(b"data: [DONE]\n\n")


def test_a_request_that_is_wrong_itself_is_not_tried_elsewhere() -> None:
    stream = Stream(chat=True)
    event = b'data: {"error": {"message": "too long", "code": 400}}'
    assert stream.take(event) == event + b"\n\n"
    assert stream.whole


def test_comments_and_what_is_no_chunk_pass_as_they_are() -> None:
    stream = Stream(chat=True)
    assert stream.take(b": ping") == b": ping\n\n"
    assert not stream.seen().opaque
    assert stream.take(b"data: hello") == b"data: hello\n\n"
    assert stream.seen().opaque


plain = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "abort", "text", "assistant"])
names = st.sampled_from(
    ["choices", "delta", "content", "text", "role", "index", "finish_reason", "usage", "completion_tokens", "type"]
) | st.sampled_from(["prompt_tokens", "error", "code", "id", "prompt", "messages", "max_tokens", "n", "stop"])
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(names, anything, max_size=5)
choices = st.fixed_dictionaries({}, optional={"index": anything, "delta": objects | anything, "text": anything})
chunks = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(choices | anything, max_size=3) | anything, "usage": objects, "id": anything}
)


@example([{"choices": [{"index": []}]}], {}, CHAT, False)
@settings(max_examples=100, deadline=None)
@given(st.lists(objects | chunks, max_size=4), objects, paths, st.booleans())
def test_whatever_an_engine_or_a_client_says_is_no_fault_of_the_front(
    said: list[Json], body: Json, path: bytes, later: bool
) -> None:
    stream = Stream(chat=path == CHAT)
    if later:
        stream.take(b'data: {"id": "x", "choices": [{"index": 0, "text": "a", "delta": {"role": "assistant"}}]}')
        stream.resume()
    for each in said:
        stream.take(b"data: " + msgspec.json.encode(each))
    continued(path, msgspec.json.encode(body), stream.seen())
    continued(path, msgspec.json.encode(body), Seen("so far", 2))
    assert stream.end().count(b"[DONE]") <= 1


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=6), st.integers(1, 7), st.booleans())
def test_events_are_found_however_their_bytes_come(texts: list[bytes], step: int, chunked: bool) -> None:
    events = [b"data: " + text.hex().encode() for text in texts]
    body = b"".join(event + b"\n\n" for event in events)
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    if chunked:
        raw += b"Transfer-Encoding: chunked\r\n"
        body = b"".join(chunk(event + b"\n\n") for event in events) + chunk(b"")
    head = head_of(raw + b"\r\n")
    assert head.events
    found = Events(head)
    got = [event for at in range(0, len(body), step) for event in found.feed(body[at : at + step])]
    assert got == events
    assert found.ended == chunked
    assert reframed(head).count(b"Transfer-Encoding: chunked") == 1


@pytest.mark.parametrize("raw", [b"zz\r\n", b"-5\r\nab\r\n"])
def test_chunks_that_make_no_sense_are_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|negative"):
        Events(head_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")).feed(raw)


def test_the_prompt_is_counted_as_the_first_engine_did() -> None:
    stream = Stream(chat=False)
    usage = b'"usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}'
    stream.take(b'data: {"choices": [{"index": 0, "text": " three words so"}], ' + usage + b"}")
    assert stream.seen().tokens == 3
    stream.resume()
    usage = b'"usage": {"prompt_tokens": 14, "completion_tokens": 2, "total_tokens": 16}'
    given = stream.take(b'data: {"choices": [{"index": 0, "text": " far."}], ' + usage + b"}")
    told = msgspec.json.decode(given.removeprefix(b"data: "))["usage"]
    assert told == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
