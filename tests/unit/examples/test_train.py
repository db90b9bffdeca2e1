"""The example's training script: interrupted anywhere, its result is that of an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.training.store import signature
from tests.fixtures.object_store import object_store

SCRIPT = Path(__file__).parents[3] / "examples" / "training" / "train.py"


def train(folder: Path | str, steps: int, **more: str) -> str:
    command = [sys.executable, str(SCRIPT), "--every", "20", "--steps", str(steps), "--folder", str(folder)]
    environment = {**os.environ, **more}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_a_run_that_stopped_goes_on_from_its_last_checkpoint_to_the_same_result(tmp_path: Path) -> None:
    train(tmp_path / "whole", 100)
    # Ended between two checkpoints: what came after the last one is done again.
    train(tmp_path / "torn", 50)
    said = train(tmp_path / "torn", 100)
    assert "begins at step 40 of 100" in said
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "torn")]
    assert results[0] == results[1]


def test_a_bucket_does_what_a_folder_does_and_takes_nothing_that_is_not_signed(tmp_path: Path) -> None:
    train(tmp_path, 60)
    with object_store() as store:
        train("s3://models/fit", 50, **store.environment())
        said = train("s3://models/fit", 60, **store.environment())
        assert "begins at step 40 of 60" in said
        assert store.objects["/models/fit/result.json"] == (tmp_path / "result.json").read_bytes()
        assert not store.refused
        with pytest.raises(subprocess.CalledProcessError):
            train("s3://models/fit", 60, **store.environment("another secret"))
        assert store.refused


def test_a_request_is_signed_as_the_api_describes_it() -> None:
    """The example of the S3 documentation: the first ten bytes of an object."""
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "range": "bytes=0-9",
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "x-amz-date": "20130524T000000Z",
    }
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    found = signature("GET", "/test.txt", headers, secret, "us-east-1")
    assert found == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
