"""Small files are there whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dure.adapters.whole import create_whole, write_whole


def test_what_is_there_is_replaced_in_one_step_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    write_whole(path, b"one")
    write_whole(path, b"two", 0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["mark"]


def test_who_comes_second_finds_what_the_first_has_made(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert create_whole(path, b"first", 0o600)
    assert not create_whole(path, b"second", 0o600)
    assert path.read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["token"]


def test_a_disk_that_takes_nothing_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mark"
    write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["mark"]


@pytest.mark.parametrize("point", ["os.fsync", "os.link", "os.unlink"])
def test_a_token_file_that_was_being_made_when_its_maker_was_killed_is_whole_or_made_anew(
    tmp_path: Path, point: str
) -> None:
    """Half a token would lock its owner out for good."""
    program = (
        "import os, signal, sys, pathlib\n"
        f"{point} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from dure.api.auth import fetch_token\n"
        "fetch_token(pathlib.Path(sys.argv[1]))\n"
    )
    path = tmp_path / "token"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    from dure.api.auth import fetch_token

    assert len(fetch_token(path)) >= 16
    assert fetch_token(path) == fetch_token(path)
