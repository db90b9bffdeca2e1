"""`dure audit verify` on a state folder and on an exported log, without a server."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest

from dure.adapters.store import open_store
from dure.cli.root import run
from dure.model.tenant import Tenant
from dure.model.units import DAY_S


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


@pytest.fixture
def aged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tenants of a hundred days ago and one of now."""
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s - 100 * DAY_S)
    store = open_store(f"sqlite:///{tmp_path}/dure.db")
    store.write_tenant(Tenant("vision"))
    store.write_tenant(Tenant("search"))
    monkeypatch.setattr(time, "time", lambda: now_s)
    store.write_tenant(Tenant("speech"))
    store.close()
    return tmp_path


def test_a_log_that_was_cut_off_is_verified_from_there_on(aged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--state", str(aged)]
    assert run(["prune", "--older-than", "90d", "--dry-run", *folder]) == 0
    assert "3 lines of the audit log, 0 decisions would go" in capsys.readouterr().out
    assert run(["audit", "verify", *folder]) == 0
    assert capsys.readouterr().out == "4 lines: nothing was altered.\n"
    assert run(["prune", "--older-than", "90d", "--json", *folder]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["lines"], told["first_line"], told["dry_run"]) == (3, 4, False)
    assert run(["audit", "verify", *folder]) == 0
    assert capsys.readouterr().out == "3 lines from line 4 on, where the log was cut off: nothing was altered.\n"
    assert run(["prune", "--older-than", "13w", *folder]) == 0
    assert "nothing is older" in capsys.readouterr().out
    alter(aged, "UPDATE tenants SET body = body || ' ' WHERE name = 'vision'")
    assert run(["audit", "verify", *folder]) == 5


def test_an_export_of_a_log_that_was_cut_off_is_checked_by_itself(aged: Path) -> None:
    assert run(["prune", "--older-than", "90d", "--state", str(aged)]) == 0
    store = open_store(f"sqlite:///{aged}/dure.db")
    lines = [msgspec.json.encode(line) for line in store.list_audit(limit=100)]
    store.close()
    file = aged / "audit.jsonl"
    for kept, code in ((lines, 0), (lines[1:], 5), (lines[:1] + lines[2:], 5)):
        file.write_bytes(b"\n".join(kept))
        assert run(["audit", "verify", "--file", str(file)]) == code


@pytest.mark.parametrize("length", ["34d", "4w", "90", "1y", "-90d", "nan"])
def test_a_cut_that_is_too_near_or_no_time_at_all_is_refused(aged: Path, length: str) -> None:
    assert run(["prune", "--older-than", length, "--state", str(aged)]) == 2
