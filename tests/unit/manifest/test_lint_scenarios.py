"""Each trap has a scenario: the bad manifest is caught, the good one is left alone by every rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.files.builtin import instances
from dure.files.manifests import read_source, read_sources
from dure.manifest.edit import edited
from dure.manifest.lint import Finding, lint
from dure.manifest.rules import RULES

SCENARIOS = Path(__file__).resolve().parents[2] / "scenario" / "lint"


def findings(path: Path) -> list[Finding]:
    return lint([document for source in read_sources([path])[0] for document in source.documents], instances())


def test_there_are_thirty_six_rules_and_each_has_its_scenario() -> None:
    assert [rule.code for rule in RULES] == [f"DURE{number:03d}" for number in range(1, 37)]
    assert sorted(path.name for path in SCENARIOS.iterdir()) == [rule.code for rule in RULES]


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_the_trap_is_caught_with_file_line_and_path(code: str) -> None:
    bad = SCENARIOS / code / "bad.yaml"
    found = [finding for finding in findings(bad) if finding.code == code]
    assert found
    for finding in found:
        assert finding.file == str(bad)
        assert 0 < finding.line <= len(bad.read_text("utf-8").splitlines())
        assert finding.message
        assert finding.why
        assert finding.fix


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_no_rule_complains_about_the_mended_manifest(code: str) -> None:
    assert [(each.code, each.message) for each in findings(SCENARIOS / code / "good.yaml")] == []


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_a_safe_fix_removes_its_finding_and_changes_nothing_else(code: str) -> None:
    [source], _ = read_sources([SCENARIOS / code / "bad.yaml"])
    before = lint(list(source.documents), instances())
    edits = [edit for finding in before for edit in finding.edits]
    text, made = edited(source.text, edits)
    assert (made > 0) == bool(edits)
    mended = read_source(text, source.name)
    after = lint(list(mended.documents), instances())
    assert len(mended.documents) == len(source.documents)
    fixable = {finding.code for finding in before if finding.edits}
    left = {finding.code for finding in after if finding.edits}
    assert not fixable & left
    assert {finding.code for finding in after} <= {finding.code for finding in before}
    kept = set(source.text.splitlines()) - set(text.splitlines())
    assert len(kept) <= made, "an edit touches one line"


def test_only_rules_that_say_so_offer_a_fix() -> None:
    offering = {
        finding.code for rule in RULES for finding in findings(SCENARIOS / rule.code / "bad.yaml") if finding.edits
    }
    assert offering == {rule.code for rule in RULES if rule.fixable}
