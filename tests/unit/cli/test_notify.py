"""`dure notify` on a folder of state, with a server on loopback."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from dure.cli.notify import command
from tests.unit.adapters.notify.servers import Hook, running


def test_silences_are_set_listed_and_ended(tmp_path: Path) -> None:
    run = CliRunner()
    state = ["--state", str(tmp_path)]
    assert "silent for 2h" in run.invoke(command, ["silence", "cluster/*", "--for", "2h", *state]).output
    listed = json.loads(run.invoke(command, ["list", "--json", *state]).output)
    assert [one["pattern"] for one in listed["silences"]] == ["cluster/*"]
    assert "silenced  cluster/* for 120 min" in run.invoke(command, ["list", *state]).output
    assert "told again" in run.invoke(command, ["silence", "cluster/*", "--end", *state]).output
    assert "nothing is silenced" in run.invoke(command, ["list", *state]).output


def test_a_channel_can_be_tried(tmp_path: Path) -> None:
    hook = Hook()
    with running(hook):
        found = CliRunner().invoke(command, ["test", hook.url])
    assert "took it" in found.output
    assert hook.taken[0][1]["notices"][0]["sentence"] == "This is a test; nothing is wrong."
