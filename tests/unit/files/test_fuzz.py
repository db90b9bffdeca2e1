"""Whatever comes in, only `InvalidInput` comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dure.files import parse_workload_json, read_text
from dure.model.errors import InvalidInput

EXAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))]
TOKENS = [
    b"[", b"]", b"{", b"}", b":", b"-", b"&a ", b"*a", b"<<: ", b"!!int ", b"'", b'"', b"\t", b"\n", b"#", b"|", b">",
    b"%", b"---\n", b"...\n", b"null", b".nan", b"-1", b"1e999", b"\x00", b"\xff", b"\xef\xbb\xbf", b"? ",
    b"9999999999999999999999",
]  # fmt: skip
PATIENT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A sound file with a few cuts and foreign pieces."""
    text = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(TOKENS) | st.binary(max_size=4)) + text[end:]
    return text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SPEC_KEYS = [
    "type",
    "model",
    "classes",
    "demand",
    "gang",
    "replicas",
    "duration",
    "deadline",
    "slo",
    "share",
    "template",
]


def outcome(read: Callable[[Any], object], data: object) -> object:
    """What is read, or the words of the refusal."""
    try:
        return read(data)
    except InvalidInput as error:
        return str(error).strip()


def refused_or_read(read: Callable[[Any], object], data: object) -> None:
    """A refusal says something, and the same input has the same outcome."""
    found = outcome(read, data)
    assert found != ""
    assert outcome(read, data) == found


def test_there_are_examples_to_mutate() -> None:
    assert len(EXAMPLES) >= 6


@PATIENT
@given(st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    refused_or_read(read_text, data)


@PATIENT
@given(st.lists(st.sampled_from(TOKENS) | st.binary(max_size=3), max_size=60).map(b"".join))
def test_random_yaml_pieces_are_refused_or_read(data: bytes) -> None:
    refused_or_read(read_text, data)


@PATIENT
@given(mutated())
def test_mutated_files_are_refused_or_read(data: bytes) -> None:
    refused_or_read(read_text, data)


@PATIENT
@given(json_values, st.dictionaries(st.sampled_from(SPEC_KEYS), json_values))
def test_random_request_bodies_are_refused_or_read(body: object, spec: object) -> None:
    for each in (body, {"metadata": body, "spec": spec}, {"metadata": {"name": "w"}, "spec": spec}):
        refused_or_read(parse_workload_json, each)
