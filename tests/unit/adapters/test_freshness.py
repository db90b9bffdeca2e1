"""A remembered record is as good as one just read: every commit of anybody makes it forgotten."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dure.adapters.store import open_store
from dure.model.demand import Demand
from dure.model.errors import NotFound
from dure.model.workload import AcceptedClass, Phase, Workload, WorkloadRecord, WorkloadStatus, WorkloadType
from dure.ports import Change

SPEC = Workload("night-run", "vision", WorkloadType.BATCH, (AcceptedClass("t4"),), Demand(devices=1))


def test_a_commit_of_another_store_on_the_same_file_is_seen_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dure.db"
    reader, writer = open_store(url), open_store(url)
    record = writer.create_workload(WorkloadRecord("uid-1", SPEC, WorkloadStatus()))
    for phase in (Phase.HELD, Phase.PLACED, Phase.RUNNING, Phase.DONE):
        before = reader.fetch_workload("night-run")
        assert reader.fetch_workload("night-run") is before
        status = msgspec.structs.replace(record.status, phase=phase)
        assert writer.commit([Change("uid-1", before.version, status)]) == ()
        assert reader.fetch_workload("night-run").status.phase is phase
    reader.close()
    writer.close()


def test_a_name_used_again_answers_the_newest(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/dure.db")
    with pytest.raises(NotFound):
        store.fetch_workload("night-run")
    store.create_workload(WorkloadRecord("uid-1", SPEC, WorkloadStatus(Phase.DONE, submitted_s=1.0)))
    assert store.fetch_workload("night-run").uid == "uid-1"
    store.create_workload(WorkloadRecord("uid-2", SPEC, WorkloadStatus(submitted_s=2.0)))
    assert store.fetch_workload("night-run").uid == "uid-2"
    store.close()
