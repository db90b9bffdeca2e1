"""A node without ONNX Runtime is told what to install, instead of where an import failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dure.cli import device
from dure.model.errors import Permanent


@pytest.mark.parametrize("words", [["serve", "-f", "node.yaml"], ["run", "--demo"]])
def test_daemons_of_a_node_name_the_extra_that_they_need(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(device, "find_spec", lambda name: None if name == "onnxruntime" else object())
    result = CliRunner().invoke(device.command, words)
    assert isinstance(result.exception, Permanent)
    assert result.exception.message == "onnxruntime not installed"
    assert "dure[device]" in result.exception.remedy
