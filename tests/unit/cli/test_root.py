"""The command line as a whole: help, unknown commands, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dure.cli.registry import COMMANDS
from dure.cli.root import dure, run


def test_help_lists_every_registered_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert name in text


def test_help_imports_no_command_module() -> None:
    code = "import sys; from dure.cli.root import run; run(['--help']); print([m for m in sys.modules if m in %r])"
    heavy = {entry.module for entry in COMMANDS.values()} | {"numpy", "msgspec", "rich", "litestar"}
    done = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_shows_an_example_in_its_help() -> None:
    import click

    for name in COMMANDS:
        command = dure.get_command(click.Context(dure), name)
        assert command is not None
        assert "Example" in (command.help or ""), name


def test_unknown_command_names_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["versoin"]) == 2
    assert "Did you mean 'version'?" in capsys.readouterr().err


def test_version_is_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"dure", "python", "platform"}


@pytest.mark.parametrize(("scenario", "code"), [("bad", 1), ("good", 0)])
def test_the_shell_gets_the_exit_code_that_a_command_ends_with(scenario: str, code: int) -> None:
    path = Path(__file__).parents[2] / "scenario" / "lint" / "DURE001" / f"{scenario}.yaml"
    assert run(["lint", str(path)]) == code
    assert subprocess.run([sys.executable, "-m", "dure", "lint", str(path)], capture_output=True).returncode == code
