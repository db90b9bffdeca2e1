"""`dure check` and `dure schema` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dure.cli.check import command as check
from dure.cli.root import run
from dure.cli.schema import command as schema

EXAMPLES = Path(__file__).parents[3] / "examples"
SERVING = str(EXAMPLES / "serving.yaml")


def test_sound_files_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "-f", str(EXAMPLES)]) == 0
    assert capsys.readouterr().out == "ok: 1 fleet, 3 workloads, 1 tenant, 2 policies\n"


def test_a_wrong_file_exits_with_2_and_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "w.yaml"
    wrong.write_text(Path(SERVING).read_text().replace("replicas", "replcas"))
    assert run(["check", "-f", str(wrong)]) == 2
    err = capsys.readouterr().err
    assert "w.yaml:10:3: spec: unknown key 'replcas'" in err
    assert "Did you mean 'replicas'?" in err


def test_json_names_problems_and_warnings(tmp_path: Path) -> None:
    wrong = tmp_path / "w.yaml"
    wrong.write_text(Path(SERVING).read_text().replace("type: serving", "type: seving"))
    answer = CliRunner().invoke(check, ["-f", str(wrong), "--json"])
    assert answer.exit_code == 2
    body = json.loads(answer.output)
    assert body["ok"] is False
    assert body["problems"][0]["path"] == "spec.type"
    assert body["problems"][0]["remedy"] == "Did you mean 'serving'?"


def test_warnings_fail_only_when_strict() -> None:
    text = Path(SERVING).read_text().replace("model: chat-7b", "model: chat-8b")
    runner = CliRunner()
    lenient = runner.invoke(check, ["-f", "-"], input=text)
    assert (lenient.exit_code, "warning: standard input:" in lenient.output) == (0, True)
    assert runner.invoke(check, ["-f", "-", "--strict"], input=text).exit_code == 2
    body = json.loads(runner.invoke(check, ["-f", "-", "--json"], input=text).output)
    assert (body["ok"], len(body["warnings"])) == (True, 1)


def test_files_are_checked_against_a_fleet(tmp_path: Path) -> None:
    away = tmp_path / "w.yaml"
    away.write_text(Path(SERVING).read_text().replace("kr-*", "jp-*"))
    answer = CliRunner().invoke(check, ["-f", str(away), "--fleet", str(EXAMPLES / "fleet.yaml")])
    assert answer.exit_code == 0
    assert "'jp-*' matches no region of the fleet" in answer.output


@pytest.mark.parametrize("kind", ["Fleet", "workload", "TENANT", "Policy", "all"])
def test_schemas_are_printed_as_json(kind: str) -> None:
    answer = CliRunner().invoke(schema, [kind])
    assert answer.exit_code == 0
    assert json.loads(answer.output)["$schema"].startswith("https://json-schema.org/")


def test_an_unknown_kind_is_told_the_known_ones() -> None:
    answer = CliRunner().invoke(schema, ["Flet"])
    assert answer.exit_code == 2
    assert "'fleet'" in answer.output
