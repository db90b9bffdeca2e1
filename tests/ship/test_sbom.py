"""The bill of materials says what the lock file says, and is the same every time."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from deploy import sbom

ROOT = Path(__file__).resolve().parents[2]


def lock() -> list[sbom.Locked]:
    return sbom.read_lock((ROOT / "requirements/run.txt").read_text("utf-8"))


def test_the_bill_holds_every_locked_package_with_its_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1789948800")
    text = sbom.current()
    assert text == sbom.current(), "same lock, same bytes"
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["timestamp"].startswith("2026-09-21")
    told = {each["name"]: each for each in found["components"]}
    assert {name: each["version"] for name, each in told.items()} == {each.name: each.version for each in lock()}
    for each in lock():
        assert {one["content"] for one in told[each.name]["hashes"]} == set(each.sha256)
    assert told["numpy"]["licenses"]


def test_the_bill_says_what_dure_itself_needs() -> None:
    found = json.loads(sbom.current())
    [root] = [each["dependsOn"] for each in found["dependencies"] if each["ref"] == "dure"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(root) == len(project["dependencies"])
    [driver] = [each["dependsOn"] for each in found["dependencies"] if each["ref"].startswith("psycopg==")]
    assert any(name.startswith("psycopg-binary==") for name in driver), "extras that Dure asks for count"


@pytest.mark.parametrize("line", ["numpy==2.0.0\n", "numpy>=2.0.0 --hash=sha256:00\n"])
def test_a_package_without_pin_or_digest_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="numpy is not pinned with a digest"):
        sbom.read_lock(line)


def test_the_lock_holds_every_declared_dependency_within_its_bounds() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {each.name: each.version for each in lock()}
    for line in project["dependencies"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(pinned[wanted.name.lower()]), line
