"""Replicas of two versions on one PostgreSQL: forward to a newer schema and back while submissions come in.

The newer version is this one with one migration more, copied into a folder of its own.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect

import dure
from dure.adapters.store.connect import HEAD
from dure.model.errors import Permanent
from tests.e2e.conftest import Up
from tests.e2e.test_replicas import Scene

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

# Fewer than there are devices.
KEPT = 12
NEXT = f"{int(HEAD) + 1:04d}"
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{NEXT}", "{HEAD}", None, None
serves = "SERVES"

def upgrade():
    op.add_column("workloads", sa.Column("note", sa.String(64)))
    op.create_index("workloads_by_note", "workloads", ["note"])

def downgrade():
    op.drop_index("workloads_by_note", "workloads")
    op.drop_column("workloads", "note")
"""


def newer_version(folder: Path, serves: str) -> Path:
    """Where its sources are."""
    source = Path(dure.__file__).parent
    shutil.copytree(source, folder / "dure", ignore=shutil.ignore_patterns("__pycache__"))
    store = folder / "dure" / "adapters" / "store"
    (store / "migrations" / "versions" / f"v{NEXT}_next.py").write_text(MIGRATION.replace("SERVES", serves))
    connect = store / "connect.py"
    connect.write_text(connect.read_text().replace(f'HEAD = "{HEAD}"', f'HEAD = "{NEXT}"'))
    return folder


def migrate(url: str, source: Path, *options: str) -> str:
    command = [sys.executable, "-m", "dure", "migrate", "--store", url, *options]
    done = subprocess.run(command, cwd=source, env={"PYTHONPATH": str(source)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Client:
    """Submits one after the other for as long as it may and cancels old ones, so that there is room."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._stopped, self.accepted = scene, threading.Event(), list[str]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.2):
            name = f"job-{len(self.accepted)}"
            self._scene.submit(name)
            self.accepted.append(name)
            if len(self.accepted) > KEPT:
                self._scene.call("DELETE", f"/v1/workloads/{self.accepted[-KEPT - 1]}")

    def stop(self) -> list[str]:
        self._stopped.set()
        self._thread.join()
        return self.accepted


@pytest.fixture
def scene(tmp_path: Path, postgres_url: str, start_up: Callable[..., Up]) -> Iterator[Scene]:
    made = Scene(tmp_path, postgres_url, start_up)
    yield made
    made.close()


def replaced(scene: Scene, old: Up, new: Up) -> None:
    """The new one is there before the old one goes."""
    scene.replicas = [new, *(one for one in scene.replicas if one is not old)]
    scene.balancer.backends = [int(one.url.rpartition(":")[2]) for one in scene.replicas]
    old.stop(signal.SIGTERM)


def has_note(scene: Scene) -> bool:
    return "note" in {column["name"] for column in inspect(scene.store.engine).get_columns("workloads")}


def test_versions_are_exchanged_forward_and_back_while_submissions_come_in(
    scene: Scene, tmp_path: Path, postgres_url: str
) -> None:
    newer = newer_version(tmp_path / "newer", serves=HEAD)
    client = Client(scene)
    for old in list(scene.replicas):
        replaced(scene, old, scene.start(source=newer))
    assert has_note(scene)
    for new in list(scene.replicas):
        replaced(scene, new, scene.start())
    assert f"it was {NEXT}" in migrate(postgres_url, newer, "--to", HEAD)
    accepted = client.stop()
    assert not has_note(scene)
    scene.submit("last")
    scene.wait_running("last", *accepted[-KEPT:])
    assert {one.name for one in scene.store.list_workloads()} == {*accepted, "last"}
    assert scene.store.verify_audit()[1] == []


def test_a_version_that_a_newer_schema_does_not_serve_does_not_start(
    tmp_path: Path, postgres_url: str, start_up: Callable[..., Up]
) -> None:
    from dure.adapters.store import open_store

    open_store(postgres_url).close()
    newer = newer_version(tmp_path / "newer", serves=NEXT)
    assert NEXT in migrate(postgres_url, newer)
    with pytest.raises(Permanent, match=f"dure migrate --to {HEAD}"):
        open_store(postgres_url)
    migrate(postgres_url, newer, "--to", HEAD)
    open_store(postgres_url).close()
