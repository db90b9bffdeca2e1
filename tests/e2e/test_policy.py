"""Policies as objects, through the command line against a running server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Up

pytestmark = pytest.mark.xdist_group("up")


def test_a_policy_is_applied_changed_rolled_back_and_its_history_is_kept(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    text = """
apiVersion: dure.dev/v1alpha1
kind: Policy
metadata: {name: patient}
spec: {verb: place, settings: {longestWaitH: %s}}
"""
    for hours in (3, 5):
        file.write_text(text % hours)
        applied = up.dure("policy", "apply", str(file))
        assert applied.returncode == 0, applied.stderr
    assert json.loads(up.dure("policy", "show", "patient", "--json").stdout)["settings"] == {"longestWaitH": 5}
    back = up.dure("policy", "rollback", "patient")
    assert "version 3" in back.stdout, back.stderr
    history = json.loads(up.dure("policy", "history", "patient", "--json").stdout)
    assert [one["settings"]["longestWaitH"] for one in history] == [3, 5, 3]
    assert "patient" in up.dure("policy", "list").stdout
    assert up.dure("policy", "show", "impatient").returncode == 4
    file.write_text(text.replace("longestWaitH", "longestWait") % 3)
    refused = up.dure("policy", "apply", str(file))
    assert refused.returncode == 2
    assert "Did you mean 'longestWaitH'?" in refused.stderr
