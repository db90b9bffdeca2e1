"""Mending keeps the file what it was: JSON stays JSON, line ends stay, one comma goes with its entry."""

from __future__ import annotations

import json

import pytest

from dure.files.manifests import read_source
from dure.manifest.edit import edited
from dure.manifest.rule import Edit, Remove, SetKey

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"first": "1", "second": "2", "third": "3"}}


def _mended(text: str, *edits: tuple[type[Edit], tuple[str, ...], tuple[str, ...]]) -> str:
    [document] = read_source(text, "x").documents
    after, made = edited(text, [kind(document, path, *more) for kind, path, more in edits])
    assert made == len(edits)
    return after


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("key", ["first", "second", "third"])
def test_json_stays_json_when_an_entry_goes(indent: int | None, key: str) -> None:
    after = json.loads(_mended(json.dumps(OBJECT, indent=indent), (Remove, ("data", key), ())))
    assert after["data"] == {name: value for name, value in OBJECT["data"].items() if name != key}  # type: ignore[attr-defined]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("value", "read"), [("'false'", "false"), ("true", True), ("Value", "Value"), ('"x"', "x"), ("'it''s'", "it's")]
)
def test_json_stays_json_when_a_key_is_set(indent: int | None, value: str, read: object) -> None:
    after = json.loads(_mended(json.dumps(OBJECT, indent=indent), (SetKey, ("data",), ("new", value))))
    assert after["data"]["new"] == read


def test_an_empty_mapping_over_two_lines_gets_no_comma() -> None:
    text = '{"kind": "ConfigMap", "data": {\n}}'
    assert json.loads(_mended(text, (SetKey, ("data",), ("new", "1")))) == {"kind": "ConfigMap", "data": {"new": 1}}


def test_line_ends_of_a_file_stay_the_same() -> None:
    text = "kind: ConfigMap\r\ndata:\r\n  first: a\r\n"
    assert (
        _mended(text, (SetKey, ("data",), ("new", "b"))) == "kind: ConfigMap\r\ndata:\r\n  new: b\r\n  first: a\r\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("data: {gone: 1, kept: 2}", "data: {kept: 2}"),
        ("data: {kept: 2, gone: 1}", "data: {kept: 2}"),
        ("data: {gone: 1}", "data: {}"),
        ("data:\n  gone: 1  # why\n  kept: 2", "data:\n  kept: 2"),
    ],
)
def test_an_entry_of_yaml_goes_with_its_comma(before: str, after: str) -> None:
    head = "kind: ConfigMap\n"
    assert _mended(head + before, (Remove, ("data", "gone"), ())) == head + after
