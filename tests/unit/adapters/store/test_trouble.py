"""Real trouble with the disk: a clear word, nothing half written, nothing accepted lost, and on again afterwards."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from dure.adapters.store import SqlStore, open_store
from dure.adapters.store.backup import backup, restore
from dure.model.demand import Demand
from dure.model.errors import DureError, Permanent, Temporary
from dure.model.workload import AcceptedClass, Workload, WorkloadRecord, WorkloadStatus, WorkloadType

SMALL = 4 * 1024 * 1024
CLASSES = (AcceptedClass("t4"),)


def record(number: int) -> WorkloadRecord:
    spec = Workload(f"job-{number}", "vision", WorkloadType.BATCH, CLASSES, Demand(devices=1), template="x" * 4000)
    return WorkloadRecord(f"u{number}", spec, WorkloadStatus(submitted_s=float(number)))


def submit_until_refused(store: SqlStore, start: int = 0) -> tuple[list[str], DureError]:
    taken: list[str] = []
    for number in range(start, start + 5000):
        try:
            taken.append(store.create_workload(record(number)).name)
        except DureError as error:
            return taken, error
    raise AssertionError("5,000 were taken and nothing was refused")


def names(store: SqlStore) -> list[str]:
    return [one.name for one in store.list_workloads()]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or _run("mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)):
        pytest.skip("mounting a small disk needs root")
    yield folder
    _run("umount", "-l", str(folder))


def test_a_full_disk_refuses_the_write_keeps_the_accepted_and_goes_on_when_there_is_room(disk: Path) -> None:
    filler = disk / "filler"
    filler.write_bytes(b"x" * (SMALL // 2))
    store = open_store(f"sqlite:///{disk / 'dure.db'}")
    taken, refused = submit_until_refused(store)
    assert isinstance(refused, Temporary)
    assert "the disk is full" in refused.message
    assert "Free some space" in refused.remedy
    assert names(store) == taken
    assert store.fetch_workload(taken[-1]).name == taken[-1]
    filler.unlink()
    assert store.create_workload(record(9000)).name == "job-9000"
    assert store.verify_audit()[1] == []
    store.close()
    again = open_store(f"sqlite:///{disk / 'dure.db'}")
    assert names(again) == [*taken, "job-9000"]
    again.close()


def test_a_disk_that_turns_read_only_refuses_the_write_and_still_answers(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'dure.db'}")
    store.create_workload(record(1))
    # The third file is memory that is shared, not data.
    files = [str(tmp_path / name) for name in ("dure.db", "dure.db-wal")]
    if os.geteuid() != 0 or _run("chattr", "+i", *files):
        store.close()
        pytest.skip("making files immutable needs root and a file system that can")
    try:
        _, refused = submit_until_refused(store, 2)
        assert isinstance(refused, Temporary)
        assert "the disk" in refused.message
        assert names(store) == ["job-1"]
    finally:
        _run("chattr", "-i", *files)
    store.create_workload(record(2))
    assert names(store) == ["job-1", "job-2"]
    assert store.verify_audit()[1] == []
    store.close()


@pytest.mark.postgres
def test_a_postgresql_that_takes_no_writes_says_so(postgres_url: str) -> None:
    import psycopg

    store = open_store(postgres_url)
    store.create_workload(record(1))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        name = admin.info.dbname
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
    store.engine.dispose()
    _, refused = submit_until_refused(store, 2)
    assert isinstance(refused, Temporary)
    assert "read-only" in refused.message
    assert names(store) == ["job-1"]
    store.close()


@pytest.mark.parametrize("table", ["workloads", "audit"])
def test_a_damaged_page_is_named_and_a_backup_brings_everything_back(tmp_path: Path, table: str) -> None:
    path = tmp_path / "dure.db"
    store = open_store(f"sqlite:///{path}")
    for number in range(40):
        store.create_workload(record(number))
    backup(store, tmp_path / "backup.gz")
    store.close()
    _damage(path, table)
    with pytest.raises(Permanent, match="damaged") as told:
        _use(path)
    assert "dure restore" in told.value.remedy
    fresh = open_store(f"sqlite:///{tmp_path / 'fresh.db'}")
    restore(fresh, tmp_path / "backup.gz")
    assert len(names(fresh)) == 40
    assert fresh.verify_audit()[1] == []
    fresh.close()


def test_a_file_that_is_no_database_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "dure.db"
    path.write_bytes(os.urandom(16384))
    with pytest.raises(Permanent, match="damaged") as told:
        open_store(f"sqlite:///{path}")
    assert "dure.db" in told.value.where


def test_on_a_slow_disk_writers_wait_for_one_another_and_all_are_taken(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'dure.db'}")
    event.listen(store.engine, "commit", lambda connection: time.sleep(0.05))
    writers = [threading.Thread(target=store.create_workload, args=(record(number),)) for number in range(8)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert sorted(names(store)) == sorted(record(number).name for number in range(8))
    assert store.verify_audit()[1] == []
    store.close()


def test_when_no_connection_becomes_free_it_may_be_tried_again() -> None:
    """An error that nobody translates would end whatever loop asked."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import QueuePool

    from dure.adapters.store.trouble import translated

    engine = create_engine("sqlite://", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01)
    with engine.connect(), pytest.raises(Temporary, match="busy"), translated():
        engine.connect()
    engine.dispose()


def _use(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    try:
        store.list_workloads()
        store.verify_audit()
    finally:
        store.close()


def _damage(path: Path, table: str) -> None:
    """Overwrite the first page of a table."""
    with sqlite3.connect(path) as db:
        size: int = db.execute("PRAGMA page_size").fetchone()[0]
        root: int = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    db.close()
    for beside in path.parent.glob("dure.db-*"):
        beside.unlink()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)


def _run(*command: str) -> int:
    if shutil.which(command[0]) is None:
        return 127
    return subprocess.run(command, capture_output=True, check=False).returncode
