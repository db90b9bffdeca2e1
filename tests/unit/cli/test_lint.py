"""`dure lint` as people and programs call it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dure.cli.lint import command
from dure.manifest.guide import lint_page

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "tests" / "scenario" / "lint"


def test_findings_as_json_have_exactly_the_promised_keys() -> None:
    answer = CliRunner().invoke(command, ["--json", str(SCENARIOS / "DURE001" / "bad.yaml")])
    assert answer.exit_code == 1
    [finding] = json.loads(answer.stdout)
    assert set(finding) == {"code", "severity", "file", "line", "path", "message", "why", "fix"}
    assert (finding["code"], finding["severity"], finding["path"]) == (
        "DURE001", "error", "spec.triggers[0].metadata.query",
    )  # fmt: skip


def test_nothing_found_is_exit_code_zero_and_an_empty_list() -> None:
    answer = CliRunner().invoke(command, ["--json", str(SCENARIOS / "DURE001" / "good.yaml")])
    assert (answer.exit_code, json.loads(answer.stdout)) == (0, [])


def test_a_file_that_is_not_there_is_wrong_input(tmp_path: Path) -> None:
    answer = CliRunner().invoke(command, [str(tmp_path / "none.yaml")])
    assert getattr(answer.exception, "exit_code", None) == 2


def test_standard_input_is_judged() -> None:
    text = (SCENARIOS / "DURE027" / "bad.yaml").read_text("utf-8")
    answer = CliRunner().invoke(command, ["--json", "-"], input=text)
    assert [finding["code"] for finding in json.loads(answer.stdout)] == ["DURE027"]


def test_rules_can_be_chosen_and_left_out() -> None:
    folder = str(SCENARIOS / "DURE034")
    chosen = CliRunner().invoke(command, ["--json", "--select", "dure027", folder])
    left_out = CliRunner().invoke(command, ["--json", "--ignore", "DURE034,DURE012", folder])
    assert json.loads(chosen.stdout) == json.loads(left_out.stdout) == []


def test_an_unknown_rule_is_named() -> None:
    answer = CliRunner().invoke(command, ["--select", "DURE999", "x.yaml"])
    assert "DURE999" in str(answer.exception)


def test_fix_mends_the_file_and_keeps_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "scaled.yaml"
    shutil.copy(SCENARIOS / "DURE001" / "bad.yaml", path)
    answer = CliRunner().invoke(command, ["--fix", str(path)])
    assert answer.exit_code == 0, answer.output
    assert "# one number for the whole model" in path.read_text("utf-8")
    assert "metricType: Value" in path.read_text("utf-8")


def test_code_scanning_and_pull_requests_get_their_formats() -> None:
    bad = str(SCENARIOS / "DURE007" / "bad.yaml")
    sarif = json.loads(CliRunner().invoke(command, ["--format", "sarif", bad]).stdout)
    [result] = sarif["runs"][0]["results"]
    assert (sarif["version"], result["ruleId"], result["level"]) == ("2.1.0", "DURE007", "error")
    github = CliRunner().invoke(command, ["--format", "github", bad]).stdout
    assert github.startswith("::error file=")
    assert "line=9,title=DURE007::" in github


@pytest.mark.parametrize("word", ["Before:", "After:", "Why:", "Fix:"])
def test_a_rule_explains_itself(word: str) -> None:
    assert word in CliRunner().invoke(command, ["--explain", "DURE001"]).stdout


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "lint.md").read_text("utf-8") == lint_page()


def test_a_file_that_cannot_be_read_does_not_hide_the_findings_in_others(tmp_path: Path) -> None:
    shutil.copy(SCENARIOS / "DURE001" / "bad.yaml", tmp_path / "a.yaml")
    (tmp_path / "template.yaml").write_text("name: {{ .Values.name }}\n")
    (tmp_path / "torn.yaml").write_text("a: [1, 2\n")
    answer = CliRunner().invoke(command, ["--json", str(tmp_path)])
    assert [row["code"] for row in json.loads(answer.stdout)] == ["DURE001"]
    assert getattr(answer.exception, "exit_code", None) == 2
    assert "torn.yaml" in str(answer.exception)
    assert "helm template CHART | dure lint -" in str(answer.exception)


def test_a_file_named_twice_is_judged_once(tmp_path: Path) -> None:
    path = str(SCENARIOS / "DURE001" / "good.yaml")
    answer = CliRunner().invoke(command, ["--json", path, path])
    assert (answer.exit_code, json.loads(answer.stdout)) == (0, [])


def test_a_folder_without_manifests_is_said_to_be_one(tmp_path: Path) -> None:
    answer = CliRunner().invoke(command, [str(tmp_path)])
    assert answer.exit_code == 0
    assert "no YAML or JSON file" in answer.stderr


def test_equal_names_in_three_namespaces_are_three_objects(tmp_path: Path) -> None:
    text = "---\n".join(f"apiVersion: v1\nkind: Service\nmetadata: {{name: a, namespace: {n}}}\n" for n in "xyyz")
    (tmp_path / "a.yaml").write_text(text)
    answer = CliRunner().invoke(command, ["--json", "--select", "DURE012", str(tmp_path)])
    assert [row["line"] for row in json.loads(answer.stdout)] == [11]
