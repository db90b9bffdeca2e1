"""Shell completion: the script is printed, and what it calls completes commands, aliases aside, and options."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete

from dure.cli.root import dure, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_DURE_COMPLETE" in capsys.readouterr().out


def completed(args: list[str], incomplete: str) -> list[str]:
    return [item.value for item in BashComplete(dure, {}, "dure", "_DURE_COMPLETE").get_completions(args, incomplete)]


def test_commands_kinds_and_options_are_completed() -> None:
    assert "submit" in completed([], "su")
    assert "workloads" in completed(["get"], "wo")
    assert "--tenant" in completed(["get", "workloads"], "--t")
