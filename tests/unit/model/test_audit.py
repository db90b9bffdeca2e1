"""A sealed log shows whatever was altered, left out, put in, moved or cut off."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.audit import START, AuditBody, AuditLine, Mark, check, digest_of, sealed


def log(count: int) -> list[AuditLine]:
    lines: list[AuditLine] = []
    for seq in range(1, count + 1):
        body = AuditBody(seq, float(seq), "kim", "root", f"did {seq}")
        lines.append(sealed(body, lines[-1].hash if lines else START))
    return lines


def mark(lines: list[AuditLine], seq: int) -> Mark:
    return Mark(seq, lines[seq - 1].hash)


def test_an_untouched_log_has_no_findings() -> None:
    lines = log(4)
    assert list(check(lines, mark(lines, 4), [Mark(), mark(lines, 2), mark(lines, 4)])) == []
    assert list(check([], Mark())) == []


@given(st.integers(0, 3), st.integers(0, 3))
def test_every_touch_is_found_at_its_line(first: int, second: int) -> None:
    lines = log(4)
    altered = list(lines)
    altered[first] = msgspec.structs.replace(lines[first], body=lines[first].body.replace("did", "hid"))
    assert [one.where for one in check(altered)] == [f"line {first + 1}"]
    left_out = lines[:first] + lines[first + 1 :]
    assert [one.where for one in check(left_out, mark(lines, 4))][-1] == "end"
    if first < second:
        moved = list(lines)
        moved[first], moved[second] = moved[second], moved[first]
        assert {f"line {first + 1}", f"line {second + 1}"} <= {one.where for one in check(moved)}


def test_a_line_that_is_no_longer_text_of_a_line_is_a_finding_not_a_crash() -> None:
    lines = log(2)
    broken = msgspec.structs.replace(lines[0], body="{")
    assert {one.where for one in check([broken, lines[1]])} == {"line 1"}
    assert any("itself line -1" in one.sentence for one in check([broken, lines[1]]))


def test_a_log_sealed_anew_from_the_middle_is_found_by_a_mark_kept_elsewhere() -> None:
    lines, other = log(4), log(2)
    forged = sealed(AuditBody(3, 3.0, "kim", "root", "did something else"), other[-1].hash)
    assert list(check([*other, forged])) == []
    assert [one.where for one in check([*other, forged], known=[mark(lines, 3)])] == ["line 3"]


def test_an_end_that_was_cut_off_is_found_by_either_mark() -> None:
    lines = log(4)
    assert [one.where for one in check(lines[:3], mark(lines, 4))] == ["end"]
    [gone] = check(lines[:3], known=[mark(lines, 4)])
    assert "line 4" in gone.sentence
    wrong_hash = Mark(4, lines[0].hash)
    assert [one.where for one in check(lines, wrong_hash)] == ["end"]


def test_a_line_that_says_nothing_readable_is_a_finding() -> None:
    [first] = log(1)
    words = {one.sentence[:20] for one in check([msgspec.structs.replace(first, body="{")])}
    assert len(words) == 2, "neither sealed like that nor a line of a log"


@pytest.mark.parametrize(
    ("one", "other"), [(("ab", "c"), ("a", "bc")), (("a",), ("a", "")), ((1,), ("1",)), ((b"x",), (b"y",))]
)
def test_digests_tell_parts_apart(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    assert digest_of(*one) != digest_of(*other)


def test_what_a_database_gives_back_has_the_digest_of_what_was_written() -> None:
    class Text(str):
        def __repr__(self) -> str:
            return "spelt otherwise"

    assert digest_of(Text("a"), memoryview(b"b")) == digest_of("a", b"b")
