"""Findings as other programs read them: SARIF 2.1.0 for code scanning, workflow commands for pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dure.manifest.document import Json
from dure.manifest.rule import Rule

if TYPE_CHECKING:
    from dure.manifest.lint import Finding


def as_sarif(findings: Sequence[Finding], rules: Sequence[Rule]) -> Json:
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "dure lint", "rules": [_described(rule) for rule in rules]}},
                "results": [_result(finding) for finding in findings],
            }
        ],
    }


def _described(rule: Rule) -> Json:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": str(rule.severity)},
    }


def _result(finding: Finding) -> Json:
    place = {"artifactLocation": {"uri": finding.file}, "region": {"startLine": max(1, finding.line)}}
    return {
        "ruleId": finding.code,
        "level": str(finding.severity),
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": finding.path}]}],
    }


def as_github(findings: Iterable[Finding]) -> list[str]:
    return [
        f"::{finding.severity} file={_property(finding.file)},line={finding.line},title={finding.code}::"
        f"{_escaped(f'{finding.message}. {finding.fix}')}"
        for finding in findings
    ]


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
