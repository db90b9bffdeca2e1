"""A backup is everything, as of one moment, and goes into either kind of database."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dure.adapters.store import SqlStore, open_store
from dure.adapters.store.backup import backup, restore
from dure.cli.root import run
from dure.model.errors import Conflict, InvalidInput
from dure.model.event import Event
from tests.contract.test_audit import lived_in, record


@pytest.fixture
def full(tmp_path: Path) -> Iterator[SqlStore]:
    store = open_store(f"sqlite:///{tmp_path}/full/dure.db")
    lived_in(store)
    store.write_setting("seed", "7")
    store.commit([], events=[Event(1.0, "Note", "before")])
    yield store
    store.close()


def everything(store: SqlStore) -> bytes:
    held = (
        store.list_workloads(),
        store.list_journal(limit=1000),
        store.list_events(limit=1000),
        store.list_charges(0, 10**6),
        store.list_reports(),
        store.list_tenants(),
        store.list_policies(name="steady"),
        store.list_tokens(),
        store.list_audit(limit=1000),
        store.fetch_setting("seed"),
    )
    return msgspec.json.encode(held)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_what_is_restored_is_what_was_there_and_goes_on(
    request: pytest.FixtureRequest, full: SqlStore, tmp_path: Path, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/new.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    count = backup(full, tmp_path / "b.gz")
    fresh = open_store(url)
    assert restore(fresh, tmp_path / "b.gz") == count
    assert everything(fresh) == everything(full)
    assert fresh.verify_audit()[1] == []
    fresh.create_workload(record("after"))
    fresh.commit([], events=[Event(2.0, "Note", "after")])
    assert [event.seq for event in fresh.list_events(limit=10)] == [1, 2]
    assert fresh.verify_audit()[1] == []
    with pytest.raises(Conflict, match="not empty"):
        restore(fresh, tmp_path / "b.gz")
    fresh.close()


def test_a_backup_that_is_cut_off_or_no_backup_changes_nothing(full: SqlStore, tmp_path: Path) -> None:
    whole = tmp_path / "b.gz"
    backup(full, whole)
    lines = gzip.decompress(whole.read_bytes()).splitlines(keepends=True)
    broken = {
        "cut": whole.read_bytes()[:-40],
        "without its end": gzip.compress(b"".join(lines[:-1])),
        "without a row": gzip.compress(b"".join([*lines[:3], *lines[4:]])),
        "with more after its end": gzip.compress(b"".join([*lines, lines[3]])),
        "of another schema": gzip.compress(b"".join([lines[0].replace(b'"schema":"', b'"schema":"9'), *lines[1:]])),
        "of an unknown table": gzip.compress(b"".join(lines).replace(b'"table":"tenants"', b'"table":"lease"')),
        "text": b"hello",
        "nothing": b"",
    }
    fresh = open_store(f"sqlite:///{tmp_path}/new.db")
    for name, data in broken.items():
        file = tmp_path / "broken.gz"
        file.write_bytes(data)
        with pytest.raises(InvalidInput):
            restore(fresh, file)
        assert fresh.list_workloads() == (), name
    assert restore(fresh, whole)
    fresh.close()


def test_the_commands_say_what_they_did(full: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "b.gz")
    assert run(["backup", file, "--state", str(tmp_path / "full")]) == 0
    assert run(["restore", file, "--state", str(tmp_path / "again")]) == 0
    assert "lines of the audit log agree" in capsys.readouterr().out
    assert run(["restore", file, "--state", str(tmp_path / "again")]) == 5
