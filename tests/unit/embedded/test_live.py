"""The loop of a running Dure outlives whatever goes wrong in one turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from dure.embedded.live import LiveFleet
from dure.model.catalogue import Catalogue
from dure.model.decision import Hold, JournalEntry
from dure.model.errors import Temporary
from dure.model.fleet import Connect, Fleet
from dure.model.units import DAY_S


@pytest.fixture
def live(small_fleet: Fleet, known: Catalogue, tmp_path: Path) -> Iterator[LiveFleet]:
    made = LiveFleet(small_fleet, known, tmp_path / "state", speed=60.0)
    yield made
    made.samples.close()
    made.store.close()


@pytest.mark.parametrize("trouble", [Temporary("the disk is full"), RuntimeError("a fault of ours"), KeyError("x")])
def test_a_turn_that_fails_is_tried_again(
    live: LiveFleet, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def failing() -> bool:
        raise trouble

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(live.world, "step", failing)
        live.turn()
    assert [one["event"] for one in logs] == ["turn failed, trying again"]
    live.turn()
    assert live.store.list_reports()


def test_a_save_that_the_disk_refuses_does_not_end_the_loop(live: LiveFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dure.embedded.live.write_whole", full)
    with capture_logs() as logs:
        live._try_save()
    assert "No space left" in logs[0]["error"]


def test_a_plane_that_is_told_how_much_to_keep_cuts_off_what_is_older(
    small_fleet: Fleet, known: Catalogue, tmp_path: Path
) -> None:
    made = LiveFleet(small_fleet, known, tmp_path / "state", speed=60.0, keep_s=40 * DAY_S)
    now_s = made.clock.now()
    ages = (100, 30)
    old = [JournalEntry(0, now_s - age * DAY_S, "seen", Hold("", ())) for age in ages]
    made.store.commit([], entries=old)
    made.turn()
    kept = [round((now_s - one.at_s) / DAY_S) for one in made.store.list_journal(limit=5)]
    assert kept[0] == 30
    assert made.store.verify_audit()[1] == []
    made.samples.close()
    made.store.close()


def test_it_is_ready_when_its_fleet_was_heard_or_is_to_come_through_its_own_door(
    live: LiveFleet, small_fleet: Fleet, known: Catalogue, tmp_path: Path
) -> None:
    """A balancer sends agents only to who is ready: who waits for them first would wait for ever."""
    assert not live.desk.ready(), "imitated clusters report within moments"
    live.world.step()
    assert live.desk.ready()
    joined = tuple(msgspec.structs.replace(spec, connect=Connect(agent="joined")) for spec in small_fleet.clusters)
    other = LiveFleet(msgspec.structs.replace(small_fleet, clusters=joined), known, tmp_path / "other", speed=1.0)
    assert other.desk.ready()
    other.samples.close()
    other.store.close()
