"""Hostile and merely unlucky text: one clear error with its place, never a crash, never a wait."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.files.problem import InvalidFile
from dure.files.yaml import MAX_BYTES, MAX_DEPTH, MAX_VALUES, from_json, from_plain, parse


def refusal(source: str | bytes) -> str:
    with pytest.raises(InvalidFile) as caught:
        parse(source, "f.yaml")
    return str(caught.value)


def plain(text: str) -> object:
    (value,) = parse(text, "f.yaml")
    return value.plain()


def test_values_know_their_line_and_column() -> None:
    (root,) = parse("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml")
    assert isinstance(root.data, dict)
    items = root.data["b"].data
    assert isinstance(items, list)
    assert (items[1].line, items[1].column) == (4, 5)
    assert items[1].keys["c"] == (4, 6)


def test_plain_words_are_read_as_yaml_1_2_has_them() -> None:
    assert plain("[no, on, 1:30, 0755, 1_000, ~, true, 5, -1.5, 1e3, '5', 2026-01-01]") == [
        "no", "on", "1:30", 755, "1_000", None, True, 5, -1.5, 1000.0, "5", "2026-01-01",
    ]  # fmt: skip


def test_several_documents_are_read_and_empty_ones_left_out() -> None:
    assert [value.plain() for value in parse("a: 1\n---\n---\nb: 2\n", "f.yaml")] == [{"a": 1}, {"b": 2}]


def test_json_is_accepted_even_where_yaml_would_refuse_it() -> None:
    assert plain('{"a": [1, 2.5, null, true, "x"]}') == {"a": [1, 2.5, None, True, "x"]}
    assert plain('{"smile": "\\ud83d\\ude00"}') == {"smile": "😀"}
    assert plain('{\n\t"a": {\n\t\t"b": 1\n\t}\n}') == {"a": {"b": 1}}


def test_merge_keys_bring_what_is_not_there() -> None:
    assert plain("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}") == {
        "base": {"x": 1, "y": 2},
        "more": {"x": 1, "y": 3},
    }
    assert "'<<' takes a mapping" in refusal("a: {<<: 5}")


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert plain("{'<<': 5}") == {"<<": 5}


def test_a_file_of_fifty_megabytes_is_refused_by_its_size() -> None:
    message = refusal(b"a: " + b"x" * (50 * 2**20))
    assert message.startswith("f.yaml: 50.0 MiB is too large; a file may have 5 MiB")


def test_a_file_of_the_largest_size_is_still_read() -> None:
    text = "a: " + "x" * (MAX_BYTES - 3)
    assert plain(text) == {"a": "x" * (MAX_BYTES - 3)}


def test_an_alias_bomb_is_refused_by_what_it_would_become() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert f"more than {MAX_VALUES:,} values once aliases are followed" in refusal("\n".join(lines))


def test_depth_by_aliases_counts_like_depth() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60)]
    assert f"nested deeper than {MAX_DEPTH} levels once" in refusal("\n".join(lines))


def test_an_alias_of_itself_or_of_nothing_is_refused() -> None:
    assert "f.yaml:1:8: the alias *a stands inside of itself" in refusal("a: &a [*a]")
    assert "the alias *b has no anchor &b before it" in refusal("a: *b")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_at_the_limit(opening: str) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in refusal(opening * 100_000)


def test_deep_json_of_a_request_is_refused_too() -> None:
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidFile, match="nested deeper"):
        from_plain(deep, "request body")


def test_a_key_given_twice_names_the_first_line() -> None:
    assert refusal("a: 1\nb: 2\na: 3\n") == "f.yaml:3:1: the key 'a' is given twice, first in line 1"


def test_a_tab_is_named_as_one() -> None:
    assert refusal("a:\n\tb: 1\n") == (
        "f.yaml:2:1: a tab indents this line\n  YAML is indented with spaces; replace the tab."
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a: 1".encode("utf-16"), "f.yaml:1:1: the file is UTF-16 or UTF-32\n  Save it as UTF-8."),
        ("a: 1\nb: 서울".encode("euc-kr"), "f.yaml:2:4: byte 0xBC is not UTF-8\n  Save the file as UTF-8."),
        (b"a: \x00", "f.yaml:1:4: the character U+0000 is not allowed in YAML\n  Is this a text file?"),
    ],
)
def test_wrong_encodings_are_named(source: bytes, words: str) -> None:
    assert refusal(source) == words


def test_a_byte_order_mark_of_utf8_is_fine() -> None:
    assert plain("\ufeffa: 1") == {"a": 1}


@pytest.mark.parametrize("word", [".nan", ".inf", "-.inf", ".NaN", "1e999"])
def test_numbers_that_are_none_are_refused(word: str) -> None:
    assert refusal(f"a: {word}") == f"f.yaml:1:4: {word} is not a number that a file may hold"


def test_tags_are_refused() -> None:
    assert "files hold plain data" in refusal("a: !!python/object/apply:os.system [ls]")
    assert "files hold plain data" in refusal("a: !!int '5'")


def test_keys_must_be_text() -> None:
    assert "a key must be text" in refusal("? [a]\n: 1")
    assert "a key must be text" in refusal("a: &x k\n? *x\n: 1")


def test_broken_syntax_has_a_place() -> None:
    assert refusal("a: [1, 2\nb: 3").startswith("f.yaml:2:")


def test_very_long_digits_stay_text() -> None:
    assert plain("a: " + "9" * 5000) == {"a": "9" * 5000}


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _JSON), st.booleans())
def test_json_read_fast_means_the_same_as_json_read_with_positions(data: Any, ascii_only: bool) -> None:
    body = json.dumps(data, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    with contextlib.suppress(InvalidFile):
        fast = from_json(body, "body").plain()
        assert [value.plain() for value in parse(body, "body")] == [fast]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800"}',
        b"{a: 1}",
        b'{"a": NaN}',
        b"[" * 5000,
        b'{"a": "\xc2\x85"}',
        b'{"a": 1} {',
        b"null",
    ],
)
def test_what_may_not_mean_the_same_is_not_read_fast(body: bytes) -> None:
    with pytest.raises(InvalidFile):
        from_json(body, "body")
