"""`dure audit verify` on a state folder and on an exported log, without a server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from dure.adapters.store import open_store
from dure.cli.root import run
from dure.model.tenant import Tenant


@pytest.fixture
def state(tmp_path: Path) -> Path:
    store = open_store(f"sqlite:///{tmp_path}/dure.db")
    for name in ("vision", "search", "speech"):
        store.write_tenant(Tenant(name))
    (tmp_path / "audit.mark").write_bytes(msgspec.json.encode(store.audit_mark()))
    lines = store.list_audit(limit=100)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines))
    store.close()
    return tmp_path


def alter(state: Path, statement: str) -> None:
    with sqlite3.connect(state / "dure.db") as db:
        db.execute(statement)
    db.close()


def test_an_untouched_database_is_said_to_be_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "verify", "--state", str(state)]) == 0
    assert capsys.readouterr().out == "4 lines: nothing was altered.\n"


def test_an_altered_row_ends_with_its_name_and_an_exit_code(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alter(state, "UPDATE tenants SET body = body || ' ' WHERE name = 'vision'")
    assert run(["audit", "verify", "--state", str(state)]) == 5
    assert "tenant vision: it is not what was last written" in capsys.readouterr().err


def test_a_log_cut_off_with_its_head_is_found_by_the_mark_of_the_state_folder(state: Path) -> None:
    for statement in (
        "DELETE FROM audit WHERE seq = 4",
        "DELETE FROM tenants WHERE name = 'speech'",
        "UPDATE audit_head SET seq = 3, hash = (SELECT hash FROM audit WHERE seq = 3)",
    ):
        alter(state, statement)
    assert run(["audit", "verify", "--state", str(state)]) == 5
    (state / "audit.mark").unlink()
    assert run(["audit", "verify", "--state", str(state)]) == 0


def test_an_exported_log_is_checked_by_itself(state: Path) -> None:
    file = state / "audit.jsonl"
    command = ["audit", "verify", "--file", str(file)]
    assert run(command) == 0
    lines = file.read_text().splitlines()
    mark = f"4:{msgspec.json.decode(lines[-1])['hash']}"
    file.write_text("\n".join(lines[:-1]))
    assert run(command) == 0
    assert run([*command, "--mark", mark]) == 5
    file.write_text("\n".join([lines[0], lines[2], lines[1]]))
    assert run(command) == 5
    file.write_text("not a log")
    assert run(command) == 2


def test_a_folder_without_a_database_is_told_so(tmp_path: Path) -> None:
    assert run(["audit", "verify", "--state", str(tmp_path / "nowhere")]) == 2
    assert run(["audit", "verify", "--mark", "four:zero", "--state", str(tmp_path)]) == 2
