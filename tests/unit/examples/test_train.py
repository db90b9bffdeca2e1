"""The example's training script: interrupted anywhere, its result is that of an undisturbed run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "examples" / "training" / "train.py"


def train(folder: Path, steps: int) -> str:
    command = [sys.executable, str(SCRIPT), "--every", "20", "--steps", str(steps), "--folder", str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_run_that_stopped_goes_on_from_its_last_checkpoint_to_the_same_result(tmp_path: Path) -> None:
    train(tmp_path / "whole", 100)
    # Ended between two checkpoints: what came after the last one is done again.
    train(tmp_path / "torn", 50)
    said = train(tmp_path / "torn", 100)
    assert "begins at step 40 of 100" in said
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "torn")]
    assert results[0] == results[1]
