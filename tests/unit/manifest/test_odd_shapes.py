"""Manifests as they are found: lists, one line of JSON, anchors, Windows files, and values of the wrong kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dure.cli.lint import command
from dure.files.builtin import instances
from dure.files.manifests import read_source, read_sources
from dure.manifest.lint import lint
from dure.manifest.rules import RULES

SCENARIOS = Path(__file__).resolve().parents[2] / "scenario" / "lint"
ODD: tuple[Any, ...] = (None, 3, [], {}, "x", [None], {"a": [1]}, True, -1.5, [[1]], "")
TRIGGER = {"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "avg(x_util)", "threshold": "70"}}


def _scaled(name: str, **metadata: str) -> dict[str, Any]:
    trigger = {**TRIGGER, "metadata": {**TRIGGER["metadata"], **metadata}}  # type: ignore[dict-item]
    return {
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"scaleTargetRef": {"name": name}, "triggers": [trigger]},
    }  # fmt: skip


def _codes(text: str) -> list[tuple[str, int]]:
    return [(each.code, each.line) for each in lint(read_source(text, "x").documents)]


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_a_value_of_the_wrong_kind_anywhere_is_judged_like_any_other(code: str) -> None:
    [source], _ = read_sources([SCENARIOS / code / "bad.yaml"])
    lines, known = len(source.text.splitlines()), {rule.code for rule in RULES}
    for index, document in enumerate(source.documents):
        for turn, path in enumerate(_paths(document.data)):
            odd = msgspec.structs.replace(document, data=_put(document.data, path, ODD[turn % len(ODD)]))
            found = lint([*source.documents[:index], odd, *source.documents[index + 1 :]], instances())
            assert all(one.code in known and 1 <= one.line <= lines and one.message for one in found), path


def test_two_objects_on_one_line_are_both_judged_and_both_mended(tmp_path: Path) -> None:
    path = tmp_path / "one-line.json"
    path.write_text(json.dumps([_scaled("a"), _scaled("b")]))
    assert _codes(path.read_text()) == [("DURE001", 1), ("DURE001", 1)]
    answer = CliRunner().invoke(command, ["--fix", str(path)])
    assert answer.exit_code == 0, answer.output
    assert [each["spec"]["triggers"][0]["metricType"] for each in json.loads(path.read_text())] == ["Value", "Value"]


def test_items_of_a_typed_list_are_objects_of_its_kind() -> None:
    item = {key: value for key, value in _scaled("a").items() if key in ("metadata", "spec")}
    text = json.dumps({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObjectList", "items": [item, None]}, indent=1)
    assert [code for code, _ in _codes(text)] == ["DURE001"]


def test_an_anchor_used_twice_is_found_twice_and_left_to_its_author(tmp_path: Path) -> None:
    path = tmp_path / "anchors.yaml"
    path.write_text(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec:\n  scaleTargetRef: {name: a}\n"
        "  triggers:\n  - &t\n    type: prometheus\n    metadata: {query: avg(x_util), threshold: '70'}\n  - *t\n"
    )
    before = path.read_text()
    answer = CliRunner().invoke(command, ["--fix", "--json", str(path)])
    assert [row["path"] for row in json.loads(answer.stdout)] == [
        f"spec.triggers[{i}].metadata.query" for i in (0, 1)
    ]
    assert path.read_text() == before


def test_the_mark_and_the_line_ends_of_a_windows_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    text = (SCENARIOS / "DURE001" / "bad.yaml").read_text("utf-8").replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    answer = CliRunner().invoke(command, ["--fix", str(path)])
    assert answer.exit_code == 0, answer.output
    after = path.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf")
    assert b"metricType: Value\r\n" in after
    assert after.count(b"\n") == after.count(b"\r\n") == text.count("\n") + 1


def test_any_parameter_that_keda_does_not_read_is_named_and_a_secret_by_variable_is_not() -> None:
    strange = _scaled("a", interval="30s", targetValue="3", bearerTokenFromEnv="TOKEN", authMode="bearer")
    found = [each.message for each in lint(read_source(json.dumps(strange), "x").documents) if each.code == "DURE020"]
    assert [message.split()[0] for message in found] == ["interval", "targetValue"]
    assert found[1].endswith("it is 'threshold'")


def test_folders_are_read_whatever_else_lies_in_them(tmp_path: Path) -> None:
    (tmp_path / "UPPER.JSON").write_text(json.dumps(_scaled("a")))
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "marks.yml").write_text("---\n# nothing\n---\n...\n")
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00\xff")
    (tmp_path / "loop").symlink_to(tmp_path)
    answer = CliRunner().invoke(command, ["--json", str(tmp_path)])
    assert [(row["code"], Path(row["file"]).name) for row in json.loads(answer.stdout)] == [("DURE001", "UPPER.JSON")]


def test_folders_that_kustomize_applies_are_different_clusters_only_when_they_clash(tmp_path: Path) -> None:
    for folder, name in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kustomization.yaml").write_text("resources: [x.json]\n")
        (tmp_path / folder / "x.json").write_text(json.dumps(_scaled(name)))
    other = {**_scaled("c"), "spec": {**_scaled("c")["spec"], "scaleTargetRef": {"name": "b"}}}
    (tmp_path / "three" / "y.json").write_text(json.dumps(other))
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: whole\nversion: 1.0.0\n")
    answer = CliRunner().invoke(command, ["--json", "--ignore", "DURE001", str(tmp_path)])
    found = [(row["code"], Path(row["file"]).parent.name) for row in json.loads(answer.stdout)]
    assert found == [("DURE004", "three")]


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Of everything inside of a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _put(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: _put(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [_put(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]
